"""Files above 4 GiB: offsets have 64 bits, although the events' own end wraps. Most of the file is a hole."""

from __future__ import annotations

import os
import threading
from itertools import islice
from pathlib import Path

from dm.mysql.binlog.frame import MAGIC
from dm.mysql.binlog.header import EventType
from dm.position import Position
from dm.sourcelog.relaylog.index import FileIndex, read_index, write_index
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.recovery import recover
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from tests.unit.sourcelog.relaylog.binlog_bytes import CREATED, SERVER, placed, rotate, transaction
from tests.unit.sourcelog.relaylog.writing import FIRST, SECOND, head, new_writer, write

WRAP = 1 << 32


def test_a_file_grows_over_4_gib_is_recovered_and_read_there(tmp_path: Path) -> None:
    sub = RelayDirectory(tmp_path).add(SERVER)
    before = WRAP - 150  # the first transaction lies on both sides
    beginning = MAGIC + b"".join(placed(head(6)))
    sub.file(FIRST).write_bytes(beginning)
    os.truncate(sub.file(FIRST), before)
    write_index(sub.idx(FIRST), FileIndex(complete=before, created=CREATED, gtid_set=f"{SERVER}:1-6"))
    writer = new_writer(tmp_path, resume=True)
    assert writer.position == Position(SERVER, FIRST, before, writer.position.gtid_set)
    events = [*transaction(7), *transaction(8), *transaction(9)]
    end = write(writer, FIRST, events, at=before)
    assert WRAP < end == sub.file(FIRST).stat().st_size
    assert end - WRAP == int.from_bytes(placed(events, before)[-1][13:17], "little")
    writer.abandon()  # as a crash: the index is still the one from below 4 GiB

    found = recover(sub, "mysql")
    assert found is not None
    assert (found.position.offset, str(found.position.gtid_set)) == (end, f"{SERVER}:1-9")
    assert found.bytes_read < 10_000
    for start in (before, end - sum(map(len, transaction(9)))):
        stop = threading.Event()
        source = RelayEventSource(tmp_path, "mysql", idle_seconds=0.01)
        given = [item for item in islice(source.events(Position(SERVER, FIRST, start), stop), 1 + 15) if item]
        real = [item for item in given if item.raw.header.type != EventType.FORMAT_DESCRIPTION]
        assert [item.end_offset for item in real][-1] == end
        assert b"".join(item.raw.data for item in real) == b"".join(placed(events, before))[start - end :]

    again = new_writer(tmp_path, resume=True)
    end = write(again, FIRST, [*transaction(10), rotate(SECOND)], at=end)
    write(again, SECOND, head(10))
    again.close()
    index = read_index(sub.idx(FIRST), end, CREATED)
    assert index is not None
    assert (index.complete, index.final, index.gtid_set) == (end, True, f"{SERVER}:1-10")
    stop = threading.Event()
    source = RelayEventSource(tmp_path, "mysql", idle_seconds=0.01)
    given = [item for item in islice(source.events(Position(SERVER, FIRST, before), stop), 30) if item]
    assert [item.file for item in given][-2:] == [SECOND, SECOND]
