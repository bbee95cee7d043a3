"""The block-allow-list keeps what DM's keeps."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.config.rules import BlockAllowList, TablePattern
from dm.ident import TableName
from dm.rules.block_allow import SYSTEM_SCHEMAS, TableSelection
from tests.unit.rules.subtasks import listed

SCHEMAS = ("a", "b", "ab")
TABLES = ("t", "u", "tu")
ALL = [TableName(schema, table) for schema, table in itertools.product(SCHEMAS, ("", *TABLES))]


def kept(lists: str) -> set[str]:
    rules = listed(lists)
    return {str(name) for name in ALL if name.table and rules.wanted(name)}


EVERYTHING = {f"{schema}.{table}" for schema in SCHEMAS for table in TABLES}


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ("{}", EVERYTHING),
        ("{do-dbs: [a]}", {"a.t", "a.u", "a.tu"}),
        ("{do-dbs: [a*], ignore-dbs: [a]}", {"a.t", "a.u", "a.tu", "ab.t", "ab.u", "ab.tu"}),
        ("{ignore-dbs: ['a?', b]}", {"a.t", "a.u", "a.tu"}),
        ("{do-tables: [{db-name: a, tbl-name: t*}]}", {"a.t", "a.tu"}),
        ("{do-tables: [{db-name: a, tbl-name: t}], ignore-tables: [{db-name: a, tbl-name: t}]}", {"a.t"}),
        ("{do-dbs: [b], do-tables: [{db-name: a, tbl-name: t}]}", set()),
        ("{ignore-tables: [{db-name: '*', tbl-name: '~u$'}]}", {"a.t", "b.t", "ab.t"}),
        ("{do-dbs: ['~^a$']}", {"a.t", "a.u", "a.tu"}),
        ("{do-dbs: ['~a']}", {"a.t", "a.u", "a.tu", "ab.t", "ab.u", "ab.tu"}),
        (
            "{do-tables: [{db-name: '~^a$', tbl-name: t}, {db-name: '~^b$', tbl-name: u}]}",
            {"a.t", "b.u"},
        ),
    ],
)
def test_both_levels_must_let_a_table_pass(lists: str, expected: set[str]) -> None:
    assert kept(lists) == expected


@pytest.mark.parametrize("schema", sorted(SYSTEM_SCHEMAS))
def test_schemas_of_the_server_never_take_part(schema: str) -> None:
    for lists in ("{}", "{do-dbs: ['*']}", f"{{do-tables: [{{db-name: {schema}, tbl-name: '*'}}]}}"):
        rules = listed(lists)
        assert not rules.wanted(TableName(schema, "t"))
        assert not rules.wanted(TableName(schema.upper(), ""))


def test_a_schema_as_a_whole_passes_the_first_level_only() -> None:
    rules = listed("{do-dbs: [a], do-tables: [{db-name: a, tbl-name: t}]}")
    assert rules.wanted(TableName("a", ""))
    assert not rules.wanted(TableName("b", ""))


def test_case_counts_only_when_asked_for() -> None:
    assert listed("{do-dbs: [Shop]}").wanted(TableName("sHOP", "t"))
    assert not listed("{do-dbs: [Shop]}", sensitive=True).wanted(TableName("sHOP", "t"))
    assert listed("{do-dbs: ['~^SHOP']}").wanted(TableName("shop", "t"))


names = st.lists(st.sampled_from([*SCHEMAS, "a*", "?"]), max_size=2)
tables = st.lists(st.tuples(st.sampled_from([*SCHEMAS, "*"]), st.sampled_from([*TABLES, "t*", "*"])), max_size=2)


def fits(pattern: str, name: str) -> bool:
    return (
        name.startswith(pattern[:-1])
        if pattern.endswith("*")
        else len(name) == 1
        if pattern == "?"
        else name == pattern
    )


@given(names, tables, names, tables)
def test_the_order_of_the_lists_is_mysqls(
    do_schemas: list[str], do_tables: list[tuple[str, str]], no_schemas: list[str], no_tables: list[tuple[str, str]]
) -> None:
    def patterns(pairs: list[tuple[str, str]]) -> tuple[TablePattern, ...]:
        return tuple(TablePattern(db_name=schema, tbl_name=table) for schema, table in pairs)

    def listed_in(pairs: list[tuple[str, str]], name: TableName) -> bool:
        return any(fits(schema, name.schema) and fits(table, name.table) for schema, table in pairs)

    lists = BlockAllowList(
        do_dbs=tuple(do_schemas),
        do_tables=patterns(do_tables),
        ignore_dbs=tuple(no_schemas),
        ignore_tables=patterns(no_tables),
    )
    selection = TableSelection(lists, case_sensitive=True)
    for name in ALL:
        expected = (
            any(fits(pattern, name.schema) for pattern in do_schemas)
            if do_schemas
            else not any(fits(pattern, name.schema) for pattern in no_schemas)
        )
        if name.table and not listed_in(do_tables, name):
            expected = expected and not do_tables and not listed_in(no_tables, name)
        assert selection.wanted(name) == expected
