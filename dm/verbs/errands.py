"""Verbs whose work takes a process of its own, while `dmctl` waits: diff, flashback, replay, heal."""

from __future__ import annotations

from typing import Annotated, Final

from dm.errors import DMError
from dm.verbs.declaration import DIRECTORY, OPERATES, READS, ConfigFile, Sources, Task, Verb, argument, option, shape

BEGUN: Final = shape("RunBegun", number=int, task=str)
DIFF_BEGUN: Final = shape("DiffBegun", number=int, task=str, behind=dict[str, str])
HEAL_BEGUN: Final = shape("HealBegun", number=int, task=str, restingRelays=list[str])
RUN: Final = shape("RunTold", may={"task": str, "ended": bool}, more=True)

Tables = Annotated[tuple[str, ...], option("--tables", "only this table of the target, schema.table; may be repeated")]


class RunStatus(Verb, route="GET runs/{number}", permission=READS, answer=RUN):
    """Tell how far a run of these is, by the number that its begin was answered with, and in the end its result."""

    number: int


class StopRun(Verb, route="POST runs/{number}/stop", permission=OPERATES):
    """End a run."""

    number: int


class Diff(Verb, name="diff", route="POST diffs", permission=OPERATES, answer=DIFF_BEGUN):
    """Compare sources and target. Exit status 0 equal, 1 different, 2 not all compared, or an error."""

    # A file names programs and servers, an expression is executed with the accounts of the task, files are written.
    changing = ("file", "where", "fix_sql")

    task: Annotated[str, argument("the task's name, or its file", required=True)] = ""
    file: ConfigFile | None = None  # in place of a known task
    tables: Tables = ()
    where: Annotated[str, option("--where", "only rows of both sides for which this SQL is true")] = ""
    ignore_columns: Annotated[
        tuple[str, ...], option("--ignore-columns", "leave this column out; may be repeated")
    ] = ()
    fix_sql: Annotated[
        str, option("--fix-sql", "a directory for the statements that make the target equal", DIRECTORY)
    ] = ""
    rows: Annotated[int, option("--rows", "rows of a chunk", least=1)] = 100_000
    threads: Annotated[int, option("--threads", "chunks that are compared at a time", least=1)] = 4
    max_load: Annotated[int, option("--max-load", "wait while more threads run at a server; 0 for never", least=0)] = 0
    memory: Annotated[
        int, option("--memory", "MB of differing rows that are kept at a time, by each thread", least=1)
    ] = 64
    shown: Annotated[int, option("--shown", "differing rows shown of each table", least=0)] = 20
    snapshots: Annotated[
        tuple[str, ...],
        option(
            "--snapshot",
            "read each chunk as of one moment: `now`, or a TSO or time of a TiDB; target=MOMENT and SOURCE=MOMENT"
            " are for one side; may be repeated",
        ),
    ] = ()
    resume: Annotated[bool, option("--resume", "leave out what an unfinished comparison found equal")] = False
    recent: Annotated[
        bool, option("--recent", "of tables that were found equal, compare only the rows written since (by the relay)")
    ] = False

    def asks_servers_alone(self) -> bool:
        """A comparison of recent rows reads relay files."""
        return not self.recent

    def demand_consistent(self) -> None:
        """Raise DMError unless --recent stands without what makes a comparison one of a part."""
        given = {"--where": self.where, "--ignore-columns": self.ignore_columns, "--snapshot": self.snapshots,
                 "--resume": self.resume}  # fmt: skip
        others = [name for name, value in given.items() if value]
        if self.recent and others:
            hint = "dmctl diff <task> --recent"
            raise DMError("usage", problem=f"--recent does not go together with {', '.join(others)}", hint=hint)


class Flashback(Verb, name="flashback", route="POST flashbacks", answer=BEGUN):
    """Write the SQL that takes back row changes, newest first. It is not executed."""

    task: Task
    begin: Annotated[str, option("--from", "from here on: a file and an offset (FILE:154), a GTID set, or a time")]
    end: Annotated[str, option("--to", "up to here; all that the target has when left out")] = ""
    tables: Tables = ()
    directory: Annotated[
        str,
        option("--sql", "the directory for the statements; no file there is written over", DIRECTORY),
    ] = "."
    sources: Sources = ()


class Replay(Verb, name="replay", route="POST tasks/{task}/replays", permission=OPERATES, answer=BEGUN):
    """Apply the backlog of a paused task in bulk, by Spark. Called again, it goes on."""

    task: Task
    until: Annotated[str, option("--until", "up to here: a file and an offset (FILE:154), a GTID set, or a time")] = ""
    cancel: Annotated[
        bool, option("--cancel", "leave what was begun to the syncer, which repeats it from the checkpoint")
    ] = False

    def demand_consistent(self) -> None:
        """Raise DMError for an end of what is not replayed."""
        if self.until and self.cancel:
            hint = "dmctl replay <task> --cancel"
            raise DMError("usage", problem="--cancel replays nothing, so --until means nothing", hint=hint)


class Heal(Verb, name="heal", route="POST tasks/{task}/heals", permission=OPERATES, answer=HEAL_BEGUN):
    """Mend a paused task's rows and its place, by comparison."""

    # Tables of the target may be dropped.
    changing = ("recreate",)

    task: Task
    source: Annotated[str, option("--source -s", "only this source; all when none is named")] = ""
    dry_run: Annotated[bool, option("--dry-run", "compare, and tell what would be done; nothing is written")] = False
    recreate: Annotated[
        bool, option("--recreate", "drop tables that are not made like the source's, and load them whole")
    ] = False
    rows: Annotated[int, option("--rows", "rows of a chunk", least=1)] = 100_000
    threads: Annotated[int, option("--threads", "chunks that are compared at a time", least=1)] = 4
