"""Which columns of the target's own depend on the time zone, and what is written into them."""

from __future__ import annotations

import pytest

from dm.changes.computing import PLAIN, SESSION_TIME, Computing, LocalTime
from dm.changes.plan import PlanOptions, build_plan
from dm.changes.row_keys import TargetTable
from dm.changes.statement import insert_row, update_row
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import Column, Index, IndexPart, TableSchema

BERLIN = LocalTime("'Europe/Berlin'")
NAME = TableName("shop", "t")
ID = Column("id", "int", nullable=False)
HERE = "CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'Europe/Berlin')"


def target(*columns: Column) -> TableSchema:
    key = Index("PRIMARY", "primary", (IndexPart("id"),))
    return TableSchema(NAME, (ID, *columns), (key,))


@pytest.mark.parametrize(
    ("default", "written"),
    [
        ("CURRENT_TIMESTAMP", HERE),
        ("current_timestamp()", HERE),
        ("CURRENT_TIMESTAMP(3)", "CONVERT_TZ(UTC_TIMESTAMP(3), '+00:00', 'Europe/Berlin')"),
        ("(now())", f"({HERE})"),
        ("curdate()", f"DATE({HERE})"),
        ("(current_time(6))", "(TIME(CONVERT_TZ(UTC_TIMESTAMP(6), '+00:00', 'Europe/Berlin')))"),
        ("(concat('now()', `now`, now()))", f"(concat('now()', `now`, {HERE}))"),
        ("'now()'", None),
        ("now", None),
        ("(unix_timestamp(now()))", None),
        ("(utc_timestamp())", None),
        ("NULL", None),
        (None, None),
    ],
)
def test_now_is_taken_to_the_zone(default: str | None, written: str | None) -> None:
    own = BERLIN.own_columns(target(Column("made", "datetime", default=default)), {"id"})
    assert [each.inserted for each in own] == ([] if written is None else [f"({written})".encode()])


def test_instants_generated_columns_and_those_of_the_source_are_left_alone() -> None:
    now = "CURRENT_TIMESTAMP"
    table = target(
        Column("instant", "timestamp", default=now, on_update=now),
        Column("computed", "datetime", generated="virtual", expression="now()"),
        Column("Made", "datetime", default=now),
    )
    assert BERLIN.own_columns(table, {"id", "made"}) == ()
    assert SESSION_TIME.own_columns(table, {"id"}) == ()


def test_a_zone_that_the_server_does_not_know_is_an_error_where_it_is_needed() -> None:
    unknown = LocalTime("'Europe/Berlin'", "Europe/Berlin")
    assert unknown.own_columns(target(Column("made", "datetime")), {"id"}) == ()
    with pytest.raises(DMError, match=r"does not know time zone Europe/Berlin.*`made` of shop\.t"):
        unknown.own_columns(target(Column("made", "datetime", default="now()")), {"id"})


def test_statements_name_them() -> None:
    now = "CURRENT_TIMESTAMP"
    table = target(Column("made", "datetime", default=now), Column("seen", "datetime", default=now, on_update=now))
    source = TableSchema(NAME, (ID,), table.indexes)
    plan = build_plan(source, (ID,), TargetTable(table), PlanOptions("mysql", local_time=BERLIN))
    assert (
        insert_row(plan, (1,)).decode() == f"INSERT INTO `shop`.`t` (`id`,`made`,`seen`) VALUES (1,({HERE}),({HERE}))"
    )
    assert plan.values((1,)).decode() == f"(1,({HERE}),({HERE}))"
    assert update_row(plan, (1,), (2,)).decode() == (
        f"UPDATE `shop`.`t` SET `id`=2,`seen`=({HERE}) WHERE `id`=1 LIMIT 1"
    )
    plain = build_plan(source, (ID,), TargetTable(table), PlanOptions("mysql"))
    assert insert_row(plain, (1,)) == b"INSERT INTO `shop`.`t` (`id`) VALUES (1)"


def test_a_zone_that_the_target_does_not_know_fills_no_column() -> None:
    nowhere = LocalTime("'Mars/Olympus'", "Mars/Olympus")
    made = target(Column("made", "datetime", default="CURRENT_TIMESTAMP"))
    with pytest.raises(DMError) as refused:
        nowhere.own_columns(made, {"id"})
    assert (refused.value.name, refused.value.details["zone"]) == ("time-zone-unknown", "Mars/Olympus")
    assert nowhere.own_columns(made, {"id", "made"}) == ()


def test_a_zone_without_a_name_at_the_target_computes_nothing() -> None:
    nowhere = Computing(unknown="Mars/Olympus")
    hour = Column("h", "int", generated="stored", expression="hour(`ts`)")
    with pytest.raises(DMError) as refused:
        nowhere.settings(target(Column("ts", "timestamp"), hour))
    assert (refused.value.name, refused.value.details["table"]) == ("expression-zone-unknown", NAME)
    assert nowhere.settings(target(Column("ts", "timestamp"))) == PLAIN
