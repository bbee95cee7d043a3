"""Which target tables the load of added tables has made, so that a cancel drops these and no others.

The row of `dm.progress.joining.steps` has them, beginning with what was missing when the tables were asked for. The
source goes on meanwhile: what it creates is made by the load or by a statement, and what it renames has another name.
So both say beforehand what they are about to make. Said and not done is harmless: nothing is dropped where nothing is.
Only a table counts that was not there. One of a person may be renamed by the source, and after a crash none of the
names in such a statement says whose rows it has: all of them are kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.piece import Piece
from dm.progress.joining.steps import Joining, in_transaction, read_joining
from dm.progress.tables import SubtaskKey


def note_loaded(connection: TargetConnection, key: SubtaskKey, tables: Iterable[TableName]) -> None:
    """The load makes these tables, which are not there; raises DMError where nobody wants them any more."""

    def act() -> bool:
        found = read_joining(connection, key, lock=True)
        if found is None or found.phase == "cancelled":
            return False
        _store(connection, key, found, {*found.targets, *tables})
        return True

    if not in_transaction(connection, act):
        raise DMError("load-fenced", task=key.task)


def note_piece(
    connection: TargetConnection, key: SubtaskKey, piece: Piece, now: Mapping[TableName, TableSchema | None]
) -> None:
    """Inside a transaction under the share's claim: its stream executes this, and the target has these tables now."""
    found = read_joining(connection, key, lock=True)
    if found is not None and found.kind == "add":
        there = frozenset(table for table, structure in now.items() if structure is not None)
        _store(connection, key, found, made_after(frozenset(found.targets), piece, there))


def made_after(made: frozenset[TableName], piece: Piece, there: Collection[TableName]) -> frozenset[TableName]:
    """The tables that are the load's alone, whether the piece will have been executed or not."""
    renamed = {table for pair in piece.renames for table in pair}
    if not renamed:
        return made | {table for table in piece.made if table not in there}
    return made | renamed if made.issuperset(renamed.intersection(there)) else made - renamed


def _store(connection: TargetConnection, key: SubtaskKey, joining: Joining, made: Collection[TableName]) -> None:
    if {*made} != {*joining.targets}:
        connection.execute(
            f"UPDATE {key.joining.sql} SET targets = %s WHERE id = %s", (json.dumps(sorted(made)), key.source_id)
        )
