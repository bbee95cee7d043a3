"""A task whose binlog was purged meanwhile is refused before it starts, and never says that it is synced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.sourcelog.relaylog.layout import RelayDirectory
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.purge import purge_binlogs
from tests.testbed.sync import wait_until

pytestmark = pytest.mark.live

_OFF = ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")


@pytest.fixture
def source(server: ServerFactory, flavor: Flavor, target: ThrowawayServer) -> Iterator[ThrowawayServer]:
    created = server(flavor)
    for each in (created, target):
        each.execute("CREATE DATABASE hole", "CREATE TABLE hole.t (id INT PRIMARY KEY)")
    yield created
    target.execute("DROP DATABASE hole")


def begun(daemon: Daemon, source: ThrowawayServer, target: ThrowawayServer, tmp_path: Path, name: str) -> None:
    """A task that has followed a source with GTIDs, which has none any more where it can have none."""
    (tmp_path / "source.yaml").write_text(
        f"source-id: s\nenable-relay: true\nfrom: {{host: 127.0.0.1, user: root, password: {source.password},"
        f" port: {source.port}}}\n"
    )
    for file, ignored in (("task.yaml", ""), ("blind.yaml", "ignore-checking-items: [all]\n")):
        (tmp_path / file).write_text(
            f"name: {name}\ntask-mode: incremental\n{ignored}target-database: {{host: 127.0.0.1, user: root, password:"
            f" {target.password}, port: {target.port}}}\nmysql-instances: [{{source-id: s, block-allow-list: l}}]\n"
            "block-allow-list: {l: {do-dbs: [hole]}}\n"
        )
    daemon.must("operate-source", "create", "source.yaml")
    daemon.must("start-task", "task.yaml")
    source.execute("INSERT INTO hole.t VALUES (1)")
    if source.flavor == "mysql":
        source.execute(*(f"SET GLOBAL gtid_mode = {mode}" for mode in _OFF))
    source.execute("INSERT INTO hole.t VALUES (2)")
    daemon.must("wait", name, "--synced", "--timeout", "60")


def make_hole(source: ThrowawayServer) -> None:
    for row in (3, 4):
        source.execute(f"INSERT INTO hole.t VALUES ({row})", "FLUSH BINARY LOGS")
    purge_binlogs(source)
    source.execute("INSERT INTO hole.t VALUES (5)")


@pytest.mark.ci_flavor("mysql")
def test_a_stopped_task_is_refused_where_source_and_relay_lack_what_it_needs(
    source: ThrowawayServer, flavor: Flavor, target: ThrowawayServer, tmp_path: Path
) -> None:
    name = f"hole_{flavor}"
    with Daemon(tmp_path) as daemon:
        begun(daemon, source, target, tmp_path, name)
        daemon.must("stop-task", name)
        daemon.stop()
        make_hole(source)
        daemon.start()
        [relay] = tmp_path.glob("**/server-uuid.index")
        directory = RelayDirectory(relay.parent)
        wait_until(lambda: len(directory.sub_directories()) == 2, "no task is known: the relay goes on after the gap")
        wait_until(lambda: bool(directory.sub_directories()[1].files()), "it has a file there")

        for verb in ("check-task", "start-task"):
            refused = daemon.dmctl(verb, "task.yaml")
            assert refused.status != 0, str(refused)
            text = refused.out + refused.err
            assert "the source no longer has" in text
            assert "nothing proves that relay file" in text, "the relay's own gap is told, too"
            assert "--remove-meta" in text
        assert target.query("SELECT id FROM hole.t") == ((1,), (2,))

        daemon.dmctl("start-task", "blind.yaml")  # nobody has looked
        daemon.wait(name, lambda status: status["s"]["stage"] == "Paused", "it does not pass over the gap")
        assert "30931" in str(daemon.status(name))
        daemon.must("stop-task", name)

        daemon.must("start-task", "task.yaml", "--remove-meta")  # the way out, for whoever can do without the rows
        source.execute("INSERT INTO hole.t VALUES (6)")
        daemon.must("wait", name, "--synced", "--timeout", "60")
        assert target.query("SELECT id FROM hole.t ORDER BY id") == ((1,), (2,), (6,))
        daemon.must("stop-task", name)


@pytest.mark.ci_flavor("mysql")
def test_the_relay_knows_the_place_of_a_task_that_starts_before_it_goes_on(
    source: ThrowawayServer, flavor: Flavor, target: ThrowawayServer, tmp_path: Path
) -> None:
    name = f"hole_held_{flavor}"
    with Daemon(tmp_path) as daemon:
        begun(daemon, source, target, tmp_path, name)
        daemon.must("stop-task", name)
        daemon.must("pause-relay", "-s", "s")
        make_hole(source)
        daemon.must("start-task", "blind.yaml")
        daemon.dmctl("resume-relay", "-s", "s")
        [relay] = tmp_path.glob("**/server-uuid.index")
        said = "which task " + name + " needs"
        wait_until(lambda: said in daemon.dmctl("operate-source", "show", "-o", "json").out, "the relay waits")
        assert len(RelayDirectory(relay.parent).sub_directories()) == 1
        assert target.query("SELECT id FROM hole.t") == ((1,), (2,))
        daemon.must("stop-task", name)
