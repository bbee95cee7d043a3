"""The binlog event filter answers as DM's."""

from __future__ import annotations

import pytest

from dm.config.rules import CLASSES, DDL_EVENTS, DML_EVENTS, INCOMPATIBLE_DDL_EVENTS
from dm.errors import DMError
from dm.ident import TableName
from dm.rules import TableRules
from tests.unit.rules.subtasks import filtered, subtask

T = TableName("shop", "orders")
EVERY_DDL = DDL_EVENTS | INCOMPATIBLE_DDL_EVENTS


def ignored(rules: TableRules, table: TableName = T, sql: str = "ALTER TABLE t ...") -> set[str]:
    rows = {event for event in ("insert", "update", "delete") if rules.row_event(table, event) == "ignore"}
    return rows | {event for event in EVERY_DDL if rules.ddl_event(table, event, sql) == "ignore"}


def test_without_a_rule_everything_is_done() -> None:
    rules = filtered("schema-pattern: other, events: [all], action: Ignore")
    assert ignored(rules) == set()


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("all", DML_EVENTS | EVERY_DDL),
        ("all dml", DML_EVENTS),
        ("all ddl", EVERY_DDL),
        ("incompatible ddl changes", INCOMPATIBLE_DDL_EVENTS),
        ("incompatible ddl", INCOMPATIBLE_DDL_EVENTS),
        ("none", set()),
        ("insert, Drop Table", {"insert", "drop table"}),
        ("create schema", {"create database"}),
        ("none dml, all", EVERY_DDL),
        ("all, none dml", DML_EVENTS | EVERY_DDL),
        ("delete, none dml, all ddl", {"delete"} | EVERY_DDL),
    ],
)
def test_classes_and_names_choose_events(events: str, expected: set[str]) -> None:
    assert ignored(filtered(f"schema-pattern: shop, events: [{events}], action: Ignore")) == expected


@pytest.mark.parametrize("events", ["all dml", "insert, add column", "all ddl"])
def test_do_is_a_list_of_what_may_pass(events: str) -> None:
    chosen = ignored(filtered(f"schema-pattern: shop, events: [{events}], action: Ignore"))
    passing = ignored(filtered(f"schema-pattern: shop, events: [{events}], action: Do"))
    assert passing == (DML_EVENTS | EVERY_DDL) - chosen


def test_a_rule_without_table_is_for_the_schema_and_all_in_it() -> None:
    rules = filtered("schema-pattern: sho?, events: [delete, drop database], action: Ignore")
    assert rules.row_event(T, "delete") == "ignore"
    assert rules.ddl_event(TableName("shop", ""), "drop database", "DROP DATABASE shop") == "ignore"
    only_tables = filtered("schema-pattern: shop, table-pattern: o*, events: [all], action: Ignore")
    assert only_tables.ddl_event(TableName("shop", ""), "drop database", "DROP DATABASE shop") == "do"


def test_any_rule_may_object() -> None:
    rules = filtered(
        """
        schema-pattern: shop, table-pattern: orders, events: [insert], action: Ignore
        schema-pattern: shop, events: [insert, update], action: Do
        """
    )
    assert {event for event in ("insert", "update", "delete") if rules.row_event(T, event) == "ignore"} == {
        "insert",
        "delete",
    }
    assert rules.row_event(TableName("shop", "other"), "insert") == "do"


def test_a_statement_is_also_judged_by_its_text() -> None:
    rules = filtered(r"schema-pattern: shop, sql-pattern: ['^drop\s+index', 'ADD\s+COLUMN\s+tmp'], action: Ignore")
    assert rules.ddl_event(T, "drop index", "DROP  INDEX i ON orders") == "ignore"
    assert rules.ddl_event(T, "add column", "alter table orders add column tmp_1 int") == "ignore"
    assert rules.ddl_event(T, "add column", "alter table orders add column x int") == "do"
    assert rules.row_event(T, "delete") == "do"


def test_a_do_rule_with_texts_wants_both_the_event_and_the_text() -> None:
    rules = filtered("schema-pattern: shop, events: [all], sql-pattern: ['^ALTER'], action: Do")
    assert rules.ddl_event(T, "add column", "ALTER TABLE orders ADD c INT") == "do"
    assert rules.ddl_event(T, "truncate table", "TRUNCATE orders") == "ignore"
    assert rules.row_event(T, "insert") == "do"


def test_each_text_is_a_pattern_of_its_own() -> None:
    rules = filtered("schema-pattern: shop, sql-pattern: ['^a|^b', '(?-i)^C'], action: Ignore")
    assert [rules.ddl_event(T, "alter table", sql) for sql in ("A", "b", "C", "c")] == [
        "ignore",
        "ignore",
        "ignore",
        "do",
    ]


def test_error_stops_the_task() -> None:
    rules = filtered("schema-pattern: shop, events: [truncate table], action: Error")
    with pytest.raises(DMError) as raised:
        rules.ddl_event(T, "truncate table", "TRUNCATE orders")
    assert "`action: Error` (r0) matched truncate table on shop.orders" in raised.value.message
    assert rules.ddl_event(T, "add column", "ALTER") == "do"


def test_case_of_names_counts_only_when_asked_for() -> None:
    rule = "schema-pattern: SHOP, table-pattern: O*, events: [insert], action: Ignore"
    assert filtered(rule).row_event(T, "insert") == "ignore"
    assert filtered(rule, sensitive=True).row_event(T, "insert") == "do"


def test_rules_of_the_source_are_asked_too() -> None:
    source = "filters:\n- {schema-pattern: shop, events: [delete], action: Ignore}\n"
    assert TableRules(subtask("", "", source)).row_event(T, "delete") == "ignore"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("schema-pattern: '*', sql-pattern: ['^create\\s+fancy'], action: Ignore", True),
        ("schema-pattern: shop, sql-pattern: ['^create\\s+fancy'], action: Ignore", False),
        ("schema-pattern: '*', sql-pattern: ['other'], action: Ignore", False),
        ("schema-pattern: '*', events: [all], action: Ignore", False),
    ],
)
def test_a_statement_that_is_not_understood_is_left_to_rules_for_every_schema(rule: str, expected: bool) -> None:
    assert filtered(rule).sql_pattern_ignores("CREATE FANCY THING x") is expected


def test_every_event_has_one_class() -> None:
    sets = (DML_EVENTS, DDL_EVENTS, INCOMPATIBLE_DDL_EVENTS, CLASSES)
    assert len(frozenset().union(*sets)) == sum(len(names) for names in sets)


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("events: [truncate table, drop table, drop database], action: Ignore", "r0 leaves out `truncate table`"),
        ("table-pattern: long_gone, events: [drop table], action: Ignore", "r0 leaves out `drop table`"),
        ("events: [drop schema], action: Ignore", "r0 leaves out `drop database`"),
        ("events: [all ddl], action: Ignore", "`truncate table`"),
        ("events: [incompatible ddl changes], action: Ignore", "`truncate table`"),
        ("events: [rename table], action: Ignore", "`rename table`"),
        ("events: [exchange table partition], action: Ignore", "`exchange table partition`"),
        ("events: [alter table], action: Ignore", "`rename table`"),
        ("events: [all dml, create table, truncate table], action: Do", "`drop table`"),
        ("sql-pattern: ['^TRUNCATE'], action: Ignore", "`sql-pattern`"),
        ("events: [create table], action: Ignore", "of a MariaDB"),
        ("events: [none dml, all], action: Do", "of no server"),
        ("events: [drop column, modify column, create index, all dml], action: Ignore", "of no server"),
        ("events: [truncate table, drop table, drop database], action: Error", "of no server"),
    ],
)
def test_a_rule_that_leaves_out_what_removes_rows_keeps_them(rule: str, kept: str) -> None:
    rules = filtered(f"schema-pattern: shop, {rule}")
    found = [rules.keeps_rows(replaces=replaces) for replaces in (False, True)]
    if kept == "of no server":
        assert found == ["", ""]
    elif kept == "of a MariaDB":
        assert found == ["", "filter r0 leaves out `create table`"]
    else:
        assert all(kept in each for each in found), found
