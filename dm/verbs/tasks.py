"""Verbs that set tasks to work and to rest."""

from __future__ import annotations

from typing import Annotated, Final

from dm.errors import DMError
from dm.verbs.declaration import (
    ASKED,
    EACH_ITS_SOURCES,
    OPERATES,
    READS,
    ConfigFile,
    Record,
    Sources,
    TaskFile,
    Tasks,
    Verb,
    line,
    option,
    shape,
)

TASK_NAME: Final = shape("TaskNamed", taskName=str)
CHECKED: Final = shape(
    "Checked", results=list[Record], summary=dict[str, bool | int], warnings=list[str], startPositions=dict[str, str]
)
_SUBTASK: Final = line(
    "SubtaskLine",
    stage=str,
    may={
        "detail": str, "error": Record, "operators": list[Record],
        # after `stop-task`: where it stopped, and where the target's binlog ends
        "placeProblem": str, "syncerBinlog": str, "syncerBinlogGtid": str, "appliedUpTo": str, "target": str,
        "targetBinlog": str, "targetBinlogGtid": str, "progressRemoved": bool,
    },
)  # fmt: skip
OPERATED: Final = shape("Operated", taskName=str, sources=[_SUBTASK])
STARTED: Final = shape(
    "Started", taskName=str, sources=[_SUBTASK], checkResult=Record, warnings=list[str], startPositions=dict[str, str]
)

Follow = Annotated[
    bool, option("--follow", "show progress until the task is finished or has caught up; Ctrl-C leaves", sent=False)
]


class NameOfTask(Verb, route="POST task-name", permission=READS, answer=TASK_NAME, division=ASKED):
    """Tell the name in a task file."""

    file: ConfigFile


class CheckTask(Verb, name="check-task", route="POST tasks/check", answer=CHECKED, division=ASKED):
    """Check whether a task can run. Lists what it does not migrate, too."""

    file: TaskFile
    start_time: Annotated[str | None, option("--start-time", "say where `start-task --start-time` would begin")] = None


class StartTask(Verb, name="start-task", route="POST tasks", answer=STARTED, division=EACH_ITS_SOURCES):
    """Check a task and start it."""

    file: TaskFile
    sources: Sources = ()
    remove_meta: Annotated[
        bool, option("--remove-meta", "forget the progress of an earlier task of this name: begin anew")
    ] = False
    start_time: Annotated[
        str | None,
        option(
            "--start-time",
            "begin about here in the binlog, whatever checkpoint and `meta` say: '2026-11-21 10:00:00' in the "
            "source's time zone, or with a zone",
        ),
    ] = None
    until: Annotated[
        str | None,
        option(
            "--until",
            "apply everything up to here, then end: mysql-bin.000003:154, a GTID set, or a time as --start-time's",
        ),
    ] = None
    follow: Follow = False


class OperatedTask(Verb, answer=OPERATED, division=EACH_ITS_SOURCES):
    """A task that is set to work or to rest, or all tasks of some sources."""

    task: Tasks = ""
    sources: Sources = ()


class StopTask(OperatedTask, name="stop-task", route="POST tasks/{task}/stop"):
    """Stop a task and forget it. Its progress stays in the target: the next start continues there."""

    remove_meta: Annotated[bool, option("--remove-meta", "remove the progress, too: the next start begins anew")] = (
        False
    )

    def demand_consistent(self) -> None:
        """Raise DMError where progress of many tasks would go."""
        if self.remove_meta and not self.task:
            raise DMError("usage", problem="--remove-meta is for one task", hint="dmctl stop-task <task> --remove-meta")


class PauseTask(OperatedTask, name="pause-task", route="POST tasks/{task}/pause", permission=OPERATES):
    """Let a task rest until resume-task."""


class ResumeTask(OperatedTask, name="resume-task", route="POST tasks/{task}/resume", permission=OPERATES):
    """Go on after pause-task, or after an error."""

    follow: Follow = False

    def demand_consistent(self) -> None:
        """Raise DMError where many tasks would be followed."""
        if self.follow and not self.task:
            raise DMError("usage", problem="--follow is for one task", hint="dmctl resume-task <task> --follow")
