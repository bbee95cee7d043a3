"""What others have written at the target is kept while anybody may ask for it."""

from __future__ import annotations

from dm.syncer.apply import written_rows
from dm.syncer.apply.written_rows import WrittenRows


def test_a_row_counts_from_its_last_write_on() -> None:
    rows = WrittenRows()
    rows.note([b"a", b"b"], 10)
    rows.note([b"a"], 20)
    assert [rows.after(b"a", 10), rows.after(b"a", 20), rows.after(b"b", 9), rows.after(b"c", 0)] == [
        20,
        None,
        10,
        None,
    ]
    rows.close()


def test_what_is_passed_is_dropped_and_nothing_else() -> None:
    rows, many = WrittenRows(), written_rows._SWEEP
    rows.note((str(number).encode() for number in range(many - 1)), 10)
    rows.passed(10)
    rows.note([b"late"], 11)
    assert rows.after(b"5", 0) is None, "dropped"
    assert rows.after(b"late", 10) == 11
    rows.close()
