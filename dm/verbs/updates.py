"""Verbs by which tables and sources join a running task."""

from __future__ import annotations

from typing import Annotated, Final

from dm.errors import DMError
from dm.verbs.declaration import ALL_SOURCES, ConfigFile, Record, Task, Verb, argument, option, shape

PLANNED: Final = shape(
    "Planned",
    taskName=str,
    newSources=list[str],
    keys=list[str],
    tables=dict[str, list[str]],
    filledTables=list[str],
    changes=bool,
    may={"checkResult": Record},  # of the prechecks, once they were made
)
UPDATE_CANCELED: Final = shape("UpdateCanceled", taskName=str, sources=list[str])
RELOADED: Final = shape("Reloaded", task=str, tables=list[str], may={"source": str, "target": str})


class UpdateTask(Verb, name="update-task", route="POST tasks/update", answer=PLANNED):
    """Give a running task more tables, sources or settings. Says what changes, asks, does it."""

    task: Annotated[
        str,
        argument("the task file as it is to be; with --cancel, or the task's name", sent=False, name="file"),
    ]
    file: ConfigFile
    look: bool  # only tell what the file changes
    yes: Annotated[bool, option("--yes -y", "do it without asking", sent=False)] = False
    cancel: Annotated[
        bool, option("--cancel", "take added tables back, as long as they have not joined", sent=False)
    ] = False


class CancelUpdate(Verb, route="POST tasks/{task}/cancel-update", answer=UPDATE_CANCELED):
    """Take added tables back, as long as they have not joined."""

    task: Task


class ReloadTable(
    Verb, name="reload-table", route="POST tasks/{task}/reload-table", answer=RELOADED, division=ALL_SOURCES
):
    """Empty a table and load it again while its task runs. The task's other tables go on."""

    task: Task
    database: Annotated[str, argument("the table's schema at the source")] = ""
    table: Annotated[str, argument("the table at the source")] = ""
    source: Annotated[str | None, option("--source -s", "the source, where several have such a table")] = None
    recreate: Annotated[
        bool, option("--recreate", "drop the target's table and make it again, as the source has it")
    ] = False
    cancel: Annotated[bool, option("--cancel", "take a reload back, as long as the target's table has its rows")] = (
        False
    )

    def demand_consistent(self) -> None:
        """Raise DMError unless either a table is named or all reloads are taken back."""
        if self.cancel == bool(self.database and self.table):
            problem = "--cancel is of all that is being reloaded" if self.cancel else "no table is named"
            hint = "dmctl reload-table <task> <schema> <table>, or dmctl reload-table <task> --cancel"
            raise DMError("usage", problem=problem, hint=hint)
