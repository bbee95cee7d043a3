"""What is left of a relay file after any kind of end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dm.relaylog.index import write_index
from dm.relaylog.layout import RelayDirectory, SubDirectory
from dm.relaylog.recovery import gtids_at, gtids_before_file, recover
from dm.relaylog.scan import scan
from tests.unit.relaylog.binlog_bytes import (
    SERVER,
    file_bytes,
    format_description,
    placed,
    previous_gtids,
    rotate,
    transaction,
)

NAME = "mysql-bin.000001"
HEAD = [format_description(), previous_gtids(0)]
EVENTS = [*HEAD, *transaction(1), *transaction(2), *transaction(3, size=300)]
WHOLE = file_bytes(EVENTS)


def ends() -> list[int]:
    """Offsets behind the head's events and behind each transaction."""
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
