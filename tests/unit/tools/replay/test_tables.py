"""Which tables a replay takes, and why it leaves others to the syncer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.changes.row_keys import TargetTable
from dm.config.subtask import SubtaskConfig
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.table_map import TableMap
from dm.mysql.schema.table import Column, Index, TableSchema
from dm.rules.table_rules import TableRules
from dm.tools.replay.tables import KnownTables, ReplayTables
from tests.unit.changes.event_tables import ROW_EVENTS, table_map_of
from tests.unit.changes.plans import key, number
from tests.unit.rules.subtasks import subtask

NAME = TableName("s", "t")
COLUMNS = (number("id"), number("u", nullable=True))
PRIMARY = key("PRIMARY", "id")
NOTHING = KnownTables({}, frozenset(), frozenset(), frozenset())


def schema(columns: tuple[Column, ...] = COLUMNS, *indexes: Index) -> TableSchema:
    return TableSchema(NAME, columns, indexes or (PRIMARY,))


def tables(
    target: TargetTable | None,
    known: KnownTables = NOTHING,
    *,
    source: TableSchema | None = None,
    task: SubtaskConfig | None = None,
    again: bool = False,
) -> ReplayTables:
    found = replace(known, structures={NAME: source or schema()}) if known.structures == {} else known
    rules = TableRules(task or subtask("", ""))
    return ReplayTables(rules, found, "mysql", lambda _: target, ROW_EVENTS, again)


def left(of: ReplayTables, table_map: TableMap | None = None) -> str:
    assert of.learn(table_map or table_map_of(COLUMNS)) is None
    return of.left[NAME]


def test_a_table_with_a_key_is_taken_with_its_rows_as_they_are() -> None:
    taken = tables(TargetTable(schema())).learn(table_map_of(COLUMNS))
    assert taken is not None
    assert taken.updates
    assert not taken.removals_first
    assert taken.plan.events is not None
    assert taken.plan.key_functions == ()


def test_rows_that_may_meet_need_removals_first() -> None:
    several = schema(COLUMNS, PRIMARY, key("u", "u"))
    taken = tables(TargetTable(several), source=several).learn(table_map_of(COLUMNS))
    assert taken is not None
    assert taken.removals_first
    again = tables(TargetTable(schema()), again=True).learn(table_map_of(COLUMNS))
    assert again is not None
    assert again.removals_first


def test_a_unique_key_whose_values_are_not_in_the_rows() -> None:
    columns = (*COLUMNS, Column("g", "int", generated="stored", expression="id + 1"))
    there = schema(columns, PRIMARY, key("g", "g"))
    taken = tables(TargetTable(there), source=schema(columns)).learn(table_map_of(columns))
    assert taken is None or not taken.updates


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (KnownTables({TableName("s", "other"): schema()}, frozenset(), frozenset(), frozenset()), "is not known"),
        (replace(NOTHING, points=frozenset({NAME})), "ahead of the checkpoint"),
        (replace(NOTHING, shared=frozenset({NAME})), "rows of other tables"),
        (replace(NOTHING, ordered=frozenset({NAME})), "in the source's order"),
    ],
)
def test_what_is_known_against_a_table(known: KnownTables, why: str) -> None:
    assert why in left(tables(TargetTable(schema()), known))


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (TargetTable(TableSchema(NAME, COLUMNS)), "no key"),
        (TargetTable(schema(COLUMNS, key("u", "u"))), "no key"),
        (TargetTable(schema(), triggers=True), "triggers"),
        (TargetTable(schema((*COLUMNS, Column("own", "int")))), "columns that the source lacks"),
    ],
)
def test_what_the_target_has_against_it(target: TargetTable, why: str) -> None:
    assert why in left(tables(target))


def test_what_the_task_has_against_it() -> None:
    rule = "{schema-pattern: s, table-pattern: t, events: [delete], action: Ignore}"
    filtered = subtask("filter-rules: [r]", f"filters: {{r: {rule}}}")
    assert "event filter" in left(tables(TargetTable(schema()), task=filtered))
    few = "{schema: s, table: t, insert-value-expr: u > 3}"
    chosen = subtask("expression-filters: [few]", f"expression-filter: {{few: {few}}}")
    assert "expression filter" in left(tables(TargetTable(schema()), task=chosen))


def test_a_table_that_the_target_lacks() -> None:
    with pytest.raises(DMError) as raised:
        tables(None).learn(table_map_of(COLUMNS))
    assert raised.value.name == "target-table-missing"
