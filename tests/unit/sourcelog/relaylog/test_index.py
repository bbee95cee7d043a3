"""What an index says of its file, whoever made it: the writer as events came, or a scan that reads them again."""

from __future__ import annotations

import json
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.sourcelog.relaylog.index import ANY_SIZE, BLOCK, FileIndex, read_index, read_seal, write_index
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.scan import BlockCrcs, scan
from tests.testbed.fake_clock import FakeClock
from tests.unit.sourcelog.relaylog.binlog_bytes import (
    CREATED,
    SERVER,
    event,
    format_description,
    gtid,
    placed,
    placed_without_checksums,
    previous_gtids,
    query,
    rotate,
    rows,
    table_map,
    transaction,
    xid,
)
from tests.unit.sourcelog.relaylog.writing import FIRST, SECOND, new_writer, write

EVENTS = [
    format_description(),
    previous_gtids(4),
    gtid(5, commit=1_700_000_000_123_456),
    query(b"BEGIN"),
    table_map(7, b"x", b"a"),
    rows(),
    table_map(8, b"y", b"b"),
    rows(),
    xid(),
    gtid(6, commit=1_700_000_007_000_001),
    query(b"CREATE TABLE z (id INT)"),
    rotate(SECOND),
]


@pytest.mark.parametrize("checksums", [True, False])
def test_writer_and_scan_make_the_same_index(tmp_path: Path, checksums: bool) -> None:
    writer = new_writer(tmp_path)
    write(writer, FIRST, EVENTS, checksums=checksums)
    writer.close()
    found = scan(writer.sub.file(FIRST), None, "mysql", trust=True)
    assert found is not None
    index = read_index(writer.sub.idx(FIRST), ANY_SIZE, CREATED)
    assert index == found.index
    assert index is not None
    assert index.complete == writer.sub.file(FIRST).stat().st_size
    assert (index.first_commit, index.last_commit) == (1_700_000_000_123_456, 1_700_000_007_000_001)
    assert (index.first_time, index.last_time, index.latest_time, index.transactions) == (CREATED, CREATED, CREATED, 2)
    assert (index.gtid_before, index.gtid_set) == (f"{SERVER}:1-4", f"{SERVER}:1-6")
    assert (index.tables, index.all_tables) == (["x.a", "y.b"], True)
    assert index.checksum == checksums
    assert index.block_crcs == ([] if checksums else [crc32(writer.sub.file(FIRST).read_bytes())])


def test_tables_inside_compressed_transactions_are_not_claimed_to_be_known(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    payload = event(40, b"compressed")
    write(writer, FIRST, [format_description(), previous_gtids(0), gtid(1), payload])
    writer.close()
    index = read_index(writer.sub.idx(FIRST), ANY_SIZE)
    assert index is not None
    assert not index.all_tables


def test_a_final_index_names_the_next_file(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    write(writer, FIRST, EVENTS)
    write(writer, SECOND, [format_description(), previous_gtids(6)])
    index = read_index(writer.sub.idx(FIRST), ANY_SIZE)
    assert index is not None
    assert (index.final, index.next_file) == (True, SECOND)
    assert read_seal(writer.sub.idx(FIRST)) == (True, writer.sub.file(FIRST).stat().st_size)


@given(st.lists(st.integers(0, 3 * BLOCK // 2), max_size=6), st.integers(0, 1 << 30))
def test_block_crcs_cover_any_beginning_of_a_file(sizes: list[int], cut: int) -> None:
    data = bytes(range(256)) * (sum(sizes) // 256 + 1)
    blocks, at = BlockCrcs(), 0
    for size in sizes:
        blocks.add(data[at : at + size])
        at += size
    cut = cut % (at + 1)
    expected = [crc32(data[start : min(start + BLOCK, cut)]) for start in range(0, cut, BLOCK)]
    found = blocks.upto(cut, lambda start, count: data[start : start + count])
    assert found == expected
    resumed = BlockCrcs(found, cut)
    resumed.add(data[cut:at])
    assert resumed.upto(at, lambda start, count: b"") == blocks.upto(at, lambda start, count: b"")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff",
        b'{"format": 1, "complete": 500, "created": 1700000000}',
        b'{"format": 2, "final": true, "size": 500}\n{"complete": 500}',
        b'{"format": 2, "final": true, "size": "x", "crc": 0}\n',
    ],
)
def test_an_index_that_makes_no_sense_or_is_of_an_older_format_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "idx").write_bytes(content)
    assert read_index(tmp_path / "idx", 1000, CREATED) is None


def test_an_index_of_another_file_counts_as_none(tmp_path: Path) -> None:
    write_index(tmp_path / "idx", FileIndex(complete=500, created=CREATED))
    assert read_index(tmp_path / "idx", 499, CREATED) is None
    assert read_index(tmp_path / "idx", 500, CREATED + 1) is None
    assert read_index(tmp_path / "idx", 500, CREATED) == FileIndex(complete=500, created=CREATED)


def test_no_flipped_bit_of_an_index_is_believed(tmp_path: Path) -> None:
    whole = FileIndex(complete=4711, created=CREATED, gtid_set=f"{SERVER}:1-6", marks=[(4711, CREATED)])
    write_index(tmp_path / "idx", whole)
    content = (tmp_path / "idx").read_bytes()
    for bit in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        (tmp_path / "idx").write_bytes(damaged)
        try:
            found = read_index(tmp_path / "idx", ANY_SIZE, CREATED)
        except DMError:  # its number is a newer one
            continue
        assert found in (None, whole)


def test_an_old_index_is_made_anew_by_the_next_start(tmp_path: Path) -> None:
    sub = RelayDirectory(tmp_path).add(SERVER)
    events = placed([format_description(), previous_gtids(0), *transaction(1)])
    sub.file(FIRST).write_bytes(b"\xfebin" + b"".join(events))
    sub.idx(FIRST).write_text(json.dumps({"format": 1, "complete": 100, "created": CREATED}))
    writer = new_writer(tmp_path, resume=True)
    assert writer.position.offset == sub.file(FIRST).stat().st_size
    writer.close()
    index = read_index(sub.idx(FIRST), ANY_SIZE)
    assert index is not None
    assert index.transactions == 1


def test_without_checksums_the_index_follows_each_mib_and_each_heartbeat(tmp_path: Path) -> None:
    clock = FakeClock()
    writer = new_writer(tmp_path, clock=clock)
    events = placed_without_checksums([format_description(), previous_gtids(0), *transaction(1, 700_000)])
    end = write(writer, FIRST, [], ready=events)
    assert read_index(writer.sub.idx(FIRST), ANY_SIZE) is None
    writer.heartbeat()
    index = read_index(writer.sub.idx(FIRST), ANY_SIZE)
    assert index is not None
    assert index.complete == end
    more = placed_without_checksums([*transaction(2, 700_000), *transaction(3, 700_000)], end)
    end = write(writer, FIRST, [], ready=more, at=end)
    index = read_index(writer.sub.idx(FIRST), ANY_SIZE)
    assert index is not None
    assert (index.complete, len(index.block_crcs)) == (end, 3)
