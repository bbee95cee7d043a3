"""A source's binlog file of more than 4 GiB, pulled, killed beyond 4 GiB, and pulled on."""

from __future__ import annotations

import os
import time
from pathlib import Path
from zlib import crc32

import pytest

from dm.mysql.binlog.header import HEADER, LOG_EVENT_IGNORABLE_F, EventType
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.sourcelog.relaylog.index import ANY_SIZE, read_index
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from tests.live.relay.relaying import RelayProcess, binlogs, end_of, read_to, relaying, source_of
from tests.testbed.figures import record
from tests.testbed.fixtures import ServerFactory

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(1800)]
WRAP = 1 << 32
PIECE = 48 << 20


def blow_up(path: Path) -> int:
    """Append events without meaning until the file is above 4 GiB; their zeros are a hole in the server's file."""
    end = path.stat().st_size
    with path.open("r+b") as file:
        while end <= WRAP + PIECE:
            start, end = end, end + PIECE
            head = HEADER.pack(1, EventType.IGNORABLE, 1, PIECE, end & 0xFFFFFFFF, LOG_EVENT_IGNORABLE_F)
            body = bytes(PIECE - len(head) - 4)
            file.seek(start)
            file.write(head)
            file.seek(end - 4)
            file.write(crc32(body, crc32(head)).to_bytes(4, "little"))
    return end


def same(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as first, other.open("rb") as second:
        while piece := first.read(1 << 24):
            theirs = bytearray(second.read(1 << 24))
            if piece != theirs:
                theirs[21] &= 0xFE  # the in-use flag, in the first piece
                if piece != theirs:
                    return False
    return True


@pytest.mark.parametrize("flavor", ["mysql"], indirect=False)
def test_a_file_above_4_gib_is_pulled_and_resumed(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)", "INSERT INTO x.a VALUES (1)")
    first = binlogs(source)[0][0]
    large = end_of(source)[0]
    source.stop()
    above = blow_up(Path(source.data) / large)
    source.start()
    source.execute("INSERT INTO x.a VALUES (2)")
    described = source_of(source)
    stored = tmp_path / "relay"

    def size() -> int:
        sub = RelayDirectory(stored).last()
        path = None if sub is None else sub.path / large
        return path.stat().st_size if path is not None and path.exists() else 0

    with RelayProcess(described, stored) as process:
        while size() < WRAP + 1000:
            assert process.running
        process.kill()
        process.wait()
    with relaying(described, stored) as unit:
        # It asks for the file from its beginning, because the protocol can't name a place beyond 4 GiB.
        until = time.monotonic() + 600
        while unit.status()["relayCatchUpMaster"] is not True:
            assert time.monotonic() < until, unit.status()
            time.sleep(1)
    sub = RelayDirectory(stored).last()
    assert sub is not None
    assert same(sub.file(large), Path(source.data) / large)
    index = read_index(sub.idx(large), ANY_SIZE)
    assert index is not None
    assert (index.final, index.complete) == (True, above)
    start = Position(sub.server_uuid, large, above - PIECE)
    following = read_to(RelayEventSource(stored, flavor), start, end_of(source))
    assert [event[2] for event in following[:2]] == [above - PIECE, above]
    assert first <= large
    record("relay.over_4_gib", {"file_bytes": os.stat(sub.file(large)).st_size, "killed_beyond": WRAP})
