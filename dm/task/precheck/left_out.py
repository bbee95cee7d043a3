"""What a TiDB leaves out of a structure, though it takes the statement: rows do not miss it, queries and checks may.

CHECK constraints (unless `tidb_enable_check_constraint` is on) and forms of partitioning that it does not have are
understood and passed over, with a warning that no load reads; so are full-text indexes by some versions. That a column
is hidden is nothing that it understands, and dm leaves it out (`dm.schema.visibility`).
"""

from __future__ import annotations

from collections.abc import Iterator

from dm.schema.table import TableSchema


def left_out(source: TableSchema, made: TableSchema) -> Iterator[str]:
    """The parts of a source's structure that the table made of it does not have, in words."""
    there = {index.name.lower() for index in made.indexes}
    for index in source.indexes:
        if index.name.lower() not in there:
            kind = "" if index.kind in ("index", "unique") else f"{index.kind} "
            yield f"{kind}index {index.name}"
    if len(made.checks) < len(source.checks):
        yield "CHECK constraints"
    if len(made.foreign_keys) < len(source.foreign_keys):
        yield "foreign keys"
    if source.partitions and not made.partitions:
        yield "partitions"
    shown = {column.name.lower() for column in made.columns if not column.invisible}
    for column in source.columns:
        if column.invisible and column.name.lower() in shown:
            yield f"INVISIBLE of column {column.name}"
