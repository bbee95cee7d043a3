"""Verbs that set tasks to work and to rest, and that tell what tasks do."""

from __future__ import annotations

from typing import Annotated

from dm.errors import DMError
from dm.verbs import answers
from dm.verbs.declaration import OPERATES, READS, TASK, Verb, argument, option
from dm.verbs.parameters import ConfigFile, Sources, Task, TaskFile, Tasks

Follow = Annotated[
    bool, option("--follow", "show progress until the task is finished or has caught up; Ctrl-C leaves", sent=False)
]


class NameOfTask(Verb, route="POST task-name", permission=READS, answer=answers.TASK_NAME):
    """Tell the name in a task file."""

    file: ConfigFile


class CheckTask(Verb, name="check-task", route="POST tasks/check", answer=answers.CHECKED):
    """Check whether a task can run. Lists what it does not migrate, too."""

    file: TaskFile
    start_time: Annotated[str | None, option("--start-time", "say where `start-task --start-time` would begin")] = None


class StartTask(Verb, name="start-task", route="POST tasks", answer=answers.STARTED):
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


class OperatedTask(Verb, answer=answers.OPERATED):
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


class ListTasks(Verb, route="GET tasks", permission=READS, answer=answers.TASKS):
    """Show all tasks, or those of some sources."""

    source: tuple[str, ...] = ()


class QueryStatus(Verb, name="query-status", route="GET tasks/{task}/status", permission=READS, answer=answers.STATUS):
    """Show all tasks, or one task in detail. Exit status 1 if that one rests on an error."""

    task: Annotated[str, argument("the task's name, or its file; all tasks when left out", TASK)] = ""
    source: Sources = ()
    follow: Annotated[
        bool, option("--follow", "show it again and again until the task ends or rests; Ctrl-C leaves", sent=False)
    ] = False

    def demand_consistent(self) -> None:
        """Raise DMError where many tasks would be followed."""
        if self.follow and not self.task:
            raise DMError("usage", problem="--follow shows one task", hint="dmctl query-status <task> --follow")


class Wait(Verb, name="wait", permission=READS):
    """Wait until a task is synced or finished. Exit status 0; 1 when it will not be, 4 when the time is over."""

    task: Task
    synced: Annotated[bool, option("--synced", "until everything that the source has is applied")] = False
    finished: Annotated[bool, option("--finished", "until the task has ended by itself")] = False
    timeout: Annotated[
        float | None, option("--timeout", "give up after so many seconds, with exit status 4", least=0)
    ] = None
    source: Sources = ()

    def demand_consistent(self) -> None:
        """Raise DMError unless it is clear what is waited for."""
        if self.synced == self.finished:
            hint = "dmctl wait <task> --synced, or dmctl wait <task> --finished"
            raise DMError("usage", problem="one of --synced and --finished says what is waited for", hint=hint)


class Logs(Verb, name="logs", route="GET logs", permission=READS, answer=answers.LOG_FILES):
    """Show the logs of a task. With -s alone those of relays; without both that of dm-worker."""

    task: Tasks = ""
    source: Sources = ()
    follow: Annotated[bool, option("--follow -f", "go on with what comes; Ctrl-C leaves", sent=False)] = False
    lines: Annotated[int, option("--lines -n", "how many of the last lines", least=0, sent=False)] = 100
    level: Annotated[str, option("--level", "only from this level up: debug, info, warn, error", sent=False)] = "debug"
