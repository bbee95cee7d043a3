"""Whether tables that are to be merged are alike: shards of one target table, which are altered by the same statements.

The order of columns does not matter, since rows find theirs by name. Names of indexes do: a statement that drops one
names it.
"""

from __future__ import annotations

from dataclasses import replace

from dm.ident import TableName
from dm.schema.normal import same_column, same_structure
from dm.schema.table import Column, Index, TableSchema

_NAME = TableName("", "")


def alike(one: TableSchema, other: TableSchema) -> bool:
    """Whether two shards have the same columns and indexes."""
    return same_structure(_plain(one), _plain(other))


def _plain(schema: TableSchema) -> TableSchema:
    columns = tuple(sorted(schema.columns, key=lambda column: column.name.lower()))
    return replace(
        schema, name=_NAME, columns=columns, foreign_keys=(), charset=None, collation=None, engine=None, checks=(),
        partitions=(),
    )  # fmt: skip


def differences(one: TableSchema, other: TableSchema) -> list[str]:
    """In what they differ, for people; the first table is the subject."""
    found = list[str]()
    for column in one.columns:
        there = other.column(column.name)
        if there is None:
            found.append(f"column {column.name} is here only")
        elif not same_column(column, there):
            found.append(f"column {column.name} is {_column(column)} here and {_column(there)} there")
    found += [f"column {column.name} is there only" for column in other.columns if one.column(column.name) is None]
    here, there_ = {_index(index) for index in one.indexes}, {_index(index) for index in other.indexes}
    found += [f"index {text} is here only" for text in sorted(here - there_)]
    found += [f"index {text} is there only" for text in sorted(there_ - here)]
    return found


def _column(column: Column) -> str:
    size = ",".join(str(part) for part in (column.length, column.decimals) if part is not None)
    words = [column.base + (f"({size})" if size else "") + (" unsigned" if column.unsigned else "")]
    words += [column.collation] if column.collation else []
    words += [] if column.nullable else ["NOT NULL"]
    words += [f"DEFAULT {column.default}"] if column.default is not None else []
    return " ".join(words)


def _index(index: Index) -> str:
    return f"{index.name} {index.kind} ({', '.join(index.columns)})"
