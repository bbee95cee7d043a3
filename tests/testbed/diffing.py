"""`dmctl diff` for a test, in the test's process."""

from __future__ import annotations

import threading

from dm.config.subtask import SubtaskConfig
from dm.diff.chunk import ChunkComparer, ChunkOutcome
from dm.diff.options import DiffOptions
from dm.diff.planner import Planner


def compared(subtask: SubtaskConfig, *snapshots: str) -> list[ChunkOutcome]:
    """What the chunks of all tables are found to be."""
    planner = Planner([subtask], DiffOptions(snapshots=snapshots), threading.Event())
    planned = [each for each in planner.plan() if each.compared is not None]
    tables = tuple(each.compared for each in planned if each.compared is not None)
    comparer = ChunkComparer(planner.endpoints, tables, readings=planner.moments())
    return [*comparer(tuple(chunk for number, each in enumerate(planned) for chunk in each.chunks(number)))]
