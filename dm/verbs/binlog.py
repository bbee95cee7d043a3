"""Verbs of single events of the binlog, and of the structures by which rows are read."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from dm.errors import DMError
from dm.verbs.declaration import EACH_ITS_SOURCES, READS, Sources, Task, Verb, VerbGroup, argument, option
from dm.verbs.tasks import OPERATED

GROUPS = (
    VerbGroup("binlog", "Skip or replace single events of the binlog. Made for a DDL that the target refuses."),
    VerbGroup(
        "binlog-schema",
        "Show or replace the structure of a table. The task is paused; the structure is that at its checkpoint.",
    ),
)

Place = Annotated[
    str, option("--binlog-pos -b", "where the event begins, as mysql-bin.000003:1234; else the failing one")
]
Statements = Annotated[
    tuple[str, ...], argument("DDL statements, with the schema before each table", name="statements")
]


class OperatedEvent(Verb, answer=OPERATED, division=EACH_ITS_SOURCES):
    """An event, and what is to become of it."""

    operation: ClassVar[Literal["skip", "replace", "inject", "revert", "list"]]

    task: Task
    sqls: tuple[str, ...] = ()  # in place of the event, or before it
    binlog_pos: Place = ""
    sources: Sources = ()


class SkipEvent(OperatedEvent, name="binlog skip", route="POST tasks/{task}/binlog/skip"):
    """Execute nothing for a statement; what it does to the source's table is still followed."""

    operation = "skip"


class ReplaceEvent(OperatedEvent, name="binlog replace", route="POST tasks/{task}/binlog/replace"):
    """Execute these statements in place of one."""

    operation = "replace"

    sqls: Statements


class InjectBefore(OperatedEvent, name="binlog inject", route="POST tasks/{task}/binlog/inject"):
    """Execute these statements before an event, of rows or another."""

    operation = "inject"

    sqls: Statements


class RevertEvent(OperatedEvent, name="binlog revert", route="POST tasks/{task}/binlog/revert"):
    """Take back what was to become of an event and has not been done yet."""

    operation = "revert"


class ListOperators(OperatedEvent, name="binlog list", route="POST tasks/{task}/binlog/list", permission=READS):
    """Show what is to become of which events."""

    operation = "list"

    binlog_pos: Annotated[str, option("--binlog-pos -b", "only from this place on")] = ""
    sources: Sources = ()


class TableStructure(Verb, answer=OPERATED, division=EACH_ITS_SOURCES):
    """A table of the source, by its structure at the checkpoint."""

    operation: ClassVar[Literal["list", "update", "delete"]]

    task: Task
    database: Annotated[str, argument("the schema, as the source names it")]
    table: Annotated[str, argument("the table, as the source names it")]
    sources: Sources = ()


class ListStructure(
    TableStructure,
    name="binlog-schema list",
    route="POST tasks/{task}/binlog-schema/list",
    permission=READS,
):
    """Show the structure by which the table's rows are read."""

    operation = "list"


class UpdateStructure(TableStructure, name="binlog-schema update", route="POST tasks/{task}/binlog-schema/update"):
    """Replace the structure by which the table's rows are read."""

    operation = "update"

    schema_file: Annotated[str | None, argument("a file with the CREATE TABLE statement", sent=False)] = None
    from_source: Annotated[bool, option("--from-source", "take the one the source has now", sent=False)] = False
    from_target: Annotated[bool, option("--from-target", "take the one the target has now", sent=False)] = False
    flush: Annotated[
        bool, option("--flush/--no-flush", "a paused task has nothing but what is stored: always so", sent=False)
    ] = True
    sync: Annotated[
        bool,
        option(
            "--sync/--no-sync",
            "optimistic shard mode: other sources' statements see the new structure at once, else when the task goes "
            "on",
        ),
    ] = True
    sources: Sources = ()
    origin: Literal["file", "source", "target"] = "file"
    text: str = ""  # of the file

    def demand_consistent(self) -> None:
        """Raise DMError unless the structure has one origin, and is stored."""
        if [self.schema_file is not None, self.from_source, self.from_target].count(True) != 1:
            hint = "dmctl binlog-schema update <task> <database> <table> <file>, or --from-source, or --from-target"
            raise DMError("usage", problem="one of file, --from-source and --from-target has to be given", hint=hint)
        if not self.flush:
            raise DMError("usage", problem="a structure that is not stored would be lost", hint="leave out --no-flush")


class DeleteStructure(TableStructure, name="binlog-schema delete", route="POST tasks/{task}/binlog-schema/delete"):
    """Forget the structure; it is found again when the table's next rows come."""

    operation = "delete"
