"""Names that mean something else at the target: routes gather tables, and servers fold names.

- A target that folds names takes two of the source's for one.
- A table that an online DDL moved away at the source is still at the target under its old name, with its rows.
- DROP DATABASE drops the one schema that the schema itself is routed to. What the source lost elsewhere would stay, and
  come back to life with a table of the same name: nothing in the binlog names those tables.
- A table that gathers the rows of many, with parts of their names in extra columns, is made by a person. The CREATE
  TABLE of one more source table would make one without those columns; it counts as done when the table is there. And a
  RENAME would move the table of all sources, or leave rows behind under values that no row of the source has any more.
"""

from __future__ import annotations

from dm.errors import DMError
from dm.mysql.sql.operation import CreateTable, DropDatabase
from dm.mysql.sql.piece import Piece
from dm.rules.router import table_missing
from dm.rules.table_rules import TableRules
from dm.syncer.ddl.step import CheckedStep


def refuse_folded(checked: CheckedStep) -> None:
    """Raise DMError where two followed tables would be one at the target."""
    checked.target.names.demand_apart(checked.piece.tables, checked.piece.made, checked.position)


def refuse_successor(checked: CheckedStep) -> None:
    """Raise DMError where another table would get the name of one that is still there."""
    moved = checked.step.moved_away
    if moved is None:
        return
    target = checked.source.rules.route(moved.real)
    if checked.now.get(target) is not None:
        raise DMError(
            "online-ddl-table-moved",
            position=checked.position,
            real=moved.real,
            trash=moved.trash,
            target=target,
            target_sql=target.sql,
            statement=checked.piece.text,
        )


def refuse_leaving_tables(checked: CheckedStep) -> None:
    """Raise DMError where the target would keep tables of the schema that the piece drops."""
    operation, rules = checked.piece.operation, checked.source.rules
    if checked.step.by_hand or not isinstance(operation, DropDatabase):
        return
    gone = rules.route(operation.name).schema
    routed = {
        rules.route(table)
        for table in checked.source.tracker.tables()
        if table.schema == operation.name.schema and rules.wanted(table)
    }
    read_target = checked.target.schemas.read
    left = [table for table in sorted(routed) if table.schema != gone and read_target(table) is not None]
    if left:
        tables = ", ".join(table.sql for table in left)
        raise DMError("ddl-schema-elsewhere", tables=tables, statement=checked.piece.text, position=checked.position)


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
