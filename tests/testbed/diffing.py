"""`dmctl diff` for a test, in the test's process."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

from dm.config.subtask import SubtaskConfig
from dm.demo.private_server import PrivateServer
from dm.tools.diff.chunk import ChunkComparer, ChunkOutcome
from dm.tools.diff.fix import in_order
from dm.tools.diff.planner import DiffPlanner, PlannedTable
from dm.tools.diff.table import ComparedTable
from dm.tools.diff.versions import Difference
from dm.tools.errands import DiffRequest
from tests.testbed.typed_rows import session


def planned(subtask: SubtaskConfig) -> tuple[DiffPlanner, PlannedTable, ComparedTable]:
    """The only table of a task, and how it is compared."""
    planner = DiffPlanner([subtask], DiffRequest(), threading.Event())
    (table,) = planner.plan()
    assert table.compared is not None
    return planner, table, table.compared


def compared(subtask: SubtaskConfig, *snapshots: str) -> list[ChunkOutcome]:
    """What the chunks of all tables are found to be."""
    return [outcome for _, outcome in _outcomes(subtask, DiffRequest(snapshots=snapshots))]


def differences(subtask: SubtaskConfig, options: DiffRequest | None = None) -> dict[str, list[Difference]]:
    """Of each table, by its name; none of those that are the same."""
    found: dict[str, list[Difference]] = {}
    for name, outcome in _outcomes(subtask, options or DiffRequest()):
        assert not outcome.changed
        found.setdefault(name, []).extend(outcome.differences)
    return {name: rows for name, rows in found.items() if rows}


def _outcomes(subtask: SubtaskConfig, options: DiffRequest) -> list[tuple[str, ChunkOutcome]]:
    planner = DiffPlanner([subtask], options, threading.Event())
    found = [each for each in planner.plan() if each.compared is not None]
    tables = tuple(each.compared for each in found if each.compared is not None)
    # Each row is told in words.
    comparer = ChunkComparer(planner.endpoints, tables, options.where, readings=planner.moments(), words=sys.maxsize)
    outcomes = list[ChunkOutcome]()
    left = [chunk for number, each in enumerate(found) for chunk in each.chunks(number)]
    while left:
        some = comparer(tuple(left))
        outcomes += some
        left = left[len(some) :] + [replace(one.chunk, slice=each) for one in some for each in one.slices]
    return [(found[outcome.chunk.table].name.table, outcome) for outcome in outcomes]


def put_right(target: PrivateServer, rows: list[Difference]) -> None:
    """Execute their statements, deletions first."""
    with session(target) as cursor:
        for statement in in_order([row.fix for row in rows]):
            for part in statement.split(b";\n"):
                cursor.connection.query(part)
