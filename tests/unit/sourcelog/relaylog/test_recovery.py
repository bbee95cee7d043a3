"""What is left of a relay file after any kind of end."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dm.errors import DMError
from dm.sourcelog.relaylog import checked_file
from dm.sourcelog.relaylog.index import read_seal, write_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory
from dm.sourcelog.relaylog.recovery import gtids_at, gtids_before_file, recover
from dm.sourcelog.relaylog.scan import scan
from tests.testbed.figures import record
from tests.unit.sourcelog.relaylog.binlog_bytes import (
    SERVER,
    file_bytes,
    format_description,
    placed,
    placed_without_checksums,
    previous_gtids,
    rotate,
    transaction,
)
from tests.unit.sourcelog.relaylog.writing import new_writer, write

NAME = "mysql-bin.000001"
HEAD = [format_description(), previous_gtids(0)]
EVENTS = [*HEAD, *transaction(1), *transaction(2), *transaction(3, size=300)]
WHOLE = file_bytes(EVENTS)


def ends() -> list[int]:
    """Offsets after the head's events and after each transaction."""
    found, at = [], 4
    for number, event in enumerate(placed(EVENTS)):
        at += len(event)
        if number < len(HEAD) or (number - len(HEAD)) % 5 == 4:
            found.append(at)
    return found


@pytest.fixture
def sub(tmp_path: Path) -> SubDirectory:
    return RelayDirectory(tmp_path).add(SERVER)


def test_a_file_cut_at_any_byte_ends_at_its_last_complete_transaction(sub: SubDirectory) -> None:
    for size in range(len(WHOLE) + 1):
        sub.file(NAME).write_bytes(WHOLE[:size])
        recovered = recover(sub, "mysql")
        complete = [end for end in ends() if end <= size]
        if not complete:
            assert recovered is None
            assert not sub.files()
            continue
        assert recovered is not None
        assert recovered.index.complete == complete[-1]
        assert sub.file(NAME).read_bytes() == WHOLE[: complete[-1]]
        transactions = max(0, len(complete) - len(HEAD))
        assert recovered.index.transactions == transactions
        assert str(recovered.position.gtid_set) == (
            "" if not transactions else f"{SERVER}:1" if transactions == 1 else f"{SERVER}:1-{transactions}"
        )


@given(st.integers(4, len(WHOLE) - 1), st.integers(0, 7))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
def test_a_flipped_bit_is_never_part_of_what_is_kept(sub: SubDirectory, at: int, bit: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[at] ^= 1 << bit
    sub.file(NAME).write_bytes(damaged)
    sub.idx(NAME).unlink(missing_ok=True)
    recovered = recover(sub, "mysql")
    if recovered is not None:
        assert recovered.index.complete <= at
        assert sub.file(NAME).read_bytes() == WHOLE[: recovered.index.complete]


def test_a_newest_file_that_never_began_is_forgotten(sub: SubDirectory) -> None:
    sub.file(NAME).write_bytes(file_bytes([*EVENTS, rotate("mysql-bin.000002")]))
    sub.file("mysql-bin.000002").write_bytes(b"\xfeb")
    recovered = recover(sub, "mysql")
    assert recovered is not None
    assert recovered.file == NAME
    assert sub.files() == [NAME]


def test_an_index_shortens_the_scan_and_changes_nothing(sub: SubDirectory) -> None:
    path, idx = sub.file(NAME), sub.idx(NAME)
    path.write_bytes(WHOLE)
    from_start = scan(path, None, "mysql")
    assert from_start is not None
    for upto in ends():
        at_end = scan(path, None, "mysql", upto=upto)
        assert at_end is not None
        write_index(idx, at_end.index)
        found = scan(path, idx, "mysql")
        assert found is not None
        assert found.index == from_start.index
        assert found.stopped == len(WHOLE)


def test_gtids_at_an_offset(sub: SubDirectory) -> None:
    sub.file(NAME).write_bytes(file_bytes([format_description(), previous_gtids(9), *transaction(10)]))
    assert str(gtids_before_file(sub, NAME)) == f"{SERVER}:1-9"
    assert str(gtids_at(sub, NAME, 4, "mysql")) == f"{SERVER}:1-9"
    assert str(gtids_at(sub, NAME, sub.file(NAME).stat().st_size, "mysql")) == f"{SERVER}:1-10"


def test_a_file_that_had_begun_is_not_deleted_because_its_beginning_is_damaged(sub: SubDirectory) -> None:
    sub.file(NAME).write_bytes(WHOLE)
    recover(sub, "mysql")
    damaged = bytearray(WHOLE)
    damaged[10] ^= 1
    sub.file(NAME).write_bytes(damaged)
    with pytest.raises(DMError) as raised:
        recover(sub, "mysql")
    assert (raised.value.name, raised.value.retryable) == ("relay-file-corrupt", True)
    assert sub.file(NAME).read_bytes() == damaged
    [note] = checked_file.reported(sub)
    checked_file.give_up(sub, note, "the source has it no more", SERVER)
    with pytest.raises(DMError) as raised:
        recover(sub, "mysql")
    assert raised.value.name == "relay-file-lost"


def test_an_index_ahead_of_its_file_is_corrected_before_a_reader_sees_damage(sub: SubDirectory) -> None:
    """A power cut without fsync: the index came to the disk, the data did not."""
    sub.file(NAME).write_bytes(WHOLE)
    recover(sub, "mysql")
    kept = ends()[-2]
    sub.file(NAME).write_bytes(WHOLE[: kept + 3])
    recovered = recover(sub, "mysql")
    assert recovered is not None
    assert recovered.index.complete == kept
    assert read_seal(sub.idx(NAME)) == (False, kept)


def test_without_checksums_only_what_the_index_proves_is_kept(sub: SubDirectory) -> None:
    events = placed_without_checksums(EVENTS)
    whole = b"\xfebin" + b"".join(events)
    described = 4 + len(events[0])
    sub.file(NAME).write_bytes(whole)
    recovered = recover(sub, "mysql")
    assert recovered is not None
    assert recovered.index.complete == described
    sub.file(NAME).write_bytes(whole)
    proven = scan(sub.file(NAME), None, "mysql", upto=len(whole) - 100, trust=True)
    assert proven is not None
    write_index(sub.idx(NAME), proven.index)
    recovered = recover(sub, "mysql")
    assert recovered is not None
    assert described < recovered.index.complete == proven.index.complete < len(whole)
    assert recovered.index.block_crcs == [crc32(whole[: proven.index.complete])]


@pytest.mark.parametrize("size", [8 << 20, pytest.param(1 << 30, marks=pytest.mark.chaos)])
def test_after_a_clean_stop_only_the_index_is_read(tmp_path: Path, size: int) -> None:
    writer = new_writer(tmp_path)
    end = write(writer, NAME, HEAD)
    number = 0
    while end < size:
        number += 1
        end = write(writer, NAME, transaction(number, 4 << 20), at=end)
    *unfinished, _ = transaction(number + 1, 4 << 20)
    write(writer, NAME, unfinished, at=end)
    writer.close()
    recovered = recover(writer.sub, "mysql")
    assert recovered is not None
    assert recovered.position.offset == end >= size
    assert recovered.index.transactions == number
    assert recovered.bytes_read <= 4100  # the magic, and a piece that holds the format description
    idx = writer.sub.idx(NAME).stat().st_size
    assert idx < 64 << 10
    record("relay.clean_start", {"file_bytes": end, "file_bytes_read": recovered.bytes_read, "index_bytes": idx})
