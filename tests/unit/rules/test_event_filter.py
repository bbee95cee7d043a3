"""The binlog event filter answers as DM's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.config.rules import CLASSES, DDL_EVENTS, DML_EVENTS, INCOMPATIBLE_DDL_EVENTS, FilterRule
from dm.errors import DMError
from dm.ident import TableName
from dm.rules import TableRules
from dm.rules.event_filter import EventFilter
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
        ("sql-pattern: ['^DROP\\s+PROCEDURE', 'DROP\\s+TABLE'], action: Ignore", "`sql-pattern` DROP"),
        ("sql-pattern: ['^CREATE\\s+PROCEDURE'], action: Do, events: [all]", "`sql-pattern`"),
        ("sql-pattern: ['^CREATE'], action: Ignore", "of a MariaDB's text"),
        ("sql-pattern: ['^DROP\\s+PROCEDURE', '^CREATE\\s+PROCEDURE'], action: Ignore", "of no server"),
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
    elif kept == "of a MariaDB's text":
        assert found == ["", "filter r0 leaves out statements by their text (`sql-pattern` ^CREATE)"]
    elif kept == "of a MariaDB":
        assert found == ["", "filter r0 leaves out `create table`"]
    else:
        assert all(kept in each for each in found), found


REMOVING = (
    "DROP TABLE shop.t", "drop table if exists `t`, `u`", "DROP DATABASE shop", "DROP SCHEMA shop", "TRUNCATE shop.t",
    "TRUNCATE TABLE shop.t", "RENAME TABLE t TO u", "ALTER TABLE t RENAME TO u", "ALTER TABLE t ADD c INT, RENAME u",
    "ALTER TABLE t DROP PARTITION p", "ALTER TABLE t TRUNCATE PARTITION p", "DELETE FROM t", "REPLACE t VALUES (1)",
    "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", "/* one */ DROP TABLE t", "UPDATE t SET id = 1",
)  # fmt: skip
REPLACING = (
    "CREATE OR REPLACE TABLE t (i INT)",
    "CREATE OR REPLACE DATABASE shop",
    "create  or replace table t",
)
HARMLESS = r"""
^DROP\s+PROCEDURE
(?i)^create\s+trigger\b
^GRANT
^(CREATE|DROP|ALTER)\s+(EVENT|PROCEDURE)
^DROP VIEW
^CREATE\s+(?:UNIQUE|FULLTEXT)
^CREATE +INDEX[\s\S]*FANCY
^REVOKE.*
^CREATE TABLE `x
"""
UNCERTAIN = r"""
DROP PROCEDURE
^DROP\s+PROCEDURE|TABLE
^DROP\s+(PROCEDURE|TABLE)
^DROP\s*PROCEDURE
^DROP
^DROP\s+(PROCEDURE)?
^(DROP\s+PROCEDURE)?
^ALTER\s+TABLE\s+t\s+ADD COLUMN
(?m)^GRANT
^\s*GRANT
^DROP\s+.*PROCEDURE
^DROP\s+PROCEDURE{0}
^GRANT?
^(GRANT)*
^DROP\s+VIEW*
^RENAME USER
.*
^(GRANT|TRUNCATE)
^DROP DATABASES?
^DROP\s+[A-Z]+
^GRANT|^DROP
^DROP\x20PROCEDURE
^TRUNC
"""


@pytest.mark.parametrize("pattern", HARMLESS.split("\n")[1:-1])
def test_a_pattern_of_statements_that_remove_no_rows_keeps_none(pattern: str) -> None:
    rules = filtered(f"schema-pattern: '*', sql-pattern: ['{pattern}'], action: Ignore")
    assert [rules.keeps_rows(replaces=replaces) for replaces in (False, True)] == ["", ""]
    assert not any(rules.sql_pattern_ignores(statement) for statement in REMOVING + REPLACING)


@pytest.mark.parametrize("pattern", UNCERTAIN.split("\n")[1:-1])
def test_a_pattern_that_may_match_what_removes_rows_keeps_them(pattern: str) -> None:
    rules = filtered(f"schema-pattern: '*', sql-pattern: ['{pattern}'], action: Ignore")
    assert all(rules.keeps_rows(replaces=replaces) for replaces in (False, True))


@settings(max_examples=300, deadline=None)
@given(pattern=st.text(alphabet="^(|)?:*+{}1\\s .ADEGNOPRTVWIabl", max_size=16))
def test_what_is_said_to_remove_no_rows_matches_nothing_that_does(pattern: str) -> None:
    for text in (pattern, f"^DROP {pattern}", f"^GRANT{pattern}", f"^CREATE INDEX{pattern}"):
        try:
            found = FilterRule(schema_pattern="*", sql_pattern=(text,), action="Ignore")
            rules = EventFilter([found], case_sensitive=False)
        except (ValueError, DMError):
            continue  # no expression
        for replaces, statements in ((False, REMOVING), (True, REMOVING + REPLACING)):
            if not rules.keeps_rows(replaces=replaces):
                assert not any(map(rules.ignores_text, statements)), text
