"""Nothing is passed over between two relay files, whatever transactions without GTIDs stood in between."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.errors import DMError
from dm.position import Position
from dm.sourcelog.relaylog import recovery
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.recovery import gtids_at
from dm.sourcelog.relaylog.relay_source import RelayEventSource, unbroken_end
from dm.sourcelog.relaylog.scan import Scan, scan
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER, anonymous, rotate, transaction
from tests.unit.sourcelog.relaylog.relay_files import binlog
from tests.unit.sourcelog.relaylog.writing import FIRST, SECOND, THIRD, head, new_writer, write

OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
histories = st.lists(st.lists(st.booleans(), max_size=3), min_size=3, max_size=6)  # files of transactions: with GTIDs?


def store(root: Path, history: list[list[bool]], kept: range, server: str = SERVER) -> int:
    """Relay these files of a source in a new sub-directory; returns how many transactions with GTIDs there were."""
    named = 0
    writer = new_writer(root, server)
    for number, file in enumerate(history):
        events = head(named)
        for has_gtid in file:
            named += has_gtid
            events += transaction(named) if has_gtid else anonymous()
        if number + 1 < len(history):
            events.append(rotate(binlog(number + 2)))
        if number in kept:
            write(writer, binlog(number + 1), events)
    writer.close()
    return named


def read(root: Path) -> tuple[list[tuple[str, str]], DMError | None]:
    found: list[tuple[str, str]] = []
    try:
        for item in RelayEventSource(root, "mysql", idle_seconds=0.01).events(
            Position(SERVER, FIRST), threading.Event()
        ):
            if item is None:
                break
            found.append((item.server_uuid, item.file))
    except DMError as error:
        return found, error
    return found, None


@settings(max_examples=30)
@given(history=histories, data=st.data())
def test_files_that_the_source_has_purged_are_never_passed_over(history: list[list[bool]], data: st.DataObject) -> None:
    first_gone = data.draw(st.integers(1, len(history) - 2))
    there_again = data.draw(st.integers(first_gone, len(history) - 1))
    with TemporaryDirectory() as root:
        store(Path(root), history, range(first_gone))
        store(Path(root), history, range(there_again, len(history)))
        found, error = read(Path(root))
        start = Position(SERVER, FIRST)
        if first_gone == there_again:
            assert error is None
            assert found[-1] == (SERVER, binlog(len(history)))
            end = unbroken_end(Path(root), "mysql", start)
            assert end is not None
            assert end.file == binlog(len(history))
        else:
            assert error is not None
            assert error.name == "relay-gap"
            assert found[-1] == (SERVER, binlog(first_gone))
            with pytest.raises(DMError) as raised:
                unbroken_end(Path(root), "mysql", start)
            assert raised.value.name == "relay-gap"


@pytest.mark.parametrize(
    ("ours", "known", "follows"),
    [
        ([True, True], 1, True),
        ([True, True], 0, True),
        ([True, True], 2, False),  # what precedes the other server's file may have no GTIDs
        ([True, True], 3, False),
        ([True, True, False], 1, False),  # nothing tells whether the other server has the last one
        ([True, False, True], 1, True),
        ([False], 0, False),
    ],
)
def test_another_servers_files_follow_only_where_they_begin_inside_of_what_was_read(
    tmp_path: Path, ours: list[bool], known: int, follows: bool
) -> None:
    store(tmp_path, [ours], range(1))
    other = new_writer(tmp_path, OTHER)
    write(other, THIRD, [*head(known), *transaction(9)])
    other.close()
    found, error = read(tmp_path)
    assert (found[-1][0] == OTHER) == follows
    assert (error is None) == follows
    if error is not None:
        assert error.name == "relay-gap"


def test_what_the_relay_writes_while_the_file_is_read_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(tmp_path, [[True, True]], range(1))
    [sub] = RelayDirectory(tmp_path).sub_directories()
    whole = sub.file(FIRST).read_bytes()
    sub.idx(FIRST).unlink(missing_ok=True)
    sub.file(FIRST).write_bytes(whole[:-1])

    def read_meanwhile(*given: Any, **options: Any) -> Scan | None:
        found = scan(*given, **options)
        sub.file(FIRST).write_bytes(whole)
        return found

    monkeypatch.setattr(recovery, "scan", read_meanwhile)
    assert not gtids_at(sub, FIRST, len(whole), "mysql")
    assert str(gtids_at(sub, FIRST, len(whole), "mysql")) == f"{SERVER}:1-2"


def test_a_position_tells_that_what_was_read_last_has_no_gtid(tmp_path: Path) -> None:
    store(tmp_path, [[True, False], [False, True]], range(2))
    [sub] = RelayDirectory(tmp_path).sub_directories()
    ends = [sub.file(file).stat().st_size for file in (FIRST, SECOND)]
    for _ in range(2):
        assert str(gtids_at(sub, FIRST, ends[0], "mysql")) == f"{SERVER}:1,ANONYMOUS"
        assert str(gtids_at(sub, SECOND, ends[1], "mysql")) == f"{SERVER}:1-2"
        sub.idx(FIRST).unlink(missing_ok=True)
