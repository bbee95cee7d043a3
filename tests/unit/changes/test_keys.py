"""Keys of a change: where it takes a row away and where it puts one."""

from __future__ import annotations

import pytest

from dm.changes.collation import fold_for
from dm.changes.keys import WILD, keys_of
from dm.changes.plan import PlanOptions, build_plan
from dm.changes.row_keys import TargetTable
from dm.ident import TableName
from dm.mysql.binlog.value import ABSENT, Value
from dm.mysql.schema.table import Column, ForeignKey, Index, IndexPart, TableSchema
from tests.unit.changes.plans import TARGET, delete, insert, key, number, plan, text, update

A, B = number("a"), number("b", nullable=True)


def test_every_unique_index_gives_a_key_for_each_image() -> None:
    two = plan([A, B], [key("PRIMARY", "a"), key("b", "b")])
    assert keys_of(insert(two, 1, 2)) == (("d.t(a)", 1), ("d.t(b)", 2))
    assert keys_of(update(two, (1, 2), (1, 3))) == (("d.t(a)", 1), ("d.t(b)", 2), ("d.t(b)", 3))
    assert keys_of(delete(two, 1, 2)) == (("d.t(a)", 1), ("d.t(b)", 2))


def test_null_collides_with_nothing() -> None:
    two = plan([A, B], [key("PRIMARY", "a"), key("b", "b")])
    assert keys_of(insert(two, 1, None)) == (("d.t(a)", 1),)


def test_equal_values_of_two_indexes_are_two_keys() -> None:
    two = plan([A, B], [key("PRIMARY", "a"), key("b", "b")])
    assert len(set(keys_of(insert(two, 7, 7)))) == 2


def test_two_sources_of_one_target_table_have_common_keys_whatever_their_column_order() -> None:
    one = plan([A, B], [key("PRIMARY", "a", "b")])
    other = plan([A, B], [key("PRIMARY", "a", "b")], source=[Column("B", "bigint"), Column("A", "bigint")])
    assert keys_of(insert(one, 1, 2)) == keys_of(insert(other, 2, 1))


def test_changes_of_a_keyless_table_share_a_key() -> None:
    keyless = plan([A, B], [key("b", "b")])
    assert not keyless.keyed
    assert set(keys_of(insert(keyless, 1, None))) & set(keys_of(delete(keyless, 2, None)))


def test_an_index_on_an_expression_puts_all_changes_in_order() -> None:
    functional = Index("f", "unique", (IndexPart(None, expression="a+1"),))
    table = plan([A, B], [key("PRIMARY", "a"), functional])
    assert set(keys_of(insert(table, 1, 1))) & set(keys_of(insert(table, 2, 2)))


def test_an_index_on_a_generated_column_puts_all_changes_in_order() -> None:
    made = Column("g", "int", generated="stored", expression="a*2")
    table = plan([A, made], [key("PRIMARY", "a"), key("g", "g")])
    assert set(keys_of(insert(table, 1, 2))) & set(keys_of(insert(table, 2, 4)))


def test_an_unknown_key_collides_with_everything() -> None:
    two = plan([A, B], [key("PRIMARY", "a"), key("b", "b")])
    assert WILD in keys_of(delete(two, 1, ABSENT))


def test_what_the_after_image_leaves_out_is_as_before() -> None:
    two = plan([A, B], [key("PRIMARY", "a"), key("b", "b")])
    assert keys_of(update(two, (1, 2), (ABSENT, 3))) == (("d.t(a)", 1), ("d.t(b)", 2), ("d.t(b)", 3))


def test_a_prefix_index_compares_the_prefix() -> None:
    table = plan([text("a")], [Index("PRIMARY", "primary", (IndexPart("a", prefix=2),))])
    assert keys_of(insert(table, "éab".encode())) == keys_of(insert(table, "éac".encode()))
    assert keys_of(insert(table, "éab".encode())) != keys_of(insert(table, "éb".encode()))


def test_a_child_shares_a_key_with_its_parent_where_that_is_checked() -> None:
    checked = PlanOptions("mysql", foreign_key_checks=True)
    parent = plan([A, B], [key("PRIMARY", "a")], options=checked, target=TargetTable(_EMPTY, referenced=(("a",),)))
    name = TableName("d", "child")
    reference = ForeignKey("f", ("p",), TARGET, ("a",))
    child_schema = TableSchema(name, (A, number("p", nullable=True)), (key("PRIMARY", "a"),), (reference,))
    parents = {TARGET: TableSchema(TARGET, (A, B), (key("PRIMARY", "a"),))}
    child = build_plan(child_schema, child_schema.columns, TargetTable(child_schema, parents=parents), checked)
    assert set(keys_of(insert(parent, 5, 1))) & set(keys_of(insert(child, 1, 5)))
    assert not set(keys_of(insert(parent, 5, 1))) & set(keys_of(insert(child, 5, 6)))
    assert not set(keys_of(insert(parent, 5, 1))) & set(keys_of(insert(child, 1, None)))
    assert not child.groupable


_EMPTY = TableSchema(TARGET, ())

_D2 = Column("v", "decimal", length=10, decimals=2)
_SAME = [
    (Column("v", "int"), Column("v", "bigint"), 5, 5),
    (Column("v", "int"), _D2, 5, 5),
    (_D2, _D2, "5.00", "5.00"),
    (Column("v", "decimal", length=9, decimals=1), _D2, "5.0", "5.0"),
    (Column("v", "double"), Column("v", "double"), -0.0, 0.0),
    (
        Column("v", "datetime", decimals=0),
        Column("v", "datetime", decimals=6),
        "2020-01-01 00:00:10",
        "2020-01-01 00:00:10",
    ),
    (Column("v", "binary", length=3), Column("v", "binary", length=3), b"a\0\0", b"a\0\0"),
    (text("v"), text("v"), b"a  ", b"a"),
]


@pytest.mark.parametrize(("source", "target", "one", "other"), _SAME)
def test_values_that_are_equal_at_the_target_fold_to_one(
    source: Column, target: Column, one: Value, other: Value
) -> None:
    fold, own = fold_for(source, target, None, None), fold_for(target, target, None, None)
    assert fold is not None
    assert own is not None
    assert fold(one) == fold(other)


@pytest.mark.parametrize(
    ("values", "columns"),
    [
        ((5, "5.00", "5.0"), (Column("v", "int"), _D2, Column("v", "decimal", length=9, decimals=1))),
        (
            ("2020-01-01 10:00:10", "2020-01-01 10:00:10.000"),
            (Column("v", "datetime", decimals=0), Column("v", "timestamp", decimals=3)),
        ),
    ],
)
def test_shards_of_different_types_meet_in_one_key(values: tuple[Value, ...], columns: tuple[Column, ...]) -> None:
    target = (
        Column("v", "decimal", length=20, decimals=5)
        if isinstance(values[0], int)
        else Column("v", "datetime", decimals=6)
    )
    folded = set()
    for value, column in zip(values, columns, strict=True):
        fold = fold_for(column, target, None, None)
        assert fold is not None
        folded.add(fold(value))
    assert len(folded) == 1


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (_D2, Column("v", "decimal", length=10, decimals=1)),
        (_D2, Column("v", "int")),
        (Column("v", "datetime", decimals=6), Column("v", "datetime", decimals=3)),
        (Column("v", "int"), text("v")),
        (text("v", 20), text("v", 10)),
        (Column("v", "double"), Column("v", "float")),
        (text("v"), text("v", collation="utf8mb4_general_ci")),
    ],
)
def test_a_conversion_that_may_merge_values_is_not_folded(source: Column, target: Column) -> None:
    assert fold_for(source, target, None, None) is None
