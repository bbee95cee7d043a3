"""Which query events concern a subtask, before anything is executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from dm.binlog.query import QuerySession
from dm.binlog.reader import Query
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.position import Position
from dm.progress.operators import Operator
from dm.rules.online_tables import OnlineTables
from dm.schema.tracker import SchemaTracker
from dm.sql.context import SourceContext
from dm.syncer.ddl.barrier import DdlBarrier
from dm.syncer.ddl.online_ddl import OnlineDdl
from dm.syncer.stream.transaction import SourceTransaction

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


def lane(views: Callable[[TableName], bool] = lambda table: table.table == "view") -> DdlBarrier:
    """A lane that only looks at statements."""
    nothing = cast(Any, None)
    return DdlBarrier(
        cast(Any, Rules()),
        SchemaTracker("mysql"),
        *(nothing,) * 4,
        OnlineDdl.of(OnlineTables(), {}, nothing),
        nothing,
        context_of=lambda query: SourceContext("mysql", 90704, query.schema),
        source_has=lambda _: True,
        source_views=views,
        points={},
        intent=None,
        dumped_until=None,
        forget=lambda: None,
    )


def query(
    sql: bytes,
    *,
    error: int = 0,
    schema: str = "other",
    schemas: tuple[str, ...] | None = None,
    unlisted: bool = False,
    temporary: bool = False,
) -> Query:
    session = QuerySession(updated_schemas=schemas, schemas_unlisted=unlisted)
    return Query(schema, sql, session, 0, 1, 0, error, temporary)


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


@pytest.mark.parametrize(
    "statement",
    [
        query(b"INSERT INTO other.t VALUES (1)", unlisted=True),  # it used more schemas than MySQL lists
        query(b"UPDATE view SET a = 1", schemas=("other",)),
    ],
)
def test_rows_that_a_statement_may_have_changed_elsewhere_pause(statement: Query) -> None:
    with pytest.raises(DMError) as caught:
        lane().steps(statement, TRANSACTION)
    assert caught.value.name == "statement-dml"


@pytest.mark.parametrize(
    "statement",
    [
        b"RENAME TABLE o TO old",
        b"CREATE DEFINER=`root`@`%` SQL SECURITY DEFINER VIEW o AS SELECT * FROM d.t",
        b"CREATE OR REPLACE VIEW o AS SELECT * FROM d.t",
        b"DROP TABLE o",
    ],
)
def test_what_is_no_view_is_asked_again_behind_a_statement_that_may_make_one(statement: bytes) -> None:
    views: set[str] = set()
    asked: list[str] = []

    def has_view(table: TableName) -> bool:
        asked.append(table.table)
        return table.table in views

    looking = lane(has_view)
    write = query(b"UPDATE o SET a = 1", schemas=("other",))
    for _ in range(2):
        assert looking.steps(write, TRANSACTION) == []
    assert asked == ["o"]
    looking.steps(query(statement), TRANSACTION)
    views.add("o")
    with pytest.raises(DMError) as caught:
        looking.steps(write, TRANSACTION)
    assert caught.value.name == "statement-dml"


ON_TEMPORARY = query(b"CREATE TEMPORARY TABLE d.t (a INT)", temporary=True)


@pytest.mark.parametrize(
    ("sql", "of_temporary"),
    [
        (b"ALTER TABLE d.t ADD COLUMN b INT, ADD COLUMN c INT", True),
        (b"ALTER TABLE d.t RENAME TO d.u, ADD COLUMN c INT", True),
        (b"ALTER TABLE d.t ADD COLUMN connection_id INT", True),
        (b"TRUNCATE TABLE d.t", True),
        (b"CREATE INDEX i ON d.t (a)", True),
        (b"DROP INDEX i ON d.t", True),
        # Of one statement with tables of both kinds the server makes two, and the flag is that of both.
        (b"DROP TABLE `d`.`t` /* generated by server */", False),
        (b"RENAME TABLE d.t TO d.u", False),  # MySQL's never sees a temporary table
        (b"CREATE TABLE d.u (a INT)", False),  # what was written as LIKE or AS SELECT of one
        (b"CREATE TABLE d.t LIKE d.u", False),
    ],
)
def test_a_statement_about_a_temporary_table_is_passed_over(sql: bytes, of_temporary: bool) -> None:
    with_one, with_none = lane(), lane()
    assert with_one.steps(ON_TEMPORARY, TRANSACTION) == []
    flagged = query(sql, temporary=True)
    assert [step.execute for step in with_one.steps(flagged, TRANSACTION)] == ([] if of_temporary else [True])
    # A procedure that uses another temporary table marks what it does to real ones, too.
    assert [step.execute for step in with_none.steps(flagged, TRANSACTION)] != []


def test_an_operator_at_a_statement_about_a_temporary_table_does_not_make_it_one_about_another() -> None:
    skipping = Operator("uuid", "binlog.000001", 100, "skip")
    looking = lane()
    assert looking.steps(ON_TEMPORARY, TRANSACTION, skipping) == []
    assert looking.steps(query(b"ALTER TABLE d.t DROP COLUMN a", temporary=True), TRANSACTION, skipping) == []
    assert looking.steps(query(b"ALTER TABLE d.t DROP COLUMN a"), TRANSACTION, skipping) != []


def test_a_table_made_like_a_temporary_one_pauses() -> None:
    looking, like = lane(), query(b"CREATE TABLE d.u LIKE d.t", temporary=True)
    assert [step.execute for step in looking.steps(like, TRANSACTION)] == [True]
    looking.steps(ON_TEMPORARY, TRANSACTION)
    with pytest.raises(DMError) as caught:
        looking.steps(like, TRANSACTION)
    assert caught.value.name == "ddl-not-understood"
    assert "temporary" in caught.value.message


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
