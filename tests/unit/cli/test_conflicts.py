"""`dmctl show-conflicts` and `clear-conflicts`, for people."""

from __future__ import annotations

import pytest

from dm.cli.verbs.conflicts import clear, show
from dm.verbs.conflicts import ClearConflicts, ShowConflicts

SHOWN = """\
7  2026-11-29 12:00:00 UTC  UPDATE on shop.t with id = 1
  the target has won; source back-01 at (binlog.000002, 99)
  the source had   id = 1, v = 'a'
  and then         no row
  the target had   not kept, written at (000003, 42)
8 conflicts recorded, the last 1 shown
"""


def test_a_conflict_has_both_rows_and_the_winner(capsys: pytest.CaptureFixture[str]) -> None:
    one = {
        "number": 7, "at": 1795953600, "source": "back-01", "winner": "target", "table": "shop.t",
        "operation": "UPDATE", "key": {"id": "1"}, "sourceBefore": {"id": "1", "v": "'a'"}, "sourceAfter": "no row",
        "targetRow": "not kept", "sourcePlace": "(binlog.000002, 99)", "targetPlace": "(000003, 42)",
    }  # fmt: skip
    show(ShowConflicts(task="back"), {"taskName": "back", "recorded": 8, "conflicts": [one]})
    assert capsys.readouterr().out == SHOWN
    clear(ClearConflicts(task="back"), {"taskName": "back", "removed": 8})
    assert capsys.readouterr().out == "back: 8 conflicts removed from the record\n"
