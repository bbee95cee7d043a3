"""`dmctl update-task` with a source more: it is checked, loaded and followed, and the others go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dm.cli.client import Client
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON
from tests.spark.full_load import beside
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.joined_writes import Writes
from tests.testbed.twins import forms

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mysql")]


@dataclass
class Scene:
    """A task that may get a second source, whose tables go into the same schema."""

    daemon: Daemon
    upstreams: tuple[ThrowawayServer, ThrowawayServer]
    target: ThrowawayServer
    schema: str
    mode: str = "incremental"

    def file(self, *sources: str) -> str:
        target = self.target
        to = f"host: 127.0.0.1, user: {target.user}, password: '{target.password}', port: {target.port}"
        instances = "".join(f"  - {{source-id: {source}, block-allow-list: b}}\n" for source in sources)
        (self.daemon.directory / "t.yaml").write_text(
            f"name: t\ntask-mode: {self.mode}\ntarget-database: {{{to}}}\nmeta-schema: meta_{self.schema}\n"
            f"mysql-instances:\n{instances}block-allow-list: {{b: {{do-dbs: [{self.schema}]}}}}\n"
            "spark: {master: 'local[1]'}\n"
        )
        return "t.yaml"

    def source(self, name: str, server: ThrowawayServer) -> None:
        to = f"host: 127.0.0.1, user: {server.user}, password: '{server.password}', port: {server.port}"
        (self.daemon.directory / f"{name}.yaml").write_text(f"source-id: {name}\nfrom: {{{to}}}\n")
        self.daemon.must("operate-source", "create", f"{name}.yaml")

    def synced(self, *sources: str) -> None:
        said = self.daemon.said("wait", "t", "--synced", "--timeout", "180")
        assert said.status == 0, str(said)
        assert sorted(self.daemon.status("t")) == sorted(sources)

    def identical(self) -> None:
        """Each table is at the target as its source has it."""
        report = compare(pair_tables(self.upstreams, [self.schema]), self.target)
        assert report.identical, str(report)
        assert report.rows


@pytest.fixture
def scene(
    tmp_path: Path,
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
) -> Iterator[Scene]:
    name = schema(*upstreams, target)
    with Daemon(tmp_path / "d") as daemon:
        one = Scene(daemon, upstreams, target, name)
        for source, server in zip(("one", "two"), upstreams, strict=True):
            one.source(source, server)
        yield one
    target.execute(f"DROP DATABASE IF EXISTS `meta_{name}`")


def tables(scene: Scene, *, at_target: bool) -> None:
    """One table at each source."""
    for server, table in zip(scene.upstreams, ("first", "second"), strict=True):
        create = f"CREATE TABLE `{scene.schema}`.{table} (id INT PRIMARY KEY, v INT)"
        server.execute(create)
        if at_target:
            scene.target.execute(create)


def form(scene: Scene) -> JSON:
    """How rows of the first source's table go."""
    return forms(scene.daemon.status("t")["one"]["sync"])["first"][0]


@pytest.mark.parametrize("verb", [("update-task", "--yes"), ("start-task", "-s", "two")])
@pytest.mark.ci_sample(1)
def test_a_source_that_joins_has_the_others_take_account_of_it(scene: Scene, verb: tuple[str, ...]) -> None:
    """It may alter tables that others write rows to."""
    one, _ = scene.upstreams
    tables(scene, at_target=True)
    scene.daemon.must("start-task", scene.file("one"))
    scene.synced("one")
    one.execute(f"INSERT INTO `{scene.schema}`.first VALUES (1, 1)")
    scene.synced("one")
    assert form(scene) == "events"
    scene.daemon.must(verb[0], scene.file("one", "two"), *verb[1:])
    one.execute(f"INSERT INTO `{scene.schema}`.first VALUES (2, 2)")
    scene.synced("one", "two")
    assert form(scene) == "sql"
    scene.identical()


def test_a_source_joins_a_running_task(scene: Scene) -> None:
    one, two = scene.upstreams
    tables(scene, at_target=True)
    scene.daemon.must("start-task", scene.file("one"))
    scene.synced("one")
    one.execute(f"INSERT INTO `{scene.schema}`.first VALUES (1, 1)")
    longer = scene.file("one", "two")
    planned = scene.daemon.said("update-task", longer, "--output", "json").json()
    assert (planned["newSources"], planned["tables"], planned["changes"]) == (["two"], {}, True)
    scene.synced("one")  # nothing was done
    scene.daemon.must("update-task", longer, "--yes")
    two.execute(f"INSERT INTO `{scene.schema}`.second VALUES (1, 1)")
    one.execute(f"INSERT INTO `{scene.schema}`.first VALUES (2, 2)")
    scene.synced("one", "two")
    scene.identical()
    assert scene.daemon.said("update-task", longer, "--output", "json").json()["changes"] is False
    refused = scene.daemon.said("update-task", scene.file("two"), "--yes")
    assert (refused.status, "46925" in refused.err, "without one" in refused.err) == (1, True, True), str(refused)


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seconds", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_a_source_with_a_history_is_loaded_over_kills_of_the_daemon(
    seconds: float, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon dies somewhere in the verb, or in the load; the verb is given again, as a person would."""
    scene.mode = "all"
    tables(scene, at_target=False)
    for server, table in zip(scene.upstreams, ("first", "second"), strict=True):
        server.execute(f"INSERT INTO `{scene.schema}`.{table} VALUES (1, 1), (2, 2), (3, 3)")
    scene.daemon.must("start-task", scene.file("one"))
    scene.synced("one")
    writes = [
        Writes(server, f"`{scene.schema}`.{table}")
        for server, table in zip(scene.upstreams, ("first", "second"), strict=True)
    ]
    longer = scene.file("one", "two")
    with beside(writes[0].run), beside(writes[1].run):
        try:
            # `dmctl` would start one of its own, which nobody ends.
            monkeypatch.setattr(Client, "_start_daemon", lambda _: None)
            death = threading.Timer(seconds, scene.daemon.kill)
            death.start()
            scene.daemon.said("update-task", longer, "--yes")
            death.join()
            scene.daemon.start()
            scene.daemon.must("update-task", longer, "--yes")
            scene.daemon.wait("t", lambda status: status.keys() == {"one", "two"}, "both sources are there")
            scene.daemon.wait("t", lambda status: status["two"]["unit"] == "Sync", "it is loaded")
            scene.daemon.kill_hosts()
        finally:
            for each in writes:
                each.over.set()
    scene.synced("one", "two")
    scene.identical()
