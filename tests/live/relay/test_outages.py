"""The source goes away, comes back, is another one, or has lost its past."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.binlog.header import EventType
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.relay.unit import RelayUnit
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.sourcelog.upstream.connection import identity_for
from dm.sourcelog.upstream.dump_stream import DumpStream
from dm.sourcelog.upstream.remote_source import RemoteEventSource
from tests.live.relay.relaying import (
    HEARTBEAT,
    PATIENCE,
    binlogs,
    differences,
    end_of,
    endpoint_of,
    flush_logs,
    newest,
    read_to,
    relaying,
    replicate,
    source_of,
    wait_equal,
    wait_until,
)
from tests.testbed.fixtures import ServerFactory
from tests.testbed.proxy import FaultProxy
from tests.testbed.purge import purge_binlogs
from tests.testbed.unit_thread import UnitThread

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

RESET = {"mysql": "RESET BINARY LOGS AND GTIDS", "mariadb": "RESET MASTER"}


def keep_place(root: Path, source: ThrowawayServer, flavor: Flavor) -> None:
    """Have a task whose checkpoint is the source's end."""
    Hold(root, "t").create()
    Hold(root, "t").keep_from(RelayEventSource(root, flavor).complete(Position("", *end_of(source))))


def test_a_source_that_is_down_is_waited_for(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)")
    described = source_of(source)
    with relaying(described, tmp_path) as unit:
        wait_equal(tmp_path, source)
        source.kill()
        wait_until(lambda: unit.trouble is not None, "the relay to notice")
        result = unit.status()["result"]
        assert isinstance(result, dict)
        assert "connect" in str(result["errors"])
        assert result["detail"] == "it tries again by itself"
        source.start()
        source.execute("INSERT INTO x.a VALUES (1)")
        wait_equal(tmp_path, source)
        wait_until(lambda: unit.trouble is None, "the status to be well again")


def test_connections_cut_inside_a_transaction_leave_no_seam(
    server: ServerFactory, flavor: Flavor, tmp_path: Path
) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT, b LONGBLOB)")
    source.execute("BEGIN", *(f"INSERT INTO x.a VALUES ({n}, REPEAT('x', 200000))" for n in range(20)), "COMMIT")
    first, end = Position("", binlogs(source)[0][0]), end_of(source)
    undisturbed = RemoteEventSource(endpoint_of(source), identity_for("a", "s"), heartbeat_seconds=HEARTBEAT)
    with FaultProxy(source.host, source.port) as proxy:
        disturbed = RemoteEventSource(
            endpoint_of(source, proxy.port), identity_for("b", "s"), heartbeat_seconds=HEARTBEAT
        )
        with relaying(source_of(source, proxy.port, first=first.file), tmp_path):
            for after in (1_500_000, 3_000_000):
                proxy.truncate(after, "down")
                assert proxy.truncated.wait(PATIENCE)
            wait_equal(tmp_path, source)
        proxy.truncate(2_000_000, "down")
        assert read_to(disturbed, first, end) == read_to(undisturbed, first, end)


def test_a_frozen_source_is_noticed_by_its_silence(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)")
    with relaying(source_of(source), tmp_path) as unit:
        wait_equal(tmp_path, source)
        source.freeze()
        wait_until(lambda: unit.trouble is not None, "the relay to notice")
        source.thaw()
        source.execute("INSERT INTO x.a VALUES (1)")
        wait_equal(tmp_path, source)


def test_a_purged_start_names_what_is_missing(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x")
    described = source_of(source)
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)
    keep_place(tmp_path, source, flavor)
    for _ in range(3):
        source.execute("CREATE TABLE x.t (id INT)", "DROP TABLE x.t")
        flush_logs(source)
    last = end_of(source)[0]
    purge_binlogs(source, last)
    with pytest.raises(DMError) as raised:
        RelayUnit(described, tmp_path).run(threading.Event())
    assert raised.value.name == "source-binlog-purged"
    assert last in raised.value.message
    assert_both_sets(raised.value)
    assert not raised.value.retryable


def test_a_reset_source_is_refused(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT)", "INSERT INTO x.a VALUES (1)")
    described = source_of(source)
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)
    keep_place(tmp_path, source, flavor)
    source.execute(RESET[flavor])
    source.execute(*(f"INSERT INTO x.a VALUES ({n})" for n in range(30)))
    with pytest.raises(DMError) as raised:
        RelayUnit(described, tmp_path).run(threading.Event())
    assert raised.value.name == "source-reset", str(raised.value)
    assert_both_sets(raised.value)


@pytest.mark.parametrize("rows", [1, 30], ids=["shorter", "longer"])
def test_a_reset_source_is_relayed_anew_once_no_task_has_a_place_in_its_past(
    server: ServerFactory, flavor: Flavor, tmp_path: Path, rows: int
) -> None:
    source = server(flavor)
    source.execute(
        "CREATE DATABASE x", "CREATE TABLE x.a (id INT)", *(f"INSERT INTO x.a VALUES ({n})" for n in range(5))
    )
    described = source_of(source)
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)
    old = newest(tmp_path).name
    place = RelayEventSource(tmp_path, flavor).complete(Position("", *end_of(source)))
    created = source.query("SELECT UNIX_TIMESTAMP()")
    wait_until(lambda: source.query("SELECT UNIX_TIMESTAMP()") > created, "the next second")
    source.execute(RESET[flavor], *(f"INSERT INTO x.a VALUES ({n})" for n in range(rows)))
    with pytest.raises(DMError):
        RelayUnit(described, tmp_path).run(threading.Event())
    assert newest(tmp_path).name == old, "no task has said that it needs nothing of it"
    Hold(tmp_path, "begins").create()
    Hold(tmp_path, "begins").begin()
    Hold(tmp_path, "other").create()
    for refused in (1, 2):  # a task that may have a place, and one that has
        with pytest.raises(DMError) as raised:
            RelayUnit(described, tmp_path).run(threading.Event())
        assert raised.value.name in ("source-reset", "source-gtid-diverged")
        assert newest(tmp_path).name == old, refused
        Hold(tmp_path, "other").keep_from(place)
    Hold(tmp_path, "other").remove()
    for _ in range(2):
        with relaying(described, tmp_path):
            wait_equal(tmp_path, source)
            assert [sub.number for sub in RelayDirectory(tmp_path).sub_directories()] == [2]
        source.execute("INSERT INTO x.a VALUES (99)")
    assert (tmp_path / f"{old}.reset" / place.file).exists()


@pytest.mark.ci_flavor("mysql")
def test_a_rebuilt_source_without_gtids_is_relayed_anew_once_no_task_has_a_place_in_its_past(
    server: ServerFactory, tmp_path: Path
) -> None:
    old, new = server("mysql", gtid=False), server("mysql", gtid=False)
    for each in (old, new):
        each.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT)")
    described = source_of(old)
    with relaying(described, tmp_path):
        wait_equal(tmp_path, old)
    before = newest(tmp_path).name
    Hold(tmp_path, "begins").create()
    Hold(tmp_path, "begins").begin()
    keep_place(tmp_path, old, "mysql")
    rebuilt = source_of(old, new.port)
    with pytest.raises(DMError) as raised:
        RelayUnit(rebuilt, tmp_path).run(threading.Event())
    assert (raised.value.name, newest(tmp_path).name) == ("source-changed-without-gtid", before)
    Hold(tmp_path, "t").remove()
    with relaying(rebuilt, tmp_path):
        wait_equal(tmp_path, new)
        assert newest(tmp_path).number == 2
    assert (tmp_path / f"{before}.reset").is_dir()


def assert_both_sets(error: DMError) -> None:
    """What was read and what the source has, and a way out."""
    assert "read so far: " in error.message
    assert " has: " in error.message
    assert error.workaround


def test_a_switch_to_a_replica_goes_on_in_a_new_directory(
    server: ServerFactory, flavor: Flavor, tmp_path: Path
) -> None:
    old = server(flavor)
    new = server(flavor) if flavor == "mysql" else server(flavor, log_slave_updates=True)
    old.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)", "INSERT INTO x.a VALUES (1)")
    replicate(old, new)
    first = binlogs(old)[0][0]
    with relaying(source_of(old, first=first), tmp_path):
        wait_equal(tmp_path, old)
    checkpoint = RelayEventSource(tmp_path, flavor).complete(Position("", *end_of(old)))
    wait_until(lambda: new.query("SELECT COUNT(*) FROM x.a") == ((1,),), "the replica")
    new.execute("STOP REPLICA", "INSERT INTO x.a VALUES (2)")
    flush_logs(new)
    new.execute("INSERT INTO x.a VALUES (3)")
    moved = source_of(old, new.port, first=first)
    with relaying(moved, tmp_path):
        wait_equal(tmp_path, new)
        subs = RelayDirectory(tmp_path).sub_directories()
        assert [sub.number for sub in subs] == [1, 2]
        end = end_of(new)
        for source in (
            RelayEventSource(tmp_path, flavor),
            RemoteEventSource(endpoint_of(new), identity_for("t", "s"), heartbeat_seconds=HEARTBEAT),
        ):
            events = read_to(source, checkpoint, end)
            rows = [event for event in events if event[3] in {EventType.WRITE_ROWS, EventType.WRITE_ROWS_V1}]
            assert [event[0] for event in rows][-2:] == [subs[1].server_uuid] * 2
            assert len(rows) >= 2
    assert differences(tmp_path, new) == []


def test_close_ends_a_blocked_read_at_once(server: ServerFactory, flavor: Flavor) -> None:
    source = server(flavor)
    stream = DumpStream(endpoint_of(source), identity_for("t", "s"), (binlogs(source)[0][0], 4), heartbeat_seconds=60)
    drained = threading.Event()

    def read() -> None:
        with stream:
            for batch in stream.batches():
                if not batch:
                    drained.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert drained.wait(10)
    stream.close()
    reader.join(5)
    assert not reader.is_alive()


def test_the_same_identity_takes_its_predecessors_place(server: ServerFactory, flavor: Flavor) -> None:
    source = server(flavor)
    identity = identity_for("relay", "s")
    start = (binlogs(source)[0][0], 4)
    with DumpStream(endpoint_of(source), identity, start, heartbeat_seconds=HEARTBEAT) as zombie:
        old = zombie.batches()
        while next(old):
            pass
        with DumpStream(endpoint_of(source), identity, start, heartbeat_seconds=HEARTBEAT) as heir:
            assert any(batch for _, batch in zip(range(5), heir.batches(), strict=False))
            with pytest.raises(DMError) as raised:
                for _ in old:
                    pass
    assert raised.value.name == "replica-id-taken", str(raised.value)


def test_a_reset_under_a_live_connection_is_noticed(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    source.execute(
        "CREATE DATABASE x", "CREATE TABLE x.a (id INT)", *(f"INSERT INTO x.a VALUES ({n})" for n in range(9))
    )
    relay = UnitThread(RelayUnit(source_of(source), tmp_path, heartbeat_seconds=HEARTBEAT))
    try:
        wait_equal(tmp_path, source)
        keep_place(tmp_path, source, flavor)
        source.execute(RESET[flavor])
        error = relay.wait_ended(PATIENCE)
    finally:
        relay.stop()
    assert isinstance(error, DMError)
    assert error.name == "source-gtid-diverged", str(error)


@pytest.mark.parametrize("variable", ["gtid_domain_id", "server_id"])
def test_a_source_that_changes_its_name_goes_on_in_a_new_directory(
    server: ServerFactory, tmp_path: Path, variable: str
) -> None:
    source = server("mariadb", gtid_strict_mode="ON")
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)")
    with relaying(source_of(source), tmp_path):
        wait_equal(tmp_path, source)
        source.execute("INSERT INTO x.a VALUES (1)", f"SET GLOBAL {variable} = 77", "INSERT INTO x.a VALUES (2)")
        wait_until(lambda: len(RelayDirectory(tmp_path).sub_directories()) == 2, "the relay to notice")
        source.execute("INSERT INTO x.a VALUES (3)")
        wait_equal(tmp_path, source)
    assert "77" in RelayDirectory(tmp_path).sub_directories()[1].server_uuid.split("-")
