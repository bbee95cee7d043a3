"""Each rule that keeps rows from going as events, and that none stands in the way of an ordinary table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dm.changes.event_rules import RoutedTable, event_form, hindrance
from dm.changes.plan import PlanOptions
from dm.changes.row_keys import TargetTable
from dm.ident import TableName
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.table_map import OptionalMetadata, TableMap
from dm.mysql.binlog.wire_type import WireCode, WireType
from dm.mysql.schema.table import Column, TableSchema
from tests.unit.changes.event_tables import ROW_EVENTS, pair_of
from tests.unit.changes.plans import key, number

ID = number("id")
PRIMARY = [key("PRIMARY", "id")]
V = Column("v", "int")
_EMPTY = TableSchema(TableName("d", "t"), ())


def test_nothing_stands_in_the_way_of_equal_tables() -> None:
    assert hindrance(pair_of([ID, V], PRIMARY)) == ""
    assert hindrance(pair_of([replace(ID, name="ID"), V], PRIMARY, source=[ID, V])) == ""
    assert hindrance(pair_of([ID, V], [])) == "", "a table without a key"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"no_events": "the account lacks it"}, "the account lacks it"),
        ({"insert_mode": "replace"}, "insert-mode"),
        ({"missing_row": "count"}, "missing-row"),
    ],
)
def test_what_the_session_or_the_task_says(changed: dict[str, str], why: str) -> None:
    options = replace(ROW_EVENTS, **changed)  # type: ignore[arg-type]  # the values of these fields
    assert why in hindrance(pair_of([ID, V], PRIMARY, options=options))


def test_the_default_is_sql() -> None:
    assert hindrance(pair_of([ID, V], PRIMARY, options=PlanOptions("mysql")))


@pytest.mark.parametrize("base", ["blob", "longtext", "json", "point", "vector"])
def test_values_that_mysql_loses_without_a_key(base: str) -> None:
    columns = [ID, Column("v", base)]
    assert "lose a change of column v" in hindrance(pair_of(columns, []))
    assert "lose" not in hindrance(pair_of(columns, PRIMARY))
    assert "lose" not in hindrance(pair_of(columns, [], options=replace(ROW_EVENTS, flavor="mariadb")))
    assert hindrance(pair_of([ID, Column("v", "varbinary", 9)], [])).startswith("the binlog does not fit")


def test_columns_of_a_route() -> None:
    pair = pair_of([ID, V], PRIMARY)
    assert "route" in hindrance(replace(pair, plan=replace(pair.plan, constants=(b"x",))))


def test_rows_that_an_expression_filter_reads() -> None:
    assert "filter" in hindrance(replace(pair_of([ID, V], PRIMARY), filtered=True))


def test_triggers_that_the_account_may_not_see() -> None:
    options = replace(ROW_EVENTS, sees_triggers=lambda table: table != TableName("d", "t"))
    assert "lacks TRIGGER" in hindrance(pair_of([ID, V], PRIMARY, options=options))
    assert hindrance(pair_of([ID, V], PRIMARY, options=options, table="other")) == ""
    assert "lacks TRIGGER" in hindrance(pair_of([ID, V], PRIMARY, options=PlanOptions("mysql", no_events="")))


def test_triggers() -> None:
    assert "triggers" in hindrance(pair_of([ID, V], PRIMARY, target=TargetTable(_EMPTY, triggers=True)))


def test_checks_that_row_events_are_not_asked_of() -> None:
    assert "a CHECK" in hindrance(pair_of([ID, V], PRIMARY, target=TargetTable(_EMPTY, checks=True)))


def test_a_check_for_json_that_the_source_does_not_have() -> None:
    options = replace(ROW_EVENTS, flavor="mariadb")
    checked = replace(V, json_checked=True)
    assert "alone" in hindrance(pair_of([ID, checked], PRIMARY, source=[ID, V], options=options))
    assert hindrance(pair_of([ID, checked], PRIMARY, options=options)) == ""
    assert hindrance(pair_of([ID, V], PRIMARY, source=[ID, checked], options=options)) == ""


@pytest.mark.parametrize("columns", [[ID, V, Column("w", "int", default="1")], [V, ID]])
def test_other_columns_or_another_order(columns: list[Column]) -> None:
    assert "differ in their columns" in hindrance(pair_of(columns, PRIMARY, source=[ID, V]))


@pytest.mark.parametrize(
    ("source", "target", "alike"),
    [
        ("`id` + 1", "`id` + 1", True),
        ("id + 1", "(`id` + 1)", True),
        ("`id` + 1", "`id` * 2", False),
    ],
)
@pytest.mark.parametrize("generated", ["stored", "virtual"])
def test_expressions_of_generated_columns(source: str, target: str, alike: bool, generated: Any) -> None:
    columns = [[ID, replace(V, generated=generated, expression=text)] for text in (source, target)]
    why = hindrance(pair_of(columns[1], PRIMARY, source=columns[0]))
    assert why == ("" if alike else "column v is computed by another expression")


TEXT = Column("v", "varchar", 5, charset="latin1", collation="latin1_swedish_ci")


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        (V, replace(V, base="bigint"), "types int and bigint"),
        (TEXT, replace(TEXT, length=6), "length"),
        (Column("v", "decimal", 10, 2), Column("v", "decimal", 10, 3), "length"),
        (replace(V, unsigned=True), V, "sign"),
        (TEXT, replace(TEXT, charset="utf8mb4"), "character sets"),
        (
            Column("v", "enum", charset="latin1", members=("a", "b")),
            Column("v", "enum", charset="latin1", members=("a", "b", "c")),
            "members",
        ),
        (replace(V, nullable=False), V, "NULL"),
        (replace(V, generated="stored", expression="id"), V, "generated"),
    ],
)
def test_a_column_differs(source: Column, target: Column, why: str) -> None:
    options = replace(ROW_EVENTS, narrower_columns="accept")
    assert why in hindrance(pair_of([ID, target], PRIMARY, source=[ID, source], options=options))


@pytest.mark.parametrize("hidden", ["source", "target"])
def test_a_generated_key_that_one_side_hides(hidden: str) -> None:
    def why(name: str, invisible: bool) -> str:
        there, here = (replace(ID, name=name, invisible=side == hidden and invisible) for side in ("source", "target"))
        return hindrance(pair_of([here, V], [key("PRIMARY", name)], source=[there, V]))

    assert why("my_row_id", True) == "column my_row_id differs in visibility"
    assert why("my_row_id", False) == why("id", True) == ""


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (V, replace(V, length=11)),
        (Column("v", "bigint", 20, unsigned=True), Column("v", "bigint", unsigned=True)),
        (Column("v", "decimal"), Column("v", "decimal", 10, 0)),
        (replace(TEXT, base="char", length=None), replace(TEXT, base="char", length=1)),
        (Column("v", "datetime"), Column("v", "datetime", decimals=0)),
        (Column("v", "year", 4), Column("v", "year")),
        (Column("v", "bit"), Column("v", "bit", 1)),
    ],
)
def test_lengths_that_only_one_side_says_do_not_count(source: Column, target: Column) -> None:
    for pair in (
        pair_of([ID, target], PRIMARY, source=[ID, source]),
        pair_of([ID, source], PRIMARY, source=[ID, target]),
    ):
        assert "length" not in hindrance(pair)


def test_collations_do_not_count() -> None:
    assert "character" not in hindrance(pair_of([ID, replace(TEXT, collation="latin1_bin")], [], source=[ID, TEXT]))


@pytest.mark.parametrize(
    ("source", "target", "alike"),
    [
        ("latin1_bin", "latin1_bin", True),
        ("latin1_bin", "latin1_swedish_ci", False),
        (None, "latin1_bin", False),
        ("utf8_bin", "utf8mb3_bin", True),
    ],
)
def test_collations_by_which_a_mariadb_would_store_what_the_source_computes(
    source: str | None, target: str, alike: bool
) -> None:
    options = replace(ROW_EVENTS, flavor="mariadb")

    def why(generated: Any) -> str:
        computed = replace(V, name="w", generated=generated, expression="v = 'x'")
        there, here = ([ID, replace(TEXT, collation=collation), computed] for collation in (source, target))
        return hindrance(pair_of(here, PRIMARY, source=there, options=options))

    assert ("column v has another collation" in why("stored")) is not alike
    assert "collation" not in why("virtual")


def mapped(pair: RoutedTable, wire: WireType, *, nullable: bool = True) -> RoutedTable:
    """The pair whose second column is of this type in the binlog."""
    found = pair.table_map
    types = (found.columns[0], wire)
    made = TableMap("s", "t", types, (False, nullable), OptionalMetadata(), "mysql", found.content)
    return replace(pair, table_map=made)


def test_the_binlog_has_other_bytes_than_the_target() -> None:
    pair = pair_of([ID, V], PRIMARY)
    assert "does not fit the target" in hindrance(mapped(pair, WireType(WireCode.LONGLONG)))
    assert "differs in NULL" in hindrance(mapped(pair, WireType(WireCode.LONG), nullable=False))


@pytest.mark.parametrize(
    ("wire", "column"),
    [
        (WireType(WireCode.GEOMETRY, 4), Column("v", "geometry")),
        (WireType(WireCode.VARCHAR, 20), Column("v", "varchar", 10, charset="gbk")),
    ],
)
def test_bytes_that_only_the_server_can_judge(wire: WireType, column: Column) -> None:
    assert "judge" in hindrance(mapped(pair_of([ID, column], PRIMARY), wire))


def test_times_of_an_old_version() -> None:
    pair = mapped(pair_of([ID, Column("v", "timestamp")], PRIMARY), WireType(WireCode.TIMESTAMP))
    assert "old version" in hindrance(pair)


def test_columns_of_keys_are_read_and_others_are_not(twin: str) -> None:
    pair = pair_of([ID, V, Column("u", "int")], [*PRIMARY, key("u", "u")])
    form = event_form(pair, RowDecoder(pair.table_map, pair.wire))
    assert [proof.unread for proof in form.proofs] == [False, True, False]
    assert form.order_key is not None, "of several unique keys the order is kept"
    alone = pair_of([ID, V], PRIMARY)
    assert event_form(alone, RowDecoder(alone.table_map, alone.wire)).order_key is None
