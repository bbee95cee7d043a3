"""A statement after which a filter would mean another column, or none, pauses; no other one does."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.split import split
from dm.rules.table_rules import TableRules
from dm.syncer.ddl.filter_columns import refuse_filters_columns
from dm.syncer.ddl.plan import CutOver, Step, TrackOnly
from tests.unit.config.texts import TASK, task

CONTEXT = SourceContext("mysql", 90700, "d")
RULES = TableRules(
    task(
        f"{TASK}    expression-filters: [f, later]\n"
        "expression-filter:\n"
        "  f: {schema: d, table: t, update-old-value-expr: a = 1, update-new-value-expr: LENGTH(b) > 3}\n"
        "  later: {schema: d, table: t, insert-value-expr: z = 1 AND id = 7}\n"
    ).subtask("mysql-01")
)
TABLES = {
    TableName("d", name): parse_create_table(f"CREATE TABLE {name} (id INT, {columns} INT)", CONTEXT)
    for name, columns in {"t": "a INT, b INT, c", "other": "a INT, b INT, c", "copy": "b INT, a", "less": "a"}.items()
}


def lost(text: str, *, online: bool = False) -> str:
    """The column for which the statement pauses; empty if it does not."""
    pieces = tuple(split(text, CONTEXT))
    steps: list[Step] = [TrackOnly(piece) for piece in pieces]
    if online:
        ghost, real, old = (TableName("d", each) for each in ("_t_gho", "t", "_t_del"))
        steps = [CutOver(ghost, real, old, pieces, "RENAME TABLE ..")]
    try:
        refuse_filters_columns(steps, RULES, TABLES.get)
    except DMError as error:
        rule, column = error.message.partition("filter ")[2].split()[0], error.message.split("`")[1]
        return column if (error.name, rule) == ("filter-column-gone", "f") else error.message
    return ""


@pytest.mark.parametrize(
    ("what", "column"),
    [
        ("DROP COLUMN a", "a"),
        ("DROP COLUMN A, ADD COLUMN a INT", "a"),
        ("ADD COLUMN x INT, RENAME COLUMN b TO d", "b"),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", "a"),
        ("CHANGE b bb VARCHAR(9)", "b"),
    ],
)
def test_a_column_that_goes_pauses(what: str, column: str) -> None:
    assert lost(f"ALTER TABLE t {what}") == column
    assert lost(f"ALTER TABLE t {what}", online=True) == column
    assert lost(f"ALTER TABLE other {what}") == ""


@pytest.mark.parametrize(
    "what",
    [
        "DROP COLUMN c",
        "DROP COLUMN id",  # `later` left nothing out: the table has no z
        "RENAME COLUMN c TO z",
        "ADD COLUMN z INT",
        "MODIFY a BIGINT FIRST",
        "CHANGE a A BIGINT",
        "RENAME COLUMN a TO A",
        "ADD INDEX (a), DROP INDEX x",
    ],
)
def test_others_do_not(what: str) -> None:
    assert lost(f"ALTER TABLE t {what}") == ""


def test_a_table_that_gets_the_filters_name_has_its_columns() -> None:
    assert lost("RENAME TABLE t TO old, less TO t") == "b"
    assert lost("RENAME TABLE t TO old, copy TO t") == ""
    assert lost("RENAME TABLE t TO old") == ""
    assert lost("RENAME TABLE less TO t2, t TO less, t2 TO t") == "b"
    assert lost("DROP TABLE t") == ""
