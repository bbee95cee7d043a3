"""Statements on a table whose rows go to several tables of the target: executed for each of them, or the task pauses.

A statement is executed for each table where it means the same for the rows of one table as for those of all: it changes
columns or indexes, or empties or drops the table, and names none of the columns that tell the tables apart. These the
target's tables have not. Each execution is a step of its own, with an intent of its own. So a crash between two of them
is like one between two pieces of a statement. And the opposite task, for which the intents are marks, leaves out each
of them, as it leaves out any statement after its intent.

The source's structure is tracked once, with the last step: until then all steps begin from the same one.

Everything else pauses. A key's parent may be scattered, too; a partition of the one is none of the other; a new name
has no route.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from dm.errors import DMError
from dm.mysql.sql.operation import (
    AddColumn,
    AddIndex,
    AlterDefault,
    AlterIndex,
    AlterVisibility,
    ChangeColumn,
    ConvertCharset,
    DropColumn,
    DropIndex,
    DropPrimaryKey,
    DropTable,
    ModifyColumn,
    RenameColumn,
    RenameIndex,
    TableOptions,
    TruncateTable,
)
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import tokenize
from dm.rules.router import Scattering
from dm.rules.table_rules import TableRules
from dm.syncer.ddl.plan import Execute, Step

_SAME_FOR_EACH: Final = (
    AddColumn, AddIndex, AlterDefault, AlterIndex, AlterVisibility, ChangeColumn, ConvertCharset, DropColumn, DropIndex,
    DropPrimaryKey, DropTable, ModifyColumn, RenameColumn, RenameIndex, TableOptions, TruncateTable,
)  # fmt: skip


def for_each_table(steps: Iterable[Step], rules: TableRules) -> list[Step]:
    """The steps, those on a scattered table once for each of its tables; raises DMError `ddl-scattered`."""
    found = list[Step]()
    for step in steps:
        scattering = _scattering(step, rules) if isinstance(step, Execute) else None
        if scattering is None or not isinstance(step, Execute):
            found.append(step)
            continue
        *others, last = scattering.tables.values()
        found += [replace(step, track="not", into=name) for name in others]
        found.append(replace(step, into=last))
    return found


def _scattering(step: Execute, rules: TableRules) -> Scattering | None:
    piece = step.piece
    scattered = [
        (table, scattering)
        for table in (*piece.tables, *piece.references)
        if table.table and rules.wanted(table) and (scattering := rules.scattered(table)) is not None
    ]
    if not scattered:
        return None
    table, scattering = scattered[0]
    why = _obstacle(piece, scattering)
    if why:
        raise DMError("ddl-scattered", table=table, why=why, statement=piece.text)
    return scattering


def _obstacle(piece: Piece, scattering: Scattering) -> str:
    """Why the piece does not mean the same for the rows of each table; empty if it does."""
    if len({*piece.tables, *piece.references}) > 1:
        return "it names other tables"
    if not all(isinstance(operation, _SAME_FOR_EACH) for operation in piece.operations):
        return "it does more than change columns or indexes, or empty or drop the table"
    words = {token.text.lower() for token in tokenize(piece.text, piece.context) if token.kind in ("word", "name")}
    named = [column for column in scattering.columns if column in words]
    return f"it may name column {named[0]}, which those tables have not" if named else ""
