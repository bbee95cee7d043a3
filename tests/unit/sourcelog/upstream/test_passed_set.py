"""Of a dump by a GTID set: which heartbeats are places, so that a lost connection goes on from there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.gtid import GtidSet
from dm.mysql.binlog.event import SourceEvent
from dm.mysql.binlog.header import EventType
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.upstream.remote_source import _Delivered
from tests.unit.sourcelog.relaylog.binlog_bytes import event, format_description, gtid, placed, rotate, transaction
from tests.unit.sourcelog.upstream.test_address import MYSQL
from tests.unit.sourcelog.upstream.test_stream_position import NAME

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
BEGUN = Position("", "", MAGIC_SIZE, GtidSet.parse(f"{UUID}:1-5", "mysql"))


def delivered(start: Position, *events: bytes) -> _Delivered:
    """A connection that has sent these events of its first file."""
    found = _Delivered(start)
    found.expect(replace(MYSQL, server_uuid=UUID), [NAME])
    found.take(rotate(NAME, artificial=True))
    for data in placed([format_description(), *events]):
        found.take(data)
    return found


def heartbeat(found: _Delivered, end: int) -> SourceEvent:
    taken = found.take(event(EventType.HEARTBEAT, NAME.encode(), end))
    assert taken is not None
    return taken


def test_what_the_set_has_is_passed_with_the_heartbeat() -> None:
    found = delivered(BEGUN)
    taken = heartbeat(found, 5000)
    assert (taken.end_offset, taken.raw.header.artificial) == (5000, False)
    assert (found.resume.file, found.resume.offset) == (NAME, 5000)


@pytest.mark.parametrize("events", [[gtid(6)], transaction(6)[:2]], ids=["after its GTID", "inside"])
def test_no_heartbeat_is_a_place_inside_of_a_transaction(events: list[bytes]) -> None:
    found = delivered(BEGUN, *events)
    before = found.resume
    taken = heartbeat(found, 5000)
    assert taken.raw.header.artificial
    assert found.resume == before
    assert taken.end_offset < 5000


def test_a_dump_by_a_place_is_told_nothing_by_heartbeats() -> None:
    found = delivered(replace(BEGUN, server_uuid=UUID, file=NAME))
    assert heartbeat(found, 5000).raw.header.artificial
    assert found.resume.offset < 5000
