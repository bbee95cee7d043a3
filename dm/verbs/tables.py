"""Verbs of tables that leave their task's stream and come back."""

from __future__ import annotations

from typing import Annotated, Final

from dm.errors import DMError
from dm.ident import TableName
from dm.verbs.declaration import EACH_OWNER, ONE_SOURCE, READS, Record, Task, Verb, VerbGroup, argument, option, shape

TABLES_ASIDE: Final = shape("TablesAside", task=str, branches=list[Record])
TABLES_MOVED: Final = shape("TablesMoved", task=str, source=str, tables=list[str])

GROUPS = (VerbGroup("table", "Put tables aside, and let them come back."),)

_NAME: Final = argument("the table at the source, as DB.TABLE")
_SOURCE: Final = option("--source -s", "the source, where several have such a table")


class ListAside(
    Verb,
    name="table list",
    route="GET tasks/{task}/tables-aside",
    permission=READS,
    answer=TABLES_ASIDE,
    division=EACH_OWNER,
):
    """Show the tables that are not in their task's stream: since when, by which error, how far behind."""

    task: Task


class HoldTable(
    Verb, name="table hold", route="POST tasks/{task}/hold-table", answer=TABLES_MOVED, division=ONE_SOURCE
):
    """Put a table aside: its rows wait at a place of the binlog, and the task's other tables go on."""

    task: Task
    table: Annotated[str, _NAME]
    source: Annotated[str | None, _SOURCE] = None


class ReleaseTable(
    Verb, name="table release", route="POST tasks/{task}/release-table", answer=TABLES_MOVED, division=ONE_SOURCE
):
    """Let a table come back: its rows are applied from where it left, until it has caught up with the others."""

    task: Task
    table: Annotated[str, _NAME]
    source: Annotated[str | None, _SOURCE] = None


class GiveUpTable(
    Verb, name="table drop", route="POST tasks/{task}/drop-table", answer=TABLES_MOVED, division=ONE_SOURCE
):
    """Migrate a table that is aside no longer. The target's table stays; `reload-table` takes it again."""

    task: Task
    table: Annotated[str, _NAME]
    source: Annotated[str | None, _SOURCE] = None


def table_of(text: str) -> TableName:
    """The table that a person names; names with a dot or a backtick are in backticks. Raises DMError `usage`."""
    parts, rest = list[str](), text
    while len(parts) < 2 and rest:
        if rest.startswith("`"):
            name, end = "", 1
            while end < len(rest) and (rest[end] != "`" or rest[end : end + 2] == "``"):
                name, end = name + rest[end], end + (2 if rest[end] == "`" else 1)
            closed, after = rest[end : end + 1] == "`", rest[end + 1 :]
        else:
            name, dot, after = rest.partition(".")
            closed, after = True, dot + after
        if not closed or not name or (after and (not after.startswith(".") or parts)):
            break
        parts.append(name)
        rest = after[1:]
    if len(parts) != 2 or rest:
        hint = "write DB.TABLE; a name that has a dot or a backtick itself is put in backticks"
        raise DMError("usage", problem=f"{text!r} names no table", hint=hint)
    return TableName(*parts)
