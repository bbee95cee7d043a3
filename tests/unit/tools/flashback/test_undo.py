"""The statement that takes back a change, and where its images do not say enough."""

from __future__ import annotations

import pytest

from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_keys import TargetTable
from dm.errors import DMError
from dm.mysql.binlog.value import ABSENT, Row
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.sql.context import SourceContext
from dm.tools.flashback.tables import undo

CONTEXT = SourceContext("mysql", 80400, "s")


def plan(columns: str, *, tidb: bool = False, more: str = "") -> TablePlan:
    schema, target = (parse_create_table(f"CREATE TABLE s.t ({text})", CONTEXT) for text in (columns, columns + more))
    return build_plan(schema, schema.columns, TargetTable(target), PlanOptions("tidb" if tidb else "mysql"))


KEYED = plan("id INT NOT NULL PRIMARY KEY, v INT, d INT AS (v + 1)")
KEYLESS = plan("id INT, v INT")


@pytest.mark.parametrize(
    ("before", "after", "statement"),
    [
        (None, (1, 2, 3), "DELETE FROM `s`.`t` WHERE `id`=1 LIMIT 1"),
        ((1, 2, 3), None, "INSERT INTO `s`.`t` (`id`,`v`) VALUES (1,2)"),
        ((1, 2, 3), (7, 5, 6), "UPDATE `s`.`t` SET `id`=1,`v`=2 WHERE `id`=7 LIMIT 1"),
        ((1, 2, 3), (ABSENT, 5, ABSENT), "UPDATE `s`.`t` SET `v`=2 WHERE `id`=1 LIMIT 1"),
        (None, (1, ABSENT, ABSENT), "DELETE FROM `s`.`t` WHERE `id`=1 LIMIT 1"),
    ],
)
def test_a_change_is_taken_back(before: Row | None, after: Row | None, statement: str) -> None:
    assert undo(KEYED, before, after).decode() == statement


def test_what_a_tidb_would_leave_is_written_anew() -> None:
    columns = "id INT PRIMARY KEY, s SET('a','')"
    anew = b"DELETE FROM `s`.`t` WHERE `id`=1 LIMIT 1;\nINSERT INTO `s`.`t` (`id`,`s`) VALUES (1,2)"
    assert undo(plan(columns, tidb=True), (1, 2), (1, 0)) == anew
    assert undo(plan(columns, tidb=True), (1, 2), (1, 1)).startswith(b"UPDATE")
    assert undo(plan(columns), (1, 2), (1, 0)).startswith(b"UPDATE")
    assert undo(plan(columns, tidb=True), (1, 2), (ABSENT, 0)) == anew
    with pytest.raises(DMError) as raised:
        undo(plan(columns, tidb=True, more=", own INT"), (1, 2), (1, 0))
    assert raised.value.name == "member-missing"


def test_without_a_key_one_row_with_all_values_goes() -> None:
    assert undo(KEYLESS, None, (1, None)).endswith(b" LIMIT 1")
    assert undo(KEYLESS, (1, 2), (ABSENT, 3)).startswith(b"UPDATE `s`.`t` SET `v`=2 WHERE `id`")


@pytest.mark.parametrize(
    ("which", "before", "after", "column"),
    [
        (KEYED, (1, ABSENT, ABSENT), (ABSENT, 5, ABSENT), "v"),
        (KEYED, (1, ABSENT, ABSENT), None, "v"),
        (KEYED, None, (ABSENT, 5, 6), "id"),
        (KEYLESS, None, (1, ABSENT), "v"),
        (KEYLESS, (1, ABSENT), (ABSENT, 3), "v"),
        (KEYLESS, (ABSENT, 2), (ABSENT, 3), "id"),
    ],
)
def test_what_no_image_tells_is_not_guessed(
    which: TablePlan, before: Row | None, after: Row | None, column: str
) -> None:
    with pytest.raises(DMError) as raised:
        undo(which, before, after)
    assert raised.value.name == "flashback-partial-image"
    assert f" {column} of s.t " in raised.value.message
