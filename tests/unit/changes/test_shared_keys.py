"""Tables of different types that are merged into one read their keys alike."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dm.changes.keys import Key, SharedKeys, keys_of
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_keys import TargetTable
from dm.ident import TableName
from dm.mysql.binlog.value import Value
from dm.mysql.schema.table import Column, Index, TableSchema
from tests.unit.changes.plans import TARGET, insert, key, number, text

ID, U = number("id"), text("u", 50, nullable=True)
WIDE, SHORT = text("u", 100), text("u", 20)
BY_U = key("by_u", "u")


def merged(target: Sequence[Column], indexes: Sequence[Index], *sources: Sequence[Column]) -> list[TablePlan]:
    """The plans of source tables with these columns, once each does without what the others can't do."""
    shared = SharedKeys()
    into = TargetTable(TableSchema(TARGET, tuple(target), tuple(indexes)))

    def made(columns: Sequence[Column]) -> TablePlan:
        source = TableSchema(TableName("s", "t"), tuple(columns))
        return build_plan(source, source.columns, into, PlanOptions("mysql", narrower_columns="accept"), (), shared)

    for columns in sources:
        made(columns)
    size = shared.size
    plans = [made(columns) for columns in sources]
    assert shared.size == size
    return plans


def common(one: TablePlan, row: tuple[Value, ...], other: TablePlan, other_row: tuple[Value, ...]) -> set[Key]:
    """The keys that two rows have in common."""
    return set(keys_of(insert(one, *row))) & set(keys_of(insert(other, *other_row)))


@pytest.mark.parametrize("sources", [((ID, WIDE), (ID, SHORT)), ((ID, SHORT), (ID, WIDE))])
def test_a_part_that_one_table_can_not_fold_counts_as_one_value_for_all(sources: Sequence[Sequence[Column]]) -> None:
    one, other = merged([ID, U], [key("PRIMARY", "id"), BY_U], *sources)
    assert common(one, (1, b"x"), other, (2, b"x")) == {("d.t(u)", None)}
    assert common(one, (1, b"x"), other, (1, None)) == {("d.t(id)", 1)}  # the other index is as fine as it was
    assert not common(one, (1, b"x"), other, (2, None))  # a NULL collides with nothing


def test_a_part_whose_column_one_table_lacks_is_left_out_by_all() -> None:
    pair = key("pair", "u", "v")
    v = number("v", nullable=True)
    one, other = merged([ID, U, v], [key("PRIMARY", "id"), pair], (ID, SHORT, v), (ID, v))
    assert common(one, (1, b"x", 5), other, (2, 5)) == {("d.t(u,v)", 5)}
    assert not common(one, (1, b"x", 5), other, (2, 6))


def test_tables_that_agree_keep_their_values_in_the_keys() -> None:
    one, other = merged([ID, U], [key("PRIMARY", "id"), BY_U], (ID, SHORT), (Column("id", "bigint"), text("u", 30)))
    assert common(one, (1, b"x"), other, (2, b"x")) == {("d.t(u)", b"x")}
    assert not common(one, (1, b"x"), other, (2, b"y"))
    assert not one.ordered


def test_a_table_without_a_key_takes_the_others_of_its_target_to_the_ordered_lane() -> None:
    keyed, keyless = merged([ID, U], [key("PRIMARY", "id")], (ID, U), (text("id"), U))
    assert (keyed.keyed, keyless.keyed) == (True, False)
    assert (keyed.ordered, keyless.ordered) == (True, True)
    assert ("d.t",) in common(keyed, (1, None), keyless, (b"2", None))
    assert keyed.order_key is not None, "the compiled loop leaves such tables to the ordered lane"


def test_targets_have_nothing_to_do_with_each_other() -> None:
    shared = SharedKeys()
    keyless = TableSchema(TARGET, (ID,))
    build_plan(keyless, keyless.columns, TargetTable(keyless), PlanOptions("mysql"), (), shared)
    assert shared.keyless
    assert not merged([ID], [key("PRIMARY", "id")], (ID,))[0].ordered


def test_zero_bytes_at_the_end_count_nowhere() -> None:
    padded, free = Column("v", "binary", length=4), Column("v", "varbinary", length=4)
    one, other = merged([ID, free], [key("PRIMARY", "id"), key("v", "v")], (ID, padded), (ID, free))
    assert common(one, (1, b"a\0\0\0"), other, (2, b"a\0\0\0")) == {("d.t(v)", b"a")}


def test_a_float_that_a_double_rounds_to_another_number_is_not_folded() -> None:
    double = Column("v", "double", length=7, decimals=2)
    single = Column("v", "float", length=7, decimals=2)
    one, other = merged([ID, double], [key("PRIMARY", "id"), key("v", "v")], (ID, single), (ID, double))
    assert common(one, (1, 0.10000000149011612), other, (2, 0.1))
