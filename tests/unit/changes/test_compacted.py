"""What becomes of several changes of one row. That nobody can tell is proven on servers (tests/live/changes)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.changes.compacted import compacted
from dm.changes.grouped import grouped
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import RowChange
from dm.changes.row_keys import TargetTable
from dm.mysql.binlog.value import ABSENT
from dm.mysql.schema.table import Column, TableSchema
from tests.unit.changes.plans import TARGET, delete, insert, key, number, plan, text, update

OPTIONS = PlanOptions("mysql", compact=True)
A, B, C = number("a"), number("b", nullable=True), text("c")
ONE = plan([A, C], [key("PRIMARY", "a")], options=OPTIONS)
TWO = plan([A, B, C], [key("PRIMARY", "a"), key("b", "b")], options=OPTIONS)


def sql_of(*changes: RowChange) -> list[str]:
    """The statements that are left."""
    return [statement.sql.decode() for statement in grouped(compacted(changes, limit=10_000))]


def test_two_changes_of_a_row_become_one() -> None:
    one, two, three = (1, b"x"), (1, b"y"), (1, b"z")
    assert sql_of(insert(ONE, *one), update(ONE, one, two), update(ONE, two, three)) == [
        "INSERT INTO `d`.`t` (`a`,`c`) VALUES (1,'z')"
    ]
    assert sql_of(update(ONE, one, two), update(ONE, two, three), delete(ONE, *three)) == [
        "DELETE FROM `d`.`t` WHERE `a`=1"
    ]
    assert sql_of(delete(ONE, *one), insert(ONE, *two)) == sql_of(update(ONE, one, two))
    assert sql_of(update(ONE, one, two), update(ONE, two, one)) == [
        "UPDATE `d`.`t` SET `a`=1,`c`='x' WHERE `a`=1 LIMIT 1"
    ]


def test_a_row_that_came_and_went_must_not_be_there() -> None:
    changes = [insert(ONE, 1, b"x"), update(ONE, (1, b"x"), (1, b"y")), delete(ONE, 1, b"y")]
    (statement,) = grouped(compacted(changes, limit=10_000))
    assert (statement.sql, statement.expected.affected) == (b"DELETE FROM `d`.`t` WHERE `a`=1", 0)
    assert len(sql_of(insert(TWO, 1, 2, b"x"), delete(TWO, 1, 2, b"x"))) == 2  # who holds b=2 is not known


def test_in_safe_mode_the_last_image_counts() -> None:
    changes = [delete(ONE, 1, b"x", safe=True), insert(ONE, 1, b"y", safe=True)]
    assert sql_of(*changes) == ["REPLACE INTO `d`.`t` (`a`,`c`) VALUES (1,'y')"]
    assert sql_of(*changes, delete(ONE, 1, b"y", safe=True)) == ["DELETE FROM `d`.`t` WHERE `a`=1"]
    # The REPLACE removes who holds b=2; that must not be left out.
    assert len(sql_of(insert(TWO, 1, 2, b"x", safe=True), delete(TWO, 1, 2, b"x", safe=True))) == 2


def test_what_keeps_changes_apart() -> None:
    moved = [update(TWO, (1, 1, b"x"), (1, 2, b"x")), update(TWO, (1, 2, b"x"), (1, 3, b"x"))]
    assert len(sql_of(*moved)) == 2  # DM: an INSERT of b=1 in between would move in front of the first
    between = [
        update(TWO, (1, 1, b"x"), (1, 1, b"y")),
        delete(TWO, 2, 1, b"x"),
        update(TWO, (1, 1, b"y"), (1, 1, b"z")),
    ]
    assert len(compacted(between, limit=10_000)) == 3  # a change of the target's own history, over the key b=1
    border = [insert(ONE, 1, b"x", safe=True), update(ONE, (1, b"x"), (1, b"y"))]
    assert len(compacted(border, limit=10_000)) == 2
    partial = [insert(ONE, 1, b"x"), update(ONE, (1, ABSENT), (ABSENT, b"y"))]
    assert len(compacted(partial, limit=10_000)) == 2
    other = plan([A, C], [key("PRIMARY", "a")], options=OPTIONS)
    assert len(compacted([insert(ONE, 1, b"x"), update(other, (1, b"x"), (1, b"y"))], limit=10_000)) == 2


def test_images_that_may_exceed_a_packet_are_left_alone() -> None:
    table = plan([A, Column("d", "longblob", nullable=True)], [key("PRIMARY", "a")], options=OPTIONS)
    small, large = b"x" * 100, b"x" * 1000
    assert len(compacted([insert(table, 1, small), update(table, (1, small), (1, small))], limit=1000)) == 1
    assert len(compacted([insert(table, 1, large), update(table, (1, large), (1, small))], limit=1000)) == 2


def _narrow() -> TablePlan:
    return plan(
        [A, text("c", 5)],
        [key("PRIMARY", "a")],
        source=[A, text("c", 6)],
        options=replace(OPTIONS, narrower_columns="accept"),
    )


def _with_check() -> TablePlan:
    schema = TableSchema(TARGET, (A, C), (key("PRIMARY", "a"),), checks=("few",))
    return build_plan(TableSchema(TARGET, (A, C)), (A, C), TargetTable(schema), OPTIONS)


@pytest.mark.parametrize(
    "table",
    [
        plan([A, C], [key("PRIMARY", "a")]),
        plan([A, C], [], options=OPTIONS),
        _narrow(),
        _with_check(),
        plan([A, C], [key("PRIMARY", "a")], options=OPTIONS, target=TargetTable(TableSchema(TARGET, ()), checks=True)),
        plan([A, replace(C, json_checked=True)], [key("PRIMARY", "a")], source=[A, C], options=OPTIONS),
        plan([A, C, replace(B, generated="virtual")], [key("PRIMARY", "a")], source=[A, C], options=OPTIONS),
        plan([A, C, replace(B, name="own")], [key("PRIMARY", "a")], source=[A, C], options=OPTIONS),
        plan([A, C], [key("PRIMARY", "a")], source=[A, replace(C, nullable=True)], options=OPTIONS),
        plan(
            [A, C], [key("PRIMARY", "a")], options=OPTIONS, target=TargetTable(TableSchema(TARGET, ()), triggers=True)
        ),
        plan([A, C], [key("PRIMARY", "a")], options=replace(OPTIONS, foreign_key_checks=True)),
    ],
    ids=[
        "off",
        "no key",
        "narrower",
        "CHECK",
        "a column's CHECK",
        "JSON at the target alone",
        "generated",
        "own column",
        "NOT NULL",
        "trigger",
        "foreign keys",
    ],
)
def test_tables_whose_rows_could_be_refused_are_left_alone(table: TablePlan) -> None:
    assert not table.compacts
    assert len(compacted([insert(table, 1, b"x"), update(table, (1, b"x"), (1, b"y"))], limit=10_000)) == 2
