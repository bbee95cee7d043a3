"""The contract of event sources: relay files and the server give the same events."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.gtid import GtidSet
from dm.mysql.binlog.event import EventSource
from dm.mysql.binlog.header import LOG_EVENT_ARTIFICIAL_F, EventType
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.sourcelog.upstream.connection import identity_for
from dm.sourcelog.upstream.remote_source import RemoteEventSource
from tests.live.relay.relaying import (
    HEARTBEAT,
    binlogs,
    end_of,
    endpoint_of,
    read_to,
    relaying,
    source_of,
    wait_equal,
)
from tests.live.relay.traffic import of_every_kind
from tests.testbed.fixtures import ServerFactory

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


def remote(server: ThrowawayServer) -> RemoteEventSource:
    return RemoteEventSource(endpoint_of(server), identity_for("task", "s"), heartbeat_seconds=HEARTBEAT)


def test_both_sources_give_the_same_events_from_every_transaction_end(
    server: ServerFactory, flavor: Flavor, tmp_path: Path
) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x")
    of_every_kind(source, "x")
    with relaying(source_of(source), tmp_path):
        wait_equal(tmp_path, source)
    local = RelayEventSource(tmp_path, flavor)
    first, end = Position("", binlogs(source)[0][0]), end_of(source)
    everything = read_to(local, first, end)
    assert everything == read_to(remote(source), first, end)
    ends = [event for event in everything if event[3] in {EventType.XID, EventType.XA_PREPARE}]
    for uuid, file, offset, *_ in ends[:: max(1, len(ends) // 8)]:
        start = Position(uuid, file, offset)
        from_files = read_to(local, start, end)
        assert from_files == read_to(remote(source), start, end)
        assert from_files[0][3] == EventType.FORMAT_DESCRIPTION
        assert from_files[0][4] & LOG_EVENT_ARTIFICIAL_F
        assert from_files[1:] == everything[everything.index(ends[0]) + 1 :][-len(from_files) + 1 :]
        assert local.complete(start) == remote(source).complete(start)


def test_a_start_by_gtid_set_reaches_every_missing_transaction(
    server: ServerFactory, flavor: Flavor, tmp_path: Path
) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x")
    of_every_kind(source, "x")
    with relaying(source_of(source), tmp_path):
        wait_equal(tmp_path, source)
    second_file = binlogs(source)[1][0]
    known: EventSource = RelayEventSource(tmp_path, flavor)
    at_second = known.complete(Position("", second_file))
    end = end_of(source)
    by_gtid = Position("", "", gtid_set=at_second.gtid_set)
    wanted = {event for event in read_to(known, at_second, end) if event[5]}
    for found in (known, remote(source)):
        assert wanted <= set(read_to(found, by_gtid, end)) | _leading(wanted)


def _leading(events: set[tuple[str, str, int, int, int, bytes]]) -> set[tuple[str, str, int, int, int, bytes]]:
    return {event for event in events if event[3] in {EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST}}


def test_the_live_end_is_followed_and_proven_idle(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)")
    file, offset = end_of(source)
    with relaying(source_of(source), tmp_path):
        for reader in (RelayEventSource(tmp_path, flavor), remote(source)):
            stop = threading.Event()
            stream = reader.events(Position("", file, offset), stop)
            heartbeats = 0
            for event in stream:
                if event is None or event.raw.header.type != EventType.HEARTBEAT:
                    continue
                assert (event.file, event.end_offset) == (file, offset)
                heartbeats += 1
                if heartbeats == 2:
                    break
            source.execute(f"INSERT INTO x.a VALUES ({offset})")
            file, offset = end_of(source)
            for event in stream:
                if event is not None and (event.file, event.end_offset) == (file, offset):
                    break
            stop.set()
            assert [event for event in stream if event is not None] == []


def test_a_start_without_gtid_set_learns_it(server: ServerFactory, flavor: Flavor) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)")
    file, offset = end_of(source)
    variable = "gtid_binlog_pos" if flavor == "mariadb" else "gtid_executed"
    expected = GtidSet.parse(str(source.query(f"SELECT @@global.{variable}")[0][0]), flavor)
    source.execute("INSERT INTO x.a VALUES (1)")
    completed = remote(source).complete(Position("", file, offset))
    assert completed.gtid_set == expected
    assert completed.server_uuid
