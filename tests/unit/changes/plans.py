"""Plans for tests, from as little structure as they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.changes.row_keys import TargetTable
from dm.ident import TableName
from dm.mysql.binlog.value import Row, Value
from dm.mysql.schema.table import Column, Index, IndexPart, TableSchema

TARGET = TableName("d", "t")
MYSQL = PlanOptions("mysql")


def number(name: str, *, nullable: bool = False) -> Column:
    """An INT column."""
    return Column(name, "int", nullable=nullable)


def text(name: str, length: int = 20, *, collation: str = "utf8mb4_bin", nullable: bool = False) -> Column:
    """A VARCHAR column."""
    charset = collation.partition("_")[0]
    return Column(name, "varchar", length=length, charset=charset, collation=collation, nullable=nullable)


def key(name: str, *columns: str) -> Index:
    """A unique index, the primary key when it is called PRIMARY."""
    return Index(name, "primary" if name == "PRIMARY" else "unique", tuple(IndexPart(column) for column in columns))


def plan(
    columns: Sequence[Column],
    indexes: Sequence[Index],
    *,
    source: Sequence[Column] | None = None,
    options: PlanOptions = MYSQL,
    target: TargetTable | None = None,
) -> TablePlan:
    """The plan into a table of these columns and indexes, from the same columns unless the source's are given."""
    schema = TableSchema(TARGET, tuple(columns), tuple(indexes))
    wire = tuple(columns if source is None else source)
    table = TargetTable(schema) if target is None else replace(target, schema=schema)
    return build_plan(TableSchema(TableName("s", "t"), wire), wire, table, options)


def insert(into: TablePlan, *row: Value, safe: bool = False) -> RowChange:
    """An INSERT of the row."""
    return RowChange(into, ChangeKind.INSERT, None, row, safe)


def update(of: TablePlan, before: Row, after: Row, *, safe: bool = False) -> RowChange:
    """An UPDATE from one image to the other."""
    return RowChange(of, ChangeKind.UPDATE, before, after, safe)


def delete(of: TablePlan, *row: Value, safe: bool = False) -> RowChange:
    """A DELETE of the row."""
    return RowChange(of, ChangeKind.DELETE, row, None, safe)
