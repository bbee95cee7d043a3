"""DDL of tables whose rows a route gathers in one table of the target, with parts of their names in extra columns.

Such a table of the target is made by a person: it has columns that no source has, and keys with them. What the sources
do to their own tables mostly fits: it names the source's columns only. Two things do not. The CREATE TABLE of one more
source table would make a table without the extra columns; it counts as done when the table is there. And a RENAME would
move the table of all sources, or leave rows behind under values that no row of the source has any more.
"""

from __future__ import annotations

from collections.abc import Mapping

from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.rules.router import table_missing
from dm.rules.table_rules import TableRules
from dm.schema.table import TableSchema
from dm.sql.operation import CreateTable, RenameTable
from dm.sql.piece import Piece


def creates_shard(
    piece: Piece, rules: TableRules, now: Mapping[TableName, TableSchema | None], position: Position
) -> bool:
    """Whether the piece creates a source table whose rows go into a table that the target has, `now`."""
    operation = piece.operations[0] if piece.operations else None
    if not isinstance(operation, CreateTable) or operation.or_replace:
        return False
    extracted = rules.extracted(operation.table)
    if not extracted:
        return False
    target = rules.route(operation.table)
    if now.get(target) is None:
        error = table_missing(operation.table, target, extracted)
        error.position = str(position)
        raise error
    return True


def refuse_renaming(piece: Piece, rules: TableRules, position: Position) -> None:
    """Raise DMError `extract-renamed` where other values are extracted from the new name than from the old one."""
    for operation in piece.operations:
        for old, new in operation.pairs if isinstance(operation, RenameTable) else ():
            before, after = rules.extracted(old), rules.extracted(new)
            if before != after:
                target = rules.route(old if before else new)
                raise DMError(
                    "extract-renamed", position=position, statement=piece.text, target=target, old=old, new=new
                )
