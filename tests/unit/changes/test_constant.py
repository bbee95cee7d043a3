"""Extracted columns are columns like any other: in keys, in conditions, in statements."""

from __future__ import annotations

import pytest

from dm.changes.column_map import constant_columns, with_constants
from dm.changes.keys import keys_of
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.changes.row_keys import TargetTable
from dm.changes.safe_mode import row_statements
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import Column, Index, IndexPart, TableSchema
from dm.rules import ExtractedColumn
from tests.unit.changes.plans import TARGET, key, number, text

SOURCE = TableName("shop_1", "t_1")
ID, V = number("id"), number("v", nullable=True)
SHARD = text("c_table", 10)


def plan_for(value: str, *indexes: Index, shard: Column = SHARD) -> TablePlan:
    schema = TableSchema(TARGET, (ID, V, shard), indexes)
    constants = constant_columns(SOURCE, ["id", "v"], schema, [ExtractedColumn("C_Table", value)])
    wire = (ID, V)
    return build_plan(TableSchema(SOURCE, wire), wire, TargetTable(schema), PlanOptions("mysql"), constants)


def insert(plan: TablePlan, *row: int | None) -> RowChange:
    ((before, after),) = with_constants([(None, row)], plan.constants)
    return RowChange(plan, ChangeKind.INSERT, before, after, safe=False)


def update(plan: TablePlan, *, safe: bool) -> RowChange:
    ((before, after),) = with_constants([((1, 1), (1, 2))], plan.constants)
    return RowChange(plan, ChangeKind.UPDATE, before, after, safe)


def test_rows_of_two_tables_share_a_key_only_where_the_column_is_not_part_of_it() -> None:
    primary = key("PRIMARY", "id", "c_table")
    one, two = plan_for("1", primary), plan_for("2", primary)
    assert not set(keys_of(insert(one, 7, 0))) & set(keys_of(insert(two, 7, 0)))
    assert set(keys_of(insert(one, 7, 0))) & set(keys_of(insert(plan_for("1", primary), 7, 1)))
    shared = key("codes", "v")
    one, two = plan_for("1", primary, shared), plan_for("2", primary, shared)
    assert set(keys_of(insert(one, 7, 5))) & set(keys_of(insert(two, 8, 5)))


def test_a_key_with_the_column_makes_the_table_keyed() -> None:
    keyed = plan_for("1", key("PRIMARY", "id", "c_table"))
    assert keyed.keyed
    assert not keyed.upsert, "no column of the target is unknown"
    assert [column.target.name for column in keyed.row_key] == ["id", "c_table"]


def test_a_prefix_of_the_column_is_a_prefix_of_the_value() -> None:
    prefix = Index("PRIMARY", "primary", (IndexPart("id"), IndexPart("c_table", prefix=2)))
    assert set(keys_of(insert(plan_for("abc", prefix), 1, 0))) & set(keys_of(insert(plan_for("abd", prefix), 1, 0)))


def test_statements_write_and_find_the_column() -> None:
    plan = plan_for("o'b`r", key("PRIMARY", "id", "c_table"))
    (inserted,) = row_statements(insert(plan, 1, None))
    assert inserted.sql == b"INSERT INTO `d`.`t` (`id`,`v`,`c_table`) VALUES (1,NULL,'o''b`r')"
    (updated,) = row_statements(update(plan, safe=False))
    assert updated.sql.endswith(b" WHERE `id`=1 AND `c_table`='o''b`r' LIMIT 1")
    (replaced,) = row_statements(update(plan, safe=True))
    assert replaced.sql == b"REPLACE INTO `d`.`t` (`id`,`v`,`c_table`) VALUES (1,2,'o''b`r')"


def test_a_row_of_a_keyless_table_is_found_by_the_column_too() -> None:
    plan = plan_for("1")
    ((before, after),) = with_constants([((1, 1), None)], plan.constants)
    (deleted,) = row_statements(RowChange(plan, ChangeKind.DELETE, before, after, safe=False))
    assert b"c_table" in deleted.sql


def test_char_takes_trailing_blanks_off_as_the_server_does() -> None:
    char = Column("c_table", "char", 10, charset="utf8mb4", collation="utf8mb4_0900_bin")
    assert plan_for("a ", shard=char).constants == (b"a",)
    assert plan_for("a ").constants == (b"a ",)


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        (None, "1", "no such column"),
        (number("c_table"), "1", "is of type INT"),
        (Column("c_table", "enum", charset="utf8mb4", members=("1",)), "1", "is of type ENUM"),
        (Column("c_table", "binary", 4), "1", "is of type BINARY"),
        (Column("c_table", "varchar", 9, charset="utf8mb4", generated="virtual"), "1", "the target computes it"),
        (text("c_table", 3), "abcd", "`abcd` is longer than 3"),
        (Column("c_table", "varbinary", 3), "éé", "is longer than 3"),
    ],
)
def test_a_column_that_can_not_take_the_value_is_named(column: Column | None, value: str, why: str) -> None:
    schema = TableSchema(TARGET, (ID, V) if column is None else (ID, V, column))
    with pytest.raises(DMError, match=why) as raised:
        constant_columns(SOURCE, ["id", "v"], schema, [ExtractedColumn("c_table", value)])
    assert raised.value.name == "extract-column-unfit"


def test_a_column_of_the_source_is_not_overwritten() -> None:
    with pytest.raises(DMError, match="the source has a column of that name"):
        constant_columns(SOURCE, ["id", "C_TABLE"], TableSchema(TARGET, (ID, SHARD)), [ExtractedColumn("c_table", "1")])
