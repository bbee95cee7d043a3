"""A route that sends each row to the table that it names: what is wrong is said, with its place."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.rules.table_rules import TableRules
from tests.unit.config.texts import TASK, task, task_problems

HEAD = TASK.replace("task-mode: all", "task-mode: incremental") + "    route-rules: [r]\n"
ROUTE = "routes:\n  r: {{schema-pattern: d, table-pattern: t, target-schema: old, scatter: [{}]}}\n"
TWO = "{target-table: t_1, columns: {Shard: '1'}}, {target-schema: other, target-table: t_1, columns: {shard: '2'}}"


def problems(text: str) -> str:
    return "\n".join(str(each) for each in task_problems(text))


def test_its_tables_are_told_by_their_values_and_it_has_no_one_name() -> None:
    rules = TableRules(task(HEAD + ROUTE.format(TWO)).subtask("mysql-01"))
    table, names = TableName("d", "t"), (TableName("old", "t_1"), TableName("other", "t_1"))
    assert (rules.destinations(table), rules.scattered_columns(table)) == (names, ("shard",))
    assert rules.destinations(TableName("d", "u")) == (TableName("d", "u"),)
    assert rules.destinations(TableName("d", "")) == (TableName("d", ""),), "no route of the schema"
    with pytest.raises(DMError) as caught:
        rules.route(table)
    assert caught.value.name == "table-scattered"


@pytest.mark.parametrize(
    ("places", "says"),
    [
        (
            "{target-table: t_1, columns: {a: '1'}}, {target-table: t_2, columns: {b: '1'}}",
            "each of the same `columns`",
        ),
        ("{target-table: t_1, columns: {}}", "each of the same `columns`"),
        ("{target-table: t_1, columns: {a: '1'}}, {target-table: t_2, columns: {A: '1 '}}", "have the same values"),
        ('{target-table: t_1, columns: {a: "1"}}, {target-table: t_2, columns: {a: "1\\0"}}', "have the same values"),
        ("{target-table: t_1, columns: {a: '1'}}, {target-table: t_1, columns: {a: '2'}}", "one table is there twice"),
        ("{target-table: '', columns: {a: '1'}}", "has 1 to 64 characters"),
        ("{columns: {a: '1'}}", "target-table"),
    ],
)
def test_tables_that_could_not_be_told_apart_are_refused(places: str, says: str) -> None:
    assert says in problems(HEAD + ROUTE.format(places))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD.replace("incremental", "all"), "`task-mode: incremental`"),
        (HEAD + "shard-mode: pessimistic\n", "no `shard-mode`"),
        (HEAD.replace("  password", "  session: {foreign_key_checks: 1}\n  password"), "foreign_key_checks"),
        (HEAD + "    validator-config-name: v\nvalidators: {v: {mode: full}}\n", "no `validator-config-name`"),
        (HEAD + "    expression-filters: [e]\nexpression-filter: {e: {schema: d, table: t, insert-value-expr: a>1}}\n",
         "no `expression-filters`"),
    ],
)  # fmt: skip
def test_what_a_row_of_such_a_table_can_not_have_is_refused(text: str, says: str) -> None:
    assert says in problems(text + ROUTE.format(TWO))


def test_a_route_is_one_or_the_other() -> None:
    text = HEAD + ROUTE.format(TWO).replace("target-schema: old,", "target-schema: old, target-table: x,")
    assert "neither a `target-table`" in problems(text)
