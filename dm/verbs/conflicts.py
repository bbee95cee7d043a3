"""The verbs of conflicts that one side has won."""

from __future__ import annotations

from typing import Annotated, Final

from dm.verbs.declaration import EACH_ITS_SOURCES, OPERATES, READS, Record, Sources, Task, Verb, option, shape

CONFLICTS: Final = shape("ConflictsTold", taskName=str, recorded=int, conflicts=list[Record])
CLEARED: Final = shape("ConflictsCleared", taskName=str, removed=int)


class ShowConflicts(
    Verb,
    name="show-conflicts",
    route="GET tasks/{task}/conflicts",
    permission=READS,
    answer=CONFLICTS,
    division=EACH_ITS_SOURCES,
):
    """Show rows that both sides have written. With the side that has won, the newest first."""

    task: Task
    limit: Annotated[int, option("--limit", "at most so many of each source", least=1)] = 20
    sources: Sources = ()


class ClearConflicts(
    Verb,
    name="clear-conflicts",
    route="POST tasks/{task}/conflicts/clear",
    permission=OPERATES,
    answer=CLEARED,
    division=EACH_ITS_SOURCES,
):
    """Remove the record of a task's conflicts at the target."""

    task: Task
    sources: Sources = ()
