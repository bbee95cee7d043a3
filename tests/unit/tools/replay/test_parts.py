"""The cuts between the parts of a bucket are the same in whichever form rows reach the target."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from dm.changes.plan import PlanOptions
from dm.changes.row_change import ChangeKind
from dm.changes.row_keys import TargetTable
from dm.errors import DMError
from dm.mysql.binlog.value import UNREAD
from dm.progress.replayed import REMOVALS, WRITES, RelayRange
from dm.progress.tables import SubtaskKey
from dm.tools.replay import applying
from dm.tools.replay.applying import BucketApplier, SizedChange, cut, demand_same_cuts, size_of
from dm.tools.replay.reduction import Net, ReplayContext, SpilledTable, SpillWriter
from dm.tools.replay.tables import ReplayTables
from tests.unit.changes.event_tables import ROW_EVENTS, table_map_of
from tests.unit.changes.plans import insert, key, number, plan
from tests.unit.tools.replay.test_tables import COLUMNS, NAME, PRIMARY, schema, tables

UNIQUE = (PRIMARY, key("u", "u"))
SQL = PlanOptions("mysql", compact=True, no_events="row-format is sql")


def raw(*values: int) -> bytes:
    """An image of INTs as the source writes it."""
    return b"\0" + struct.pack(f"<{len(values)}i", *values)


def nets(count: int) -> list[Net]:
    """Rows that come, that go, that change, and that change a unique key."""
    found = []
    for at in range(0, count, 4):
        coming, going, staying, moving = range(at, at + 4)
        found += [
            Net(coming, False, (coming, 1), raw(coming, 1), (coming, 1), raw(coming, 1)),
            Net(going, True, (going, going), raw(going, going), None, None),
            Net(staying, True, (staying, 1), raw(staying, 1), (staying, 1), raw(staying, 1)),
            Net(moving, True, (moving, 1), raw(moving, 1), (moving, 2), raw(moving, 2)),
        ]
    return found


class Scene:
    """One bucket in one file."""

    def __init__(self, path: Path, *, again: bool) -> None:
        self._again = again
        self._around = SimpleNamespace(spill=lambda piece: path, again=again)
        writer = SpillWriter(path)
        writer.round({(0, True): [SpilledTable(NAME, table_map_of(COLUMNS), nets(400))]})
        writer.finish()

    def parts(self, phase: int, options: PlanOptions) -> list[list[tuple[ChangeKind, object]]]:
        """What each part of the bucket does to which row."""
        there = schema(COLUMNS, *UNIQUE)
        found = replace(tables(TargetTable(there), source=there, again=self._again), options=options)
        around = cast("ReplayContext", self._around)
        applier = BucketApplier(around, SubtaskKey("meta", "task", "s"), 1, 1, (RelayRange("f", 0, 1),), phase)
        changes = applier.changes(0, found)
        sent_raw = [sized.change.raw_before or sized.change.raw_after for sized in changes]
        assert any(sent_raw) == (options is ROW_EVENTS and not (self._again and phase == REMOVALS))
        return [[(change.kind, (change.before or change.after or ())[0]) for change in part] for part in cut(changes)]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("phase", [REMOVALS, WRITES])
def test_the_form_of_the_rows_moves_no_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: int, again: bool
) -> None:
    monkeypatch.setattr(applying, "_BYTES", 4000)
    scene = Scene(tmp_path / "piece", again=again)
    events = scene.parts(phase, ROW_EVENTS)
    assert len(events) > 2
    assert scene.parts(phase, SQL) == events


def test_rows_that_go_as_sql_have_all_their_values(tmp_path: Path) -> None:
    row = Net(7, False, (7, UNREAD), raw(7, 70), (7, UNREAD), raw(7, 70))
    writer = SpillWriter(tmp_path / "piece")
    writer.round({(0, False): [SpilledTable(NAME, table_map_of(COLUMNS), [row])]})
    writer.finish()
    around = cast("ReplayContext", SimpleNamespace(spill=lambda piece: tmp_path / "piece", again=False))
    applier = BucketApplier(around, SubtaskKey("meta", "task", "s"), 1, 1, (RelayRange("f", 0, 1),), WRITES)
    found: ReplayTables = replace(tables(TargetTable(schema())), options=SQL)
    ((change, size),) = applier.changes(0, found)
    assert (change.after, change.raw_after) == ((7, 70), None)
    assert size == size_of(row, ChangeKind.INSERT) == 200 + len(raw(7, 70))


def test_a_part_has_so_many_changes_or_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "_BYTES", 100)
    monkeypatch.setattr(applying, "_CHANGES", 3)
    into = plan([number("id")], [key("PRIMARY", "id")])
    sizes = (10, 10, 10, 10, 91, 500, 1, 99, 1)
    found = [*cut([SizedChange(insert(into, at), size) for at, size in enumerate(sizes)])]
    assert [[change.after for change in part] for part in found] == [
        [(0,), (1,), (2,)], [(3,)], [(4,)], [(5,)], [(6,), (7,)], [(8,)],
    ]  # fmt: skip
    assert [*cut([])] == []


@pytest.mark.parametrize("done", [{0: 1}, {0: 2, 1: 2}, {0: 2, 1: 1, 2: 5}])
def test_a_part_that_was_another_is_not_taken_for_done(done: dict[int, int]) -> None:
    into = plan([number("id")], [key("PRIMARY", "id")])
    now = [[insert(into, 1), insert(into, 2)], [insert(into, 3)]]
    demand_same_cuts(now, {0: 2, 1: 1}, 0)
    demand_same_cuts(now, {}, 0)
    with pytest.raises(DMError) as raised:
        demand_same_cuts(now, done, 0)
    assert raised.value.name == "replay-parts-unlike"
