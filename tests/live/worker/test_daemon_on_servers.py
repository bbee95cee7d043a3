"""The daemon and `dmctl` over real units and servers: kills, outages, a relay that does not reach back, secrets."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.unit.worker.home import TestHome, until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300), pytest.mark.ci_flavor("mysql")]

PASSWORD = "canary-3e77"
# Exactly what the prechecks ask for, so that these tests prove that it is enough.
AT_SOURCE = "SELECT, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT"
AT_TARGET = "CREATE, SELECT, INSERT, UPDATE, DELETE, ALTER, DROP, INDEX, REFERENCES"


@dataclass
class Copy:
    """A home whose daemon `dmctl` starts by itself, and a schema on both sides."""

    home: TestHome
    upstream: ThrowawayServer
    target: ThrowawayServer
    schema: str

    def start(self, mode: str, *, source_lines: str = "", meta: str = "", instance_lines: str = "") -> None:
        xa = ["XA_RECOVER_ADMIN ON *.*"] if self.upstream.flavor == "mysql" else []
        self.upstream.create_user(self.user, PASSWORD, f"{AT_SOURCE} ON *.*", *xa)
        schemas = (self.schema, f"meta_{self.schema}")
        self.target.create_user(self.user, PASSWORD, *(f"{AT_TARGET} ON `{schema}`.*" for schema in schemas))
        login = f"host: 127.0.0.1, user: {self.user}, password: {PASSWORD}"
        source = self.home.file(
            "one.yaml", f"source-id: one\n{source_lines}from: {{{login}, port: {self.upstream.port}}}\n"
        )
        task = self.home.file(
            "t.yaml",
            f"name: t\ntask-mode: {mode}\ntarget-database: {{{login}, port: {self.target.port}}}\n"
            f"meta-schema: meta_{self.schema}\n"
            f"mysql-instances:\n  - source-id: one\n    block-allow-list: b\n{instance_lines}{meta}"
            f"block-allow-list: {{b: {{do-dbs: [{self.schema}]}}}}\n"
            "spark: {master: 'local[1]'}\n",
        )
        assert self.home.dmctl("operate-source", "create", source).status == 0  # and this starts the daemon
        started = self.home.ok("start-task", task)
        asked_for = [result for result in started["checkResult"]["results"] if result["name"].endswith("_privilege")]
        assert {result["state"] for result in asked_for} == {"success"}

    @property
    def user(self) -> str:
        return f"mover_{self.schema}"

    @property
    def daemon_pid(self) -> int:
        return int((self.home.directory / "lock").read_text())

    def hosts(self) -> dict[str, int]:
        """The unit processes by name: the children of the daemon."""
        found: dict[str, int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                words = _words(entry / "cmdline")
                if "dm.task.host" in words and words[-1] == str(self.daemon_pid):
                    found[words[-2]] = int(entry.name)
        return found

    def sync(self) -> Any:
        status = self.home.subtask("t")
        return status.get("sync") if status["unit"] == "Sync" else None

    def write(self, *statements: str) -> None:
        self.upstream.execute(*(statement.format(s=f"`{self.schema}`") for statement in statements))

    def identical(self) -> bool:
        report = compare(pair_tables([self.upstream], [self.schema]), self.target)
        return report.identical and len(report.tables) == 2


def _words(file: Path) -> list[str]:
    try:
        return file.read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:  # it ended while we looked
        return []


@pytest.fixture
def copy(tmp_path: Path, server: ServerFactory, target: ThrowawayServer, schema: SchemaFactory) -> Iterator[Copy]:
    upstream = server(target.flavor)
    name = schema(upstream, target)
    upstream.execute(
        f"CREATE TABLE `{name}`.keyed (id INT PRIMARY KEY, v VARCHAR(40))",
        f"CREATE TABLE `{name}`.keyless (v INT)",
        f"INSERT INTO `{name}`.keyed VALUES (1, 'a'), (2, 'b')",
        f"INSERT INTO `{name}`.keyless VALUES (1), (1), (2)",
    )
    home = TestHome(tmp_path / "home")
    home.directory.mkdir()
    one = Copy(home, upstream, target, name)
    yield one
    home.dmctl("shutdown")
    target.execute(f"DROP DATABASE IF EXISTS `meta_{name}`", f"DROP USER IF EXISTS `{one.user}`")


@pytest.mark.chaos  # make test kills the daemon in tests/live/hold, and driver and syncer in tests of their own
@pytest.mark.spark
def test_a_full_copy_goes_on_through_kills_of_everything(copy: Copy) -> None:
    copy.start("all")
    until(lambda: copy.hosts().get("spark:t"))
    os.kill(copy.hosts()["spark:t"], signal.SIGKILL)
    copy.write("INSERT INTO {s}.keyed VALUES (3, 'while it was dumped')")
    until(copy.sync)
    copy.write("INSERT INTO {s}.keyless VALUES (7), (7)", "UPDATE {s}.keyed SET v = 'B' WHERE id = 2")
    until(copy.identical)

    for name in ("sync:t:one", "relay:one"):
        os.kill(copy.hosts()[name], signal.SIGKILL)
        copy.write("INSERT INTO {s}.keyless VALUES (8)", "UPDATE {s}.keyed SET v = CONCAT(v, '!')")
        until(copy.identical)

    old, killed = copy.daemon_pid, copy.hosts()
    os.kill(old, signal.SIGKILL)
    copy.write("INSERT INTO {s}.keyless VALUES (9)", "ALTER TABLE {s}.keyed ADD COLUMN w INT DEFAULT 5")
    until(lambda: not any(Path(f"/proc/{pid}/cwd").exists() for pid in killed.values()))
    assert "starting a private one" in copy.home.dmctl("query-status").err
    until(copy.identical)
    until(lambda: copy.sync()["synced"])
    assert copy.daemon_pid != old

    _no_secret_anywhere(copy)


def test_an_outage_of_the_source_is_waited_for_and_said(copy: Copy) -> None:
    _create_at_target(copy)
    copy.start("incremental")
    until(lambda: (copy.sync() or {}).get("syncerBinlog"))
    copy.upstream.kill()
    waiting = until(lambda: _why(copy))
    assert str(copy.upstream.port) in waiting
    copy.upstream.restart()
    copy.write("INSERT INTO {s}.keyed VALUES (10, 'after')")
    until(lambda: copy.target.query(f"SELECT 1 FROM `{copy.schema}`.keyed WHERE id = 10"))
    until(lambda: not _why(copy))


def test_a_relay_that_does_not_reach_back_is_passed_by(copy: Copy) -> None:
    _create_at_target(copy)
    status = "SHOW BINARY LOG STATUS" if copy.upstream.flavor == "mysql" else "SHOW MASTER STATUS"
    file, end = copy.upstream.query(status)[0][:2]
    copy.write("INSERT INTO {s}.keyed VALUES (20, 'in an older file')", "FLUSH BINARY LOGS")
    copy.start(
        "incremental",
        source_lines="enable-relay: true\n",
        meta=f"    meta: {{binlog-name: {file}, binlog-pos: {end}}}\n",
    )
    copy.write("INSERT INTO {s}.keyed VALUES (21, 'in the file the relay has')")
    until(lambda: copy.target.query(f"SELECT 1 FROM `{copy.schema}`.keyed WHERE id = 21"))
    assert copy.sync()["binlogType"] == "remote"
    copy.home.ok("pause-task", "t")
    copy.home.ok("resume-task", "t")
    copy.write("INSERT INTO {s}.keyed VALUES (22, 'after the resume')")
    until(lambda: copy.target.query(f"SELECT 1 FROM `{copy.schema}`.keyed WHERE id = 22"))
    assert copy.sync()["binlogType"] == "local", "from then on the relay serves"


def _create_at_target(copy: Copy) -> None:
    copy.target.execute(
        f"CREATE TABLE `{copy.schema}`.keyed (id INT PRIMARY KEY, v VARCHAR(40))",
        f"CREATE TABLE `{copy.schema}`.keyless (v INT)",
    )


def _why(copy: Copy) -> str:
    """What query-status says a task is waiting for, or was stopped by."""
    status = copy.home.subtask("t")
    result = status["result"] or {"errors": [], "detail": ""}
    errors = " ".join(f"{error['Message']} {error['RawCause']}" for error in result["errors"])
    return f"{errors} {result['detail']} {(status.get('sync') or {}).get('waiting', '')}".strip()


def _no_secret_anywhere(copy: Copy) -> None:
    pids = [copy.daemon_pid, *copy.hosts().values()]
    for pid in pids:
        for name in ("cmdline", "environ"):
            assert PASSWORD.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    for log in (copy.home.directory / "log").iterdir():
        assert PASSWORD not in log.read_text(errors="replace")
    for words in (["query-status", "t"], ["operate-source", "show"], ["check-task", "t.yaml"]):
        done = copy.home.dmctl(*words, "--output", "json")
        assert PASSWORD not in done.out + done.err
