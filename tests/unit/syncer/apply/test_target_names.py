"""What a statement costs at a target that folds names does not grow with the tables that are followed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.schema.tracker import SchemaTracker
from dm.position import Position
from dm.rules.table_rules import TableRules
from dm.syncer.apply.structures import TargetNames
from tests.unit.rules.subtasks import subtask

HERE = Position("u", "mysql-bin.000007", 4, GtidSet.empty("mysql"))
ONE = TableSchema(TableName("d", "t"), (Column("id", "int"),))


class Asked(TableRules):
    """The rules of a task, which count what they are asked."""

    def __init__(self) -> None:
        super().__init__(subtask("", ""))
        self.times = 0

    def wanted(self, table: TableName) -> bool:
        self.times += 1
        return super().wanted(table)

    def route(self, table: TableName) -> TableName:
        self.times += 1
        return super().route(table)


def names_of(tables: list[TableName]) -> tuple[TargetNames, Asked, SchemaTracker]:
    tracker = SchemaTracker("mysql")
    for table in tables:
        tracker.set(replace(ONE, name=table))
    rules = Asked()
    return TargetNames(tracker, rules, folded=True), rules, tracker


def questions(tables: int) -> int:
    """What is asked of the rules for a rename, a new table and one that goes, beside so many tables."""
    names, rules, tracker = names_of([TableName("d", f"t{number}") for number in range(tables)])
    rules.times = 0
    old, new = TableName("d", "t1"), TableName("d", "renamed")
    names.demand_apart([old, new], [new], HERE)
    tracker.forget(old)
    tracker.set(replace(ONE, name=new))
    names.demand_own(new, HERE)
    names.demand_apart([new], [], HERE)
    tracker.forget(new)
    return rules.times


def test_a_statement_asks_nothing_of_the_other_tables() -> None:
    assert questions(1000) == questions(2) > 0


def test_tables_that_came_and_went_since_are_known() -> None:
    names, _, tracker = names_of([TableName("d", "orders")])
    names.demand_apart([TableName("d", "items")], [TableName("d", "items")], HERE)
    tracker.set(replace(ONE, name=TableName("d", "items")))
    with pytest.raises(DMError) as refused:
        names.demand_apart([TableName("d", "Items")], [TableName("d", "Items")], HERE)
    assert (refused.value.name, refused.value.position) == ("target-names-alike", str(HERE))
    with pytest.raises(DMError):
        names.demand_own(TableName("d", "ITEMS"), HERE)
    tracker.forget(TableName("d", "items"))
    names.demand_apart([TableName("d", "Items")], [TableName("d", "Items")], HERE)
    names.demand_own(TableName("d", "ITEMS"), HERE)


def test_a_rename_of_case_and_two_new_names_that_are_one() -> None:
    names, _, _ = names_of([TableName("d", "orders")])
    names.demand_apart([TableName("d", "orders"), TableName("d", "Orders")], [TableName("d", "Orders")], HERE)
    both = [TableName("d", "a"), TableName("d", "A")]
    with pytest.raises(DMError):
        names.demand_apart(both, both, HERE)
