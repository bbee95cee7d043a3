"""DDL of tables whose rows a route gathers in one table of the target, with parts of their names in extra columns.

Such a table of the target is made by a person: it has columns that no source has, and keys with them. What the sources
do to their own tables mostly fits: it names the source's columns only. Two things do not. The CREATE TABLE of one more
source table would make a table without the extra columns; it counts as done when the table is there. And a RENAME would
move the table of all sources, or leave rows behind under values that no row of the source has any more.
"""

from __future__ import annotations

from dm.errors import DMError
from dm.rules.router import table_missing
from dm.rules.table_rules import TableRules
from dm.sql.operation import CreateTable
from dm.sql.piece import Piece
from dm.syncer.ddl.checks.checked_step import CheckedStep


def creates_shard(piece: Piece, rules: TableRules) -> bool:
    """Whether the piece creates a source table whose rows go into a table that gathers them."""
    operation = piece.operation
    return isinstance(operation, CreateTable) and not operation.or_replace and bool(rules.extracted(operation.table))


def refuse_missing_target(checked: CheckedStep) -> None:
    """Raise DMError where the table that is to gather the rows of a new one is not there."""
    piece, rules = checked.piece, checked.source.rules
    if not creates_shard(piece, rules):
        return
    target = rules.route(piece.table)
    if checked.now.get(target) is None:
        error = table_missing(piece.table, target, rules.extracted(piece.table))
        error.position = str(checked.position)
        raise error


def refuse_renaming(checked: CheckedStep) -> None:
    """Raise DMError `extract-renamed` where other values are extracted from the new name than from the old one."""
    rules = checked.source.rules
    for old, new in checked.piece.renames:
        before, after = rules.extracted(old), rules.extracted(new)
        if before != after:
            raise DMError(
                "extract-renamed",
                position=checked.position,
                statement=checked.piece.text,
                target=rules.route(old if before else new),
                old=old,
                new=new,
            )
