"""The documented rules, case by case."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dm.config.rules import ALIASES, CLASSES, DML_EVENTS, EVENT_NAMES
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import Row
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.split import split
from dm.rules import TableRules
from tests.unit.rules import golden
from tests.unit.rules.subtasks import listed, subtask

CONTEXT = SourceContext("mysql", 80400, "shop")
ROW_EVENTS = ("insert", "update", "delete")
# What no statement of MySQL or MariaDB is: TiDB's, and what only a comparison of structures could tell.
WITHOUT_STATEMENT = {
    "create view", "drop view", "value range decrease", "precision decrease", "drop unique key", "modify columns order",
    "modify charset", "modify collation", "remove auto increment", "split table partition", "recover table",
    "modify schema charset and collate", "alter ttl info", "alter ttl remove", "multi schema change",
}  # fmt: skip


@pytest.mark.parametrize("case", golden.cases("lists"))
def test_a_list_keeps_what_is_documented(case: dict[str, Any]) -> None:
    rules = listed(json.dumps(case["lists"]), sensitive=case.get("case-sensitive", False))
    assert [name for name in case["kept"] if not rules.wanted(golden.named(name))] == []
    assert [name for name in case["dropped"] if rules.wanted(golden.named(name))] == []


def judged(rules: TableRules, change: str) -> str:
    """What a filter says of a row event (`insert on s.t`) or of all pieces of a statement."""
    event, _, table = change.partition(" on ")
    try:
        if event in ROW_EVENTS:
            return {"do": "done", "ignore": "ignored"}[rules.row_event(golden.named(table), event)]  # type: ignore[arg-type]
        verdicts = {
            all(
                rules.ddl_event(name, event, change, alters=piece.verb == "ALTER TABLE") == "do"
                for name in piece.tables
                for event in piece.events
            )
            for piece in split(change, CONTEXT)
        }
    except DMError as error:
        return {"event-refused": "refused"}.get(error.name, error.name)
    return "partly" if len(verdicts) > 1 else "done" if verdicts == {True} else "ignored"


@pytest.mark.parametrize("case", golden.cases("events"))
def test_a_filter_does_what_is_documented(case: dict[str, Any]) -> None:
    rules = golden.rules_of(case, "filters", "filter-rules")
    for verdict in ("ignored", "done", "refused", "partly"):
        assert {change: judged(rules, change) for change in case.get(verdict, ())} == dict.fromkeys(
            case.get(verdict, ()), verdict
        )
    assert [text for text in case.get("text-ignored", ()) if not rules.sql_pattern_ignores(text)] == []
    assert [text for text in case.get("text-done", ()) if rules.sql_pattern_ignores(text)] == []


@pytest.mark.parametrize(("statement", "events"), golden.table("ddl_names").items())
def test_a_statement_counts_as(statement: str, events: list[str]) -> None:
    assert [event for piece in split(statement, CONTEXT) for event in piece.events] == events


def test_every_event_has_a_statement_or_none_can_have_one() -> None:
    covered = {event for events in golden.table("ddl_names").values() for event in events}
    assert EVENT_NAMES - CLASSES - ALIASES.keys() - DML_EVENTS == covered | WITHOUT_STATEMENT
    assert not covered & WITHOUT_STATEMENT


@pytest.mark.parametrize("case", golden.cases("routes"))
def test_a_route_leads_where_it_is_documented_to(case: dict[str, Any]) -> None:
    rules = golden.rules_of(case, "routes", "route-rules")
    found = {name: rules.route(golden.named(name)) for name in case["routed"]}
    assert found == {name: golden.named(target) for name, target in case["routed"].items()}
    for name in case.get("ambiguous", ()):
        with pytest.raises(DMError) as raised:
            rules.route(golden.named(name))
        assert raised.value.name == "route-ambiguous"


@pytest.mark.parametrize("case", golden.cases("extraction"))
def test_a_route_extracts_what_is_documented(case: dict[str, Any]) -> None:
    rules = golden.rules_of(case, "routes", "route-rules")
    for name, columns in case["extracted"].items():
        assert {each.column: each.value for each in rules.extracted(golden.named(name))} == columns
    for name in case.get("unmatched", ()):
        with pytest.raises(DMError) as raised:
            rules.extracted(golden.named(name))
        assert raised.value.name == "route-extract-unmatched"


STRUCTURE = TableSchema(
    TableName("s", "tbl"),
    (
        Column("id", "int"),
        Column("c", "int"),
        Column("name", "varchar", 20, charset="utf8mb4", collation="utf8mb4_bin"),
    ),
)


def row_of(values: dict[str, Any] | None) -> Row | None:
    if values is None:
        return None
    found = [values.get(column.name) for column in STRUCTURE.columns]
    return tuple(value.encode() if isinstance(value, str) else value for value in found)


@pytest.mark.parametrize("case", golden.cases("expressions"))
def test_an_expression_skips_what_is_documented(case: dict[str, Any]) -> None:
    filters = {f"f{number}": {"schema": "s", "table": "tbl", **rule} for number, rule in enumerate(case["filters"])}
    sections = f"expression-filter: {json.dumps(filters)}\n"
    judge = TableRules(subtask(f"expression-filters: {json.dumps(list(filters))}", sections)).row_filter(STRUCTURE)

    def skipped(change: list[Any]) -> bool:
        kind, before, after = change
        return judge is not None and judge.skipped(kind, [(row_of(before), row_of(after))], 0) == [True]

    assert [change for change in case.get("skipped", ()) if not skipped(change)] == []
    assert [change for change in case.get("kept", ()) if skipped(change)] == []
