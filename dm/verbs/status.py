"""Verbs that tell what tasks do."""

from __future__ import annotations

from typing import Annotated, Final

from dm.errors import DMError
from dm.verbs.declaration import (
    ASKED,
    EACH_ITS_SOURCES,
    READS,
    TASK,
    AnswerShape,
    Record,
    Sources,
    Task,
    Tasks,
    Verb,
    argument,
    option,
    shape,
)

_TASK: Final = AnswerShape("TaskLine", {"taskName": str, "taskStatus": str, "sources": list[str]})
TASKS: Final = shape("TasksListed", tasks=[_TASK])
# The sources have DM's sourceStatus and subTaskStatus.
STATUS: Final = shape("StatusTold", sources=list[Record], may={"cutOver": Record})
_HEARD_SUBTASK: Final = AnswerShape("HeardSubtask", {"source": Record, "subtask": Record})
HEARD: Final = shape("SubtasksHeard", subtasks=[_HEARD_SUBTASK])
LOG_FILES: Final = shape("LogFiles", files=list[dict[str, str]])


class ListTasks(Verb, route="GET tasks", permission=READS, answer=TASKS):
    """Show all tasks, or those of some sources."""

    source: tuple[str, ...] = ()


class QueryStatus(
    Verb,
    name="query-status",
    route="GET tasks/{task}/status",
    permission=READS,
    answer=STATUS,
    division=EACH_ITS_SOURCES,
):
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


class ShowHeard(Verb, route="GET heard", permission=READS, answer=HEARD):
    """Tell what the units of this member's subtasks have said by themselves; no server is asked."""


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


class Logs(Verb, name="logs", route="GET logs", permission=READS, answer=LOG_FILES, division=ASKED):
    """Show the logs of a task. With -s alone those of relays; without both that of dm-worker."""

    task: Tasks = ""
    source: Sources = ()
    follow: Annotated[bool, option("--follow -f", "go on with what comes; Ctrl-C leaves", sent=False)] = False
    lines: Annotated[int, option("--lines -n", "how many of the last lines", least=0, sent=False)] = 100
    level: Annotated[str, option("--level", "only from this level up: debug, info, warn, error", sent=False)] = "debug"
