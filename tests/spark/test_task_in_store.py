"""A task whose dump is in object storage, as a person runs it: a daemon, the verbs, and a role whose keys end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.dumpfiles.s3_storage import S3Storage
from tests.live.cli.newcomer import Newcomer
from tests.testbed.daemon import Daemon
from tests.testbed.park import ServerPark
from tests.testbed.s3 import ACCESS_KEY, SECRET_KEY, S3Server

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos]

ROLE = "role-arn=arn:aws:iam::123456789012:role/dumps&external-id=ours"
ROWS = 2000


class Person(Newcomer):
    """A newcomer whose task file puts the dump into a bucket; the keys are in the shell's environment."""

    def __init__(self, park: ServerPark, s3: S3Server, directory: Path) -> None:
        super().__init__(park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target"), directory)
        self.daemon = Daemon(directory, {"KEY": ACCESS_KEY, "SECRET": SECRET_KEY})
        self.upstream.execute(
            f"INSERT INTO {self.schema}.orders SELECT seq, 'many' FROM {self.schema}.seq_10_to_{ROWS}",
        )
        self.target.execute(f"DROP DATABASE {self.schema}")
        self.place = s3.place(f"{self.schema}/orders.here")
        keys = "access-key=${KEY}&secret-access-key=${SECRET}"
        self.dir = f"s3://{self.place.bucket}/{self.schema}?endpoint={s3.endpoint}&{keys}&{ROLE}"

    @property
    def objects(self) -> list[str]:
        """The dump's files."""
        return S3Storage(self.place, self.directory / "looked-at").names()

    def start(self) -> None:
        """Write the files, and start."""
        source = self.file("source.yaml", self.source_text("here", self.good_source_user()))
        text = self.task_text("orders", "here", self.good_target_user(), mode="all")
        dumps = f"loaders:\n  bucket: {{dir: '{self.dir}'}}\nmydumpers:\n  small: {{rows: 500}}\n"
        named = "    block-allow-list: shop\n    loader-config-name: bucket\n    mydumper-config-name: small\n"
        task = self.file("task.yaml", text.replace("    block-allow-list: shop\n", named) + dumps)
        self.daemon.must("operate-source", "create", source)
        self.daemon.must("check-task", task)
        assert self.objects == [], "a check leaves nothing"
        self.daemon.must("start-task", task)

    def rows(self, server: ThrowawayServer) -> list[tuple[object, ...]]:
        """What a server has."""
        return list(server.query(f"SELECT id, v FROM {self.schema}.orders ORDER BY id"))


@pytest.fixture
def person(park: ServerPark, s3: S3Server, tmp_path: Path) -> Iterator[Person]:
    one = Person(park, s3, tmp_path)
    yield one
    one.close()


def test_a_task_is_killed_stopped_and_goes_on_from_the_store(person: Person) -> None:
    released = person.directory / "released"
    daemon = person.daemon.start(DM_FAULTS=f"dumper.chunk_recorded=hang:{released}@2")
    person.start()
    daemon.wait("orders", lambda _: any(name.endswith(".parquet") for name in person.objects), "chunks in the bucket")
    begun = set(person.objects)
    shown = daemon.must("query-status", "orders").out
    assert "Dump" in shown
    person.upstream.execute(f"INSERT INTO {person.schema}.orders VALUES ({ROWS + 1}, 'meanwhile')")

    daemon.kill_hosts()
    released.touch()
    stopped = daemon.must("stop-task", "orders").out
    assert "Stopped" in stopped
    assert begun <= set(person.objects), "a stopped task keeps what it has"
    daemon.must("start-task", "task.yaml")
    assert "Running Sync" in daemon.must("wait", "orders", "--synced", "--timeout", "60").out
    assert person.rows(person.target) == person.rows(person.upstream)
    assert person.rows(person.target)[-1] == (ROWS + 1, "meanwhile")
    assert person.objects == [], "what is loaded leaves the bucket"
    shown = daemon.must("config", "task", "orders").out
    assert "role-arn=arn:aws:iam::123456789012:role/dumps" in shown
    logs = "".join(path.read_text() for path in daemon.home.glob("log/*"))
    assert [text for text in (ACCESS_KEY, SECRET_KEY) if text in shown + logs] == []
