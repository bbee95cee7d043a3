"""The statements a batch becomes. That they do the same as single ones is proven on servers (tests/live/changes)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dm.changes.grouped import grouped
from dm.changes.plan import PlanOptions
from dm.changes.row_change import RowChange
from dm.changes.row_keys import TargetTable
from dm.ident import TableName
from dm.mysql.schema.table import Column, TableSchema
from tests.unit.changes.plans import TARGET, delete, insert, key, number, plan, text, update

A, B, C = number("a"), number("b", nullable=True), text("c")
ONE = plan([A, C], [key("PRIMARY", "a")])
TWO = plan([A, B], [key("PRIMARY", "a"), key("b", "b")])


def sql_of(changes: Sequence[RowChange], **limits: int) -> list[str]:
    """The texts of the statements of a batch."""
    return [statement.sql.decode() for statement in grouped(changes, **limits)]


def test_inserts_of_one_table_become_one_statement() -> None:
    statements = grouped([insert(ONE, at, b"x") for at in range(3)])
    assert [statement.sql for statement in statements] == [
        b"INSERT INTO `d`.`t` (`a`,`c`) VALUES (0,'x'),(1,'x'),(2,'x')"
    ]
    assert statements[0].expected.affected == 3


def test_updates_become_inserts_that_must_change_every_row() -> None:
    statements = grouped([update(ONE, (at, b"x"), (at, b"y")) for at in range(2)])
    assert statements[0].sql == (
        b"INSERT INTO `d`.`t` (`a`,`c`) VALUES (0,'y'),(1,'y') ON DUPLICATE KEY UPDATE `a`=VALUES(`a`),`c`=VALUES(`c`)"
    )
    assert statements[0].expected.affected == 4


def test_a_tidbs_bits_are_updated_by_themselves() -> None:
    """Its VALUES() reverses the bytes of a long BIT."""
    for tidb, bits, alone in ((True, 57, True), (True, 56, False), (False, 64, False)):
        table = plan(
            [A, Column("f", "bit", length=bits)],
            [key("PRIMARY", "a")],
            options=PlanOptions("tidb" if tidb else "mysql"),
        )
        (sql,) = sql_of([update(table, (1, 2), (1, 3))])
        assert sql.startswith("UPDATE") is alone, sql


def test_updates_ask_for_all_keys_where_a_row_with_another_could_be_met() -> None:
    table = plan([A, B, C], [key("PRIMARY", "a"), key("b", "b")])
    assert sql_of([update(table, (1, 2, b"x"), (1, 2, b"y"))]) == [
        "INSERT INTO `d`.`t` (`a`,`b`,`c`) VALUES (1,2,'y') ON DUPLICATE KEY UPDATE "
        "`a`=IF(`a`<=>VALUES(`a`) AND `b`<=>VALUES(`b`),VALUES(`a`),`a`),"
        "`b`=IF(`a`<=>VALUES(`a`) AND `b`<=>VALUES(`b`),VALUES(`b`),`b`),"
        "`c`=IF(`a`<=>VALUES(`a`) AND `b`<=>VALUES(`b`),VALUES(`c`),`c`)"
    ]


DELETE = "DELETE /*+ INDEX(`t` `PRIMARY`) */ FROM `d`.`t`"


def test_updates_that_move_a_key_stay_updates() -> None:
    assert sql_of([update(TWO, (1, 2), (1, 3)), update(TWO, (2, None), (2, 4))]) == [
        "UPDATE `d`.`t` SET `a`=1,`b`=3 WHERE `a`=1 AND `b`=2 LIMIT 1",
        "UPDATE `d`.`t` SET `a`=2,`b`=4 WHERE `a`=2 AND `b`<=>NULL LIMIT 1",
    ]


def test_deletes_name_all_keys_of_the_rows_they_count_on() -> None:
    assert sql_of([delete(ONE, 1, b"x"), delete(ONE, 2, b"x")]) == [f"{DELETE} WHERE `a` IN (1,2)"]
    assert sql_of([delete(TWO, 1, 5), delete(TWO, 2, 6), delete(TWO, 3, None)]) == [
        f"{DELETE} WHERE `a` IN (1,2) AND (`a`,`b`) IN ((1,5),(2,6))",
        "DELETE FROM `d`.`t` WHERE `a`=3 AND `b`<=>NULL LIMIT 1",
    ]


def test_a_name_that_would_end_the_hint_goes_without_it() -> None:
    hostile = replace(ONE, target=TableName("d", "t*/"))
    assert sql_of([delete(hostile, 1, b"x"), delete(hostile, 2, b"x")]) == ["DELETE FROM `d`.`t*/` WHERE `a` IN (1,2)"]


def test_mariadb_takes_no_hint_in_a_delete() -> None:
    maria = plan([A, C], [key("PRIMARY", "a")], options=PlanOptions("mariadb"))
    assert sql_of([delete(maria, 1, b"x"), delete(maria, 2, b"x")]) == ["DELETE FROM `d`.`t` WHERE `a` IN (1,2)"]


def test_a_change_moves_over_others_only_if_no_key_is_shared() -> None:
    changes = [insert(ONE, 1, b"x"), delete(ONE, 9, b"x"), insert(ONE, 2, b"x"), insert(ONE, 9, b"y")]
    assert sql_of(changes) == [
        "INSERT INTO `d`.`t` (`a`,`c`) VALUES (1,'x'),(2,'x')",
        "DELETE FROM `d`.`t` WHERE `a`=9",
        "INSERT INTO `d`.`t` (`a`,`c`) VALUES (9,'y')",
    ]


def test_safe_mode_deletes_and_replaces_in_two_statements() -> None:
    changes = [update(TWO, (at, at), (at, at + 10), safe=True) for at in range(2)]
    assert sql_of(changes) == [
        f"{DELETE} WHERE `a` IN (0,1)",
        "REPLACE INTO `d`.`t` (`a`,`b`) VALUES (0,10),(1,11)",
    ]


def test_rows_of_a_keyless_table_stay_in_order_within_one_insert() -> None:
    keyless = plan([A, C], [])
    assert sql_of(
        [insert(keyless, 2, b"x"), insert(keyless, 1, b"x"), delete(keyless, 2, b"x"), insert(keyless, 2, b"y")]
    ) == [
        "INSERT INTO `d`.`t` (`a`,`c`) VALUES (2,'x'),(1,'x')",
        "DELETE FROM `d`.`t` WHERE `a`=2 AND CAST(`c` AS BINARY)=CAST(CONVERT('x' USING utf8mb4) AS BINARY) LIMIT 1",
        "INSERT INTO `d`.`t` (`a`,`c`) VALUES (2,'y')",
    ]


def test_nothing_moves_where_triggers_or_foreign_keys_look_on() -> None:
    changes = [(1, b"x"), (2, b"x")]
    triggered = plan([A, C], [key("PRIMARY", "a")], target=TargetTable(TableSchema(TARGET, ()), triggers=True))
    checked = plan([A, C], [key("PRIMARY", "a")], options=PlanOptions("mysql", foreign_key_checks=True))
    single = plan([A, C], [key("PRIMARY", "a")], options=PlanOptions("mysql", multiple_rows=False))
    for table in (triggered, checked, single):
        assert len(grouped([insert(table, *row) for row in changes])) == 2


def test_statements_stay_below_their_limits() -> None:
    changes = [insert(ONE, at, b"x" * 100) for at in range(50)]
    assert all(len(sql) < 700 for sql in sql_of(changes, limit=500))
    ten = replace(ONE, statement_rows=10)
    assert len(sql_of([insert(ten, at, b"x") for at in range(50)])) == 5
    assert len(sql_of([insert(ONE, 1, b"x" * 9000)], limit=500)) == 1
