"""Verbs that set tasks to work and to rest, and that tell what tasks do."""

from __future__ import annotations

from typing import Annotated, Literal

from dm.errors import DMError
from dm.verbs import answers
from dm.verbs.declaration import (
    FILE,
    OPERATES,
    READS,
    TASK,
    ConfigFile,
    Sources,
    Task,
    TaskFile,
    Tasks,
    Verb,
    VerbGroup,
    argument,
    option,
)

GROUPS = (
    VerbGroup("forgotten", "List and remove what forgotten tasks have left."),
    VerbGroup("shard-ddl-lock", "Show which shards wait at a DDL, and waive one.", default="list"),
)

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


# Verbs of what sources and tasks that are known no more have left.

TargetsOf = Annotated[
    tuple[ConfigFile, ...],
    option(
        "--file -f",
        "look at this task file's target instead of those of all tasks; may be repeated",
        FILE,
    ),
]


class ListForgotten(Verb, name="forgotten list", route="POST forgotten", answer=answers.FORGOTTEN):
    """List relay files, work directories, and progress at targets that no source or task here is known for."""

    files: TargetsOf = ()


class RemoveForgotten(Verb, name="forgotten remove", route="POST forgotten/remove", answer=answers.FORGOTTEN_REMOVED):
    """Remove some of it. Another dm-worker may know a task that this one does not: look at what you name."""

    names: Annotated[tuple[str, ...], argument("as `dmctl forgotten list` has them: relay/mysql-01, progress/shop")]
    files: TargetsOf = ()


# Verbs by which tables and sources join a running task.


class UpdateTask(Verb, name="update-task", route="POST tasks/update", answer=answers.PLANNED):
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


class CancelUpdate(Verb, route="POST tasks/{task}/cancel-update", answer=answers.UPDATE_CANCELED):
    """Take added tables back, as long as they have not joined."""

    task: Task


class ReloadTable(Verb, name="reload-table", route="POST tasks/{task}/reload-table", answer=answers.RELOADED):
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


# Shards that wait at a DDL.


class ListLocks(Verb, name="shard-ddl-lock list", route="GET shard-ddl-locks", permission=READS, answer=answers.LOCKS):
    """Show the DDLs that are not executed yet, who came first, and who is missing."""

    task: Tasks = ""


class Unlock(Verb, name="shard-ddl-lock unlock", route="POST shard-ddl-locks/unlock"):
    """Wait no more for the shards that are missing at a DDL; what they have is still merged when they come."""

    lock: Annotated[str, argument("the lock's ID, as `shard-ddl-lock list` shows it")]
    sources: Sources = ()
    action: Annotated[
        Literal["exec", "skip"],
        option("--action -a", "execute the DDL once all others are there, or leave it out"),
    ] = "exec"
    database: Annotated[str, option("--database -d", "only this table's schema at the source")] = ""
    table: Annotated[str, option("--table -t", "only this table of the source")] = ""
    owner: Annotated[str, option("--owner -o", "no effect: whoever comes last executes the DDL", sent=False)] = ""
    force_remove: Annotated[
        bool,
        option(
            "--force-remove -f",
            "with --source: give up its shards, or the one table, with the rows that wait there",
        ),
    ] = False

    def demand_consistent(self) -> None:
        """Raise DMError for half a table."""
        if bool(self.database) != bool(self.table):
            raise DMError("usage", problem="--database and --table go together", hint="name both, or none")
