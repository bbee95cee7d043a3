"""DDL of tables whose names a route keeps in columns of one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.binlog.query import Query, QuerySession
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import split
from dm.position import Position
from dm.syncer.ddl.checks import creates_shard, refuse_missing_target, refuse_renaming
from dm.syncer.ddl.plan import CheckedStep, DdlSource, DdlTarget, Execute
from tests.unit.rules.subtasks import routed

RULES = routed(
    'schema-pattern: shop, table-pattern: "t_*", target-schema: all, target-table: t,'
    ' extract-table: {table-regexp: "t_(.*)", target-column: c}'
)
TARGET = TableName("all", "t")
PRESENT = {TARGET: TableSchema(TARGET, (Column("id", "int"), Column("c", "varchar", 9, charset="utf8mb4")))}


HERE = Position("u", "mysql-bin.000007", 4, GtidSet.empty("mysql"))


def checked(text: str, now: Mapping[TableName, TableSchema | None] = PRESENT) -> CheckedStep:
    source = DdlSource(RULES, SchemaTracker("mysql"), lambda _: True)
    step = Execute(piece(text), Query("shop", text.encode(), QuerySession(), 0, 0, 0, 0))
    return CheckedStep(step, piece(text).route(RULES.route), now, False, HERE, source, cast("DdlTarget", None))


def piece(text: str) -> Piece:
    (only,) = split(text, SourceContext("mysql", 80400, "shop"))
    return only


@pytest.mark.parametrize("text", ["CREATE TABLE t_9 (id INT)", "CREATE TABLE t_9 LIKE t_1", "CREATE TABLE t_9 LIKE m"])
def test_one_more_table_is_done_when_the_gathering_one_is_there(text: str) -> None:
    assert creates_shard(piece(text), RULES)
    refuse_missing_target(checked(text))


@pytest.mark.parametrize(
    "text", ["CREATE TABLE u (id INT)", "CREATE TABLE u LIKE t_1", "ALTER TABLE t_1 ADD v INT", "DROP TABLE t_1"]
)
def test_other_statements_are_executed(text: str) -> None:
    assert not creates_shard(piece(text), RULES)
    refuse_missing_target(checked(text, {}))


def test_the_gathering_table_is_for_a_person_to_create() -> None:
    with pytest.raises(DMError) as raised:
        refuse_missing_target(checked("CREATE TABLE t_9 (id INT)", {TARGET: None}))
    assert raised.value.name == "extract-table-missing"
    assert "mysql-bin.000007" in raised.value.message
    assert "create `all`.`t` at the target with the source's columns and `c`" in raised.value.workaround


@pytest.mark.parametrize(
    "text",
    [
        "RENAME TABLE t_1 TO t_2",
        "RENAME TABLE t_1 TO old",
        "RENAME TABLE new TO t_1",
        "ALTER TABLE t_1 RENAME TO other.t_1",
        "RENAME TABLE a TO b, t_1 TO c",
    ],
)
def test_a_renaming_that_leaves_rows_under_another_value_is_refused(text: str) -> None:
    with pytest.raises(DMError) as raised:
        refuse_renaming(checked(text))
    assert raised.value.name == "extract-renamed"
    assert "mysql-bin.000007" in raised.value.message


def test_other_renamings_are_none_of_its_business() -> None:
    refuse_renaming(checked("RENAME TABLE a TO b"))
    refuse_renaming(checked("ALTER TABLE t_1 RENAME COLUMN a TO b"))
