"""Which query events concern a subtask, before anything is executed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dm.binlog.query import QuerySession
from dm.binlog.reader import Query
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.position import Position
from dm.rules.online_tables import OnlineTables
from dm.sql.context import SourceContext
from dm.syncer.ddl_lane import DdlLane
from dm.syncer.online_ddl import OnlineDdl
from dm.syncer.transaction import SourceTransaction

PLACE = Position("uuid", "binlog.000001", 100, GtidSet.empty("mysql"))
TRANSACTION = SourceTransaction(PLACE, PLACE, None, 0)


class Rules:
    """Everything in schema `d` is wanted."""

    def wanted(self, table: TableName) -> bool:
        return table.schema == "d"

    followed = wanted

    def ddl_event(self, table: TableName, event: str, sql: str, **_: object) -> str:
        return "do"

    def sql_pattern_ignores(self, sql: str) -> bool:
        return False


def lane() -> DdlLane:
    """A lane that only looks at statements."""
    nothing = cast(Any, None)
    return DdlLane(
        cast(Any, Rules()),
        *(nothing,) * 5,
        OnlineDdl.of(OnlineTables(), {}, nothing),
        nothing,
        context_of=lambda query: SourceContext("mysql", 90704, query.schema),
        source_has=lambda _: True,
        points={},
        intent=None,
        dumped_until=None,
        forget=lambda: None,
    )


def query(sql: bytes, *, error: int = 0, schema: str = "other", schemas: tuple[str, ...] | None = None) -> Query:
    return Query(schema, sql, QuerySession(updated_schemas=schemas), 0, 1, 0, error)


@pytest.mark.parametrize(
    "sql",
    [
        b"INSERT INTO t VALUES (RAND())",
        b"INSERT INTO t VALUES (_binary'\xff\xfe')",
        b"REPLACE INTO t SELECT * FROM u",
        b"LOAD DATA INFILE 'x' INTO TABLE t",
        b"CREATE TABLE t (a INT)",
    ],
)
def test_what_changes_nothing_wanted_is_passed_over(sql: bytes) -> None:
    assert lane().steps(query(sql, schemas=("other",)), TRANSACTION) == []
    assert lane().steps(query(sql, error=1317), TRANSACTION) == []


@pytest.mark.parametrize(
    ("sql", "schemas"),
    [
        (b"INSERT INTO d.t VALUES (RAND())", None),
        (b"INSERT INTO t VALUES (1)", ("other", "d")),  # a trigger may have written there
        (b"DO f()", None),
        (b"LOAD DATA INFILE 'x' INTO TABLE `d`.`t`", None),
        (b"UPDATE t JOIN d.t AS w USING (a) SET w.b = 1", None),
    ],
)
def test_rows_changed_by_a_statement_pause(sql: bytes, schemas: tuple[str, ...] | None) -> None:
    with pytest.raises(DMError) as caught:
        lane().steps(query(sql, schemas=schemas), TRANSACTION)
    assert caught.value.name == "statement-dml"
    assert caught.value.position == str(PLACE)


def test_a_statement_that_is_no_text_pauses_where_it_may_concern_us() -> None:
    with pytest.raises(DMError) as caught:
        lane().steps(query(b"INSERT INTO d.t VALUES (_binary'\xff')"), TRANSACTION)
    assert caught.value.name == "statement-undecodable"


def test_a_ddl_that_failed_at_the_source_pauses() -> None:
    with pytest.raises(DMError) as caught:
        lane().steps(query(b"ALTER TABLE d.t ADD COLUMN b INT", error=1317), TRANSACTION)
    assert caught.value.name == "statement-failed-at-source"
    assert "1317" in caught.value.message
    assert "ALTER TABLE d.t" in caught.value.message


def test_a_drop_that_found_some_of_its_tables_is_done() -> None:
    steps = lane().steps(query(b"DROP TABLE d.t, d.missing", error=1051), TRANSACTION)
    assert [step.execute for step in steps] == [True, True]
