"""The proof that a ghost table may take a real one's place: the statements kept make the one what the other is."""

from __future__ import annotations

from dm.errors import DMError
from dm.position import Position
from dm.schema.draft import Refused, renamed
from dm.schema.interpretation import Surroundings, interpret
from dm.schema.normal import index_form, same_column
from dm.schema.table import TableSchema
from dm.schema.tracker import SchemaTracker
from dm.syncer.ddl.step import CutOver


def prove(step: CutOver, tracker: SchemaTracker, position: Position) -> None:
    """Raise DMError where the statements would not make the real table what the ghost is."""
    ghost, real = step.ghost, step.real
    now, aim = tracker.get(step.old), tracker.get(ghost)
    if now is None or aim is None:
        return  # the structure is found, and compared with the target's, when the next rows come
    tables = {real: renamed(now, real)}
    try:
        for piece in step.pieces:
            changes = interpret(piece, Surroundings(tables.get, tracker.database_charset, lenient=True))
            tables.update((name, schema) for name, schema in changes.items() if schema is not None)
        why = _difference(tables[real], renamed(aim, real))
    except Refused as refusal:
        why = str(refusal)
    if why:
        raise DMError(
            "online-ddl-different", position=position, ghost=ghost, real=real, why=why, statement=step.statement
        )


def _difference(one: TableSchema, other: TableSchema) -> str:
    """In what two structures differ, as far as statements on them can tell; empty when in nothing."""
    if [column.name.lower() for column in one.columns] != [column.name.lower() for column in other.columns]:
        return "other columns: " + " and ".join(
            ", ".join(column.name for column in schema.columns) for schema in (one, other)
        )
    for left, right in zip(one.columns, other.columns, strict=True):
        if not same_column(left, right):
            return f"another column {left.name}"
    foreign = [sorted(key.name.lower() for key in schema.foreign_keys) for schema in (one, other)]
    if foreign[0] != foreign[1]:
        return "other foreign keys: " + " and ".join(", ".join(names) or "none" for names in foreign)
    indexes = [
        {index.name.lower(): index_form(index, schema) for index in schema.indexes if not one.foreign_keys}
        for schema in (one, other)
    ]
    if indexes[0] != indexes[1]:
        names = {name for name in indexes[0] | indexes[1] if indexes[0].get(name) != indexes[1].get(name)}
        return f"other indexes: {', '.join(sorted(names))}"
    return ""
