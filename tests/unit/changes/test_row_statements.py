"""One change as SQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.changes.plan import PlanOptions
from dm.changes.row_change import RowChange
from dm.changes.row_keys import TargetTable
from dm.changes.safe_mode import row_statements
from dm.changes.statement import ONE_AFFECTED, ONE_MATCHED
from dm.errors import DMError
from dm.mysql.binlog.json_tree import Integer, TypedJson
from dm.mysql.binlog.value import ABSENT, Row
from dm.mysql.schema.table import Column, TableSchema
from tests.unit.changes.plans import TARGET, delete, insert, key, number, plan, text, update

A, B, C = number("a"), number("b", nullable=True), text("c", nullable=True)
KEYED = plan([A, B, C], [key("PRIMARY", "a"), key("b", "b")])


def sql_of(change: RowChange) -> list[str]:
    """The texts of a change's statements."""
    return [statement.sql.decode() for statement in row_statements(change)]


def test_outside_safe_mode_a_statement_says_what_the_source_did() -> None:
    assert sql_of(insert(KEYED, 1, None, b"x")) == ["INSERT INTO `d`.`t` (`a`,`b`,`c`) VALUES (1,NULL,'x')"]
    changed = update(KEYED, (1, 2, b"x"), (3, 2, b"it's"))
    assert sql_of(changed) == ["UPDATE `d`.`t` SET `a`=3,`b`=2,`c`='it''s' WHERE `a`=1 LIMIT 1"]
    gone = delete(KEYED, 1, 2, b"x")
    assert sql_of(gone) == ["DELETE FROM `d`.`t` WHERE `a`=1 LIMIT 1"]
    assert row_statements(changed)[0].expected == ONE_MATCHED
    assert row_statements(gone)[0].expected == ONE_AFFECTED


def test_in_safe_mode_a_statement_says_what_the_row_shall_be() -> None:
    assert sql_of(insert(KEYED, 1, 2, b"x", safe=True)) == ["REPLACE INTO `d`.`t` (`a`,`b`,`c`) VALUES (1,2,'x')"]
    assert sql_of(update(KEYED, (1, 2, b"x"), (1, 2, b"y"), safe=True)) == [
        "REPLACE INTO `d`.`t` (`a`,`b`,`c`) VALUES (1,2,'y')"
    ]
    assert sql_of(update(KEYED, (1, 2, b"x"), (1, 3, b"x"), safe=True)) == [
        "DELETE FROM `d`.`t` WHERE `a`=1 LIMIT 1",
        "REPLACE INTO `d`.`t` (`a`,`b`,`c`) VALUES (1,3,'x')",
    ]
    assert sql_of(delete(KEYED, 1, 2, b"x", safe=True)) == ["DELETE FROM `d`.`t` WHERE `a`=1 LIMIT 1"]


def test_insert_mode_replace_replaces_outside_safe_mode_too() -> None:
    table = plan([A, B], [key("PRIMARY", "a")], options=PlanOptions("mysql", insert_mode="replace"))
    assert sql_of(insert(table, 1, 2)) == ["REPLACE INTO `d`.`t` (`a`,`b`) VALUES (1,2)"]


def test_a_keyless_row_is_found_by_all_its_columns() -> None:
    table = plan([A, B], [key("b", "b")])
    assert sql_of(delete(table, 1, None)) == ["DELETE FROM `d`.`t` WHERE `a`=1 AND `b` IS NULL LIMIT 1"]
    assert sql_of(insert(table, 1, None, safe=True)) == ["INSERT INTO `d`.`t` (`a`,`b`) VALUES (1,NULL)"]


def test_the_first_unique_key_without_nulls_serves_where_there_is_no_primary_key() -> None:
    table = plan([A, B, number("c")], [key("b", "b"), key("c", "c", "a")])
    assert sql_of(delete(table, 1, 2, 3)) == ["DELETE FROM `d`.`t` WHERE `c`=3 AND `a`=1 LIMIT 1"]


def test_columns_meet_by_name_and_generated_ones_are_left_to_the_target() -> None:
    made = Column("g", "int", generated="virtual", expression="a+1")
    table = plan([B, A, made], [key("PRIMARY", "A")], source=[number("a"), Column("G", "int"), number("B")])
    assert sql_of(insert(table, 1, 2, 3)) == ["INSERT INTO `d`.`t` (`a`,`b`) VALUES (1,3)"]


def test_a_column_the_target_lacks_stops_the_task_with_ways_out() -> None:
    with pytest.raises(DMError) as caught:
        plan([A], [key("PRIMARY", "a")], source=[A, B, C])
    assert caught.value.name == "column-missing"
    assert "b, c" in caught.value.message
    assert "ALTER TABLE `d`.`t` ADD COLUMN `b`" in caught.value.workaround


def test_a_row_with_columns_of_the_targets_own_is_never_replaced() -> None:
    table = plan([A, B, number("own")], [key("PRIMARY", "a"), key("b", "b")], source=[A, B])
    texts = sql_of(insert(table, 1, 2, safe=True))
    assert not any(text.startswith("REPLACE") for text in texts)
    others, changed = row_statements(insert(table, 1, 2, safe=True))
    assert others.sql == b"DELETE FROM `d`.`t` WHERE ((`b`=2)) AND NOT (`a`=1)"
    assert changed.sql == b"UPDATE `d`.`t` SET `a`=1,`b`=2 WHERE `a`=1 LIMIT 1"
    (absent,) = changed.not_found
    assert absent.sql == b"INSERT INTO `d`.`t` (`a`,`b`) VALUES (1,2)"


def test_a_parent_is_never_replaced_where_foreign_keys_are_checked() -> None:
    checked = PlanOptions("mysql", foreign_key_checks=True)
    around = TargetTable(TableSchema(TARGET, ()), referenced=(("a",),))
    table = plan([A, B], [key("PRIMARY", "a")], options=checked, target=around)
    assert table.upsert
    assert not plan([A, B], [key("PRIMARY", "a")], target=around).upsert


def test_members_are_sent_as_the_targets_numbers() -> None:
    ours, theirs = Column("e", "enum", members=("x", "y")), Column("e", "enum", members=("y", "z", "x"))
    table = plan([A, theirs], [key("PRIMARY", "a")], source=[A, ours])
    assert sql_of(insert(table, 1, 1)) == ["INSERT INTO `d`.`t` (`a`,`e`) VALUES (1,3)"]
    lacking = plan([A, ours], [key("PRIMARY", "a")], source=[A, theirs])
    assert sql_of(insert(lacking, 1, 1)) == ["INSERT INTO `d`.`t` (`a`,`e`) VALUES (1,2)"]
    with pytest.raises(DMError) as caught:
        sql_of(insert(lacking, 1, 2))
    assert caught.value.name == "member-missing"


def test_the_error_value_of_an_enum_gets_a_lax_statement_of_its_own() -> None:
    members = Column("e", "enum", members=("x", "y"))
    for flavor, start in (("mysql", "INSERT /*+ SET_VAR(sql_mode="), ("mariadb", "SET STATEMENT sql_mode=")):
        table = plan(
            [A, members], [key("PRIMARY", "a")], options=PlanOptions("mysql" if flavor == "mysql" else "mariadb")
        )
        (statement,) = row_statements(insert(table, 1, 0))
        assert statement.sql.decode().startswith(start)
        assert statement.expected.warnings == 1


def test_a_session_of_other_modes_loses_its_strict_ones_alone() -> None:
    members = Column("e", "enum", members=("x", "y"))
    for options in (
        PlanOptions("mysql", mode="STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_UNSIGNED_SUBTRACTION"),
        PlanOptions("tidb"),
    ):
        table = plan([A, members], [key("PRIMARY", "a")], options=options)
        (statement,) = row_statements(insert(table, 1, 0))
        assert (statement.sql, statement.lenient) == (b"INSERT INTO `d`.`t` (`a`,`e`) VALUES (1,0)", True)


def test_a_column_that_an_image_lacks_is_kept_from_the_targets_clock() -> None:
    clocked = Column("ts", "timestamp", on_update="CURRENT_TIMESTAMP")
    own = Column("own", "timestamp", on_update="CURRENT_TIMESTAMP")
    plain = Column("ts", "timestamp")
    for source in ([A, B, plain], [A, B, clocked]):
        table = plan([A, B, clocked, own], [key("PRIMARY", "a")], source=source)
        for safe in (False, True):
            assert sql_of(update(table, (1, ABSENT, ABSENT), (ABSENT, 2, ABSENT), safe=safe)) == [
                "UPDATE `d`.`t` SET `b`=2,`ts`=`ts` WHERE `a`=1 LIMIT 1"
            ]


def test_a_partial_image_is_applied_only_where_that_is_exact() -> None:
    assert sql_of(update(KEYED, (1, ABSENT, ABSENT), (ABSENT, ABSENT, b"y"))) == [
        "UPDATE `d`.`t` SET `c`='y' WHERE `a`=1 LIMIT 1"
    ]
    partial_table = plan([A, Column("d", "int", default="5")], [key("PRIMARY", "a")])
    assert sql_of(insert(partial_table, 1, ABSENT)) == ["INSERT INTO `d`.`t` (`a`) VALUES (1)"]
    other_default = plan(
        [A, Column("d", "int", default="5")], [key("PRIMARY", "a")], source=[A, Column("d", "int", default="6")]
    )
    for change in (
        insert(other_default, 1, ABSENT),
        update(KEYED, (1, ABSENT, ABSENT), (2, ABSENT, ABSENT), safe=True),
        delete(plan([A, B], []), 1, ABSENT),
        delete(KEYED, ABSENT, 1, b""),
    ):
        with pytest.raises(DMError) as caught:
            row_statements(change)
        assert caught.value.name == "partial-row-image"


JSON = Column("j", "json", nullable=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, None, '{"n": 11}'), (1, None, '{"n": 11.0}')),
        ((1, None, "[1e2, 2]"), (1, None, "[100, 2.0]")),
        ((1, None, "7"), (1, None, TypedJson("7", Integer(7, unsigned=True)))),
        ((1, ABSENT, ABSENT), (ABSENT, ABSENT, '{"n": 11}')),
    ],
)
@pytest.mark.parametrize("safe", [False, True])
def test_where_only_types_of_numbers_change_in_a_document_it_is_made_another_one_first(
    before: Row, after: Row, safe: bool
) -> None:
    table = plan([A, B, JSON], [key("PRIMARY", "a")], options=PlanOptions("mysql"))
    (first,) = row_statements(update(replace(table, upsert=True), before, after, safe=safe))[:1]
    assert first.sql == b"UPDATE `d`.`t` SET `j`=JSON_ARRAY(`j`) WHERE `a`=1 LIMIT 1"
    assert [second.sql.startswith(b"UPDATE `d`.`t` SET ") for second in first.found] == [True]
    assert (first.expected == ONE_MATCHED) is not safe


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, None, '{"n": 11}'), (1, None, '{"n": 11.5}')),
        ((1, None, '{"n": 11}'), (1, 2, '{"n": 11.0}')),
        ((1, None, '{"n": 11}'), (1, None, None)),
        ((1, None, '{"n": 11}'), (1, 2, '{"n": 11}')),
        ((1, None, '{"n": 11}'), (2, None, '{"n": 11.0}')),
    ],
)
def test_any_other_change_of_a_row_is_seen_by_the_server(before: Row, after: Row) -> None:
    table = plan([A, B, JSON], [key("PRIMARY", "a")], options=PlanOptions("mysql"))
    (only,) = row_statements(update(table, before, after))
    assert not only.found
