"""What an event demands, before anything is executed: the same each time it is asked, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.binlog.query import QuerySession
from dm.binlog.reader import Query
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.position import Position
from dm.progress.operators import Operator
from dm.rules.online_tables import OnlineTables
from dm.rules.router import ExtractedColumn
from dm.schema.parse import parse_create_table
from dm.schema.tracker import SchemaTracker
from dm.sql.context import SourceContext
from dm.sql.piece import Piece
from dm.syncer.ddl.changed_rows import SourceViews
from dm.syncer.ddl.known import DumpWindow, Known, Source, StatementEvent
from dm.syncer.ddl.plan import DdlPlan
from dm.syncer.ddl.planner import plan, plan_injection
from dm.syncer.ddl.step import CutOver, Execute, Forget, Step, TrackOnly
from dm.syncer.ddl.temporary_tables import TemporaryTables
from dm.syncer.stream.transaction import SourceTransaction

PLACE = Position("uuid", "binlog.000001", 100, GtidSet.empty("mysql"))
TRANSACTION = SourceTransaction(PLACE, PLACE, None, 0)


class Rules:
    """Everything in schema `d` is wanted."""

    online = OnlineTables((r"^_(.+)_gho$",), (r"^_(.+)_del$",))
    second = False

    def elsewhere(self, table: TableName) -> bool:
        return False

    def wanted(self, table: TableName) -> bool:
        return table.schema == "d"

    followed = wanted

    def ddl_event(self, table: TableName, event: str, sql: str, **_: object) -> str:
        return "do"

    def sql_pattern_ignores(self, sql: str) -> bool:
        return False

    def extracted(self, table: TableName) -> tuple[ExtractedColumn, ...]:
        return (ExtractedColumn("shard", "1"),) if table.table == "gathered" else ()

    def route(self, table: TableName) -> TableName:
        return table

    def keeps_schema(self, schema: str) -> bool:
        return False


class Looking:
    """Plans events, and carries out of each plan only what is remembered of it.

    Each plan is made twice, and must be the same.
    """

    def __init__(self, views: Callable[[TableName], bool] = lambda table: table.table == "view") -> None:
        self.views = SourceViews(views)
        self.known = Known(
            cast(Any, Rules()),
            SchemaTracker("mysql"),
            Source(lambda query: SourceContext("mysql", 90704, query.schema), self.views.has),
            DumpWindow({}),
            {},
            TemporaryTables(),
        )

    def steps(
        self, query: Query, transaction: SourceTransaction = TRANSACTION, operator: Operator | None = None
    ) -> tuple[Step, ...]:
        event = StatementEvent(query, transaction, operator)
        planned = plan(event, self.known)
        assert plan(event, self.known) == planned
        self.known = replace(self.known, temporary=planned.temporary)
        if planned.views_may_change:
            self.views.ask_again()
        return planned.steps


def executes(steps: tuple[Step, ...]) -> list[bool]:
    return [isinstance(step, Execute) for step in steps]


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
    assert Looking().steps(query(sql, schemas=("other",))) == ()
    assert Looking().steps(query(sql, error=1317)) == ()


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
        Looking().steps(query(sql, schemas=schemas))
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
        Looking().steps(statement)
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

    looking = Looking(has_view)
    write = query(b"UPDATE o SET a = 1", schemas=("other",))
    for _ in range(2):
        assert looking.steps(write) == ()
    assert asked == ["o"]
    looking.steps(query(statement))
    views.add("o")
    with pytest.raises(DMError) as caught:
        looking.steps(write)
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
    with_one, with_none = Looking(), Looking()
    assert with_one.steps(ON_TEMPORARY) == ()
    flagged = query(sql, temporary=True)
    assert executes(with_one.steps(flagged)) == ([] if of_temporary else [True])
    # A procedure that uses another temporary table marks what it does to real ones, too.
    assert executes(with_none.steps(flagged)) != []


def test_an_operator_at_a_statement_about_a_temporary_table_does_not_make_it_one_about_another() -> None:
    skipping = Operator("uuid", "binlog.000001", 100, "skip")
    looking = Looking()
    assert looking.steps(ON_TEMPORARY, TRANSACTION, skipping) == ()
    assert looking.steps(query(b"ALTER TABLE d.t DROP COLUMN a", temporary=True), TRANSACTION, skipping) == ()
    assert looking.steps(query(b"ALTER TABLE d.t DROP COLUMN a"), TRANSACTION, skipping) != ()


def test_a_table_made_like_a_temporary_one_pauses() -> None:
    looking, like = Looking(), query(b"CREATE TABLE d.u LIKE d.t", temporary=True)
    assert executes(looking.steps(like)) == [True]
    looking.steps(ON_TEMPORARY)
    with pytest.raises(DMError) as caught:
        looking.steps(like)
    assert caught.value.name == "ddl-not-understood"
    assert "temporary" in caught.value.message


def test_a_statement_that_is_no_text_pauses_where_it_may_concern_us() -> None:
    with pytest.raises(DMError) as caught:
        Looking().steps(query(b"INSERT INTO d.t VALUES (_binary'\xff')"))
    assert caught.value.name == "statement-undecodable"


def test_a_ddl_that_failed_at_the_source_pauses() -> None:
    with pytest.raises(DMError) as caught:
        Looking().steps(query(b"ALTER TABLE d.t ADD COLUMN b INT", error=1317))
    assert caught.value.name == "statement-failed-at-source"
    assert "1317" in caught.value.message
    assert "ALTER TABLE d.t" in caught.value.message


def test_a_drop_that_found_some_of_its_tables_is_done() -> None:
    steps = Looking().steps(query(b"DROP TABLE d.t, d.missing", error=1051))
    assert executes(steps) == [True, True]


# -- Nothing is written while planning


def at(offset: int) -> SourceTransaction:
    end = Position("uuid", "binlog.000001", offset, GtidSet.empty("mysql"))
    return SourceTransaction(replace(end, offset=offset - 50), end, None, 0)


class Following(Looking):
    """Carries out plans as the barrier does, without a target: structures, points and records follow them."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker = SchemaTracker("mysql")
        context = SourceContext("mysql", 90704, "d")
        for table in ("t", "early"):
            self.tracker.set(parse_create_table(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", context))
        self.points: dict[TableName, Position] = {TableName("d", "early"): at(4000).end}
        self.known = replace(self.known, structures=self.tracker, dump=DumpWindow(self.points, at(4000).end))

    def everything(self) -> object:
        """All that is known, by value."""
        return deepcopy((self.tracker.to_json(), self.points, self.known.online, self.known.temporary))

    def plan(self, event: StatementEvent) -> DdlPlan | str:
        try:
            return plan(event, self.known)
        except DMError as error:
            return error.name

    def carry_out(self, planned: DdlPlan) -> None:
        self.points.update(planned.points)
        online = {**self.known.online, **planned.online}
        self.known = replace(
            self.known,
            temporary=planned.temporary,
            online={name: record for name, record in online.items() if record is not None},
        )
        for step in planned.pieces:
            with suppress(DMError):
                self.tracker.apply(step.piece)


STATEMENTS = [
    "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
    "CREATE TEMPORARY TABLE d.t (a INT)",
    "DROP TEMPORARY TABLE d.t",
    "TRUNCATE TABLE d.t",
    "ALTER TABLE d.t ADD COLUMN b INT, ADD COLUMN c INT",
    "CREATE TABLE d._t_gho LIKE d.t",
    "ALTER TABLE d._t_gho ADD COLUMN a INT",
    "RENAME TABLE d.t TO d._t_del, d._t_gho TO d.t",
    "RENAME TABLE d._t_del TO d.t",
    "DROP TABLE d._t_del",
    "DROP DATABASE d",
    "RENAME TABLE d.early TO d.later",
    "RENAME TABLE d.later TO d.early",
    "DROP TABLE d.early, d.t",
    "ALTER TABLE d.later ADD COLUMN a INT",
    "CREATE VIEW d.v AS SELECT 1",
    "UPDATE other.u SET a = 1",
    "ALTER TABLE d.t",
]


@settings(max_examples=40)
@given(
    history=st.lists(st.sampled_from(STATEMENTS), max_size=12),
    thrown_away=st.lists(st.lists(st.sampled_from(STATEMENTS), max_size=2), min_size=12, max_size=12),
)
def test_a_plan_that_is_thrown_away_leaves_nothing_behind(history: list[str], thrown_away: list[list[str]]) -> None:
    straight, hesitant = Following(), Following()
    for number, statement in enumerate(history):
        event = StatementEvent(query(statement.encode(), temporary=True), at(100 * (number + 1)))
        planned = straight.plan(event)
        for other in thrown_away[number]:
            hesitant.plan(StatementEvent(query(other.encode(), temporary=True), at(100 * (number + 1))))
        before = hesitant.everything()
        assert hesitant.plan(event) == planned
        assert hesitant.plan(event) == planned
        assert hesitant.everything() == before
        if isinstance(planned, DdlPlan):
            straight.carry_out(planned)
            hesitant.carry_out(planned)
    assert straight.everything() == hesitant.everything()


def test_a_point_that_goes_to_another_name_is_a_part_of_the_plan() -> None:
    following = Following()
    early, later = TableName("d", "early"), TableName("d", "later")
    following.tracker.forget(early)
    planned = following.plan(StatementEvent(query(b"RENAME TABLE d.early TO d.later"), at(100)))
    assert isinstance(planned, DdlPlan)
    assert planned.points == {later: following.points[early]}
    assert planned.steps == ()  # the dump read the table behind the statement
    assert later not in following.points


def test_what_an_online_ddl_is_to_remember_is_a_part_of_the_plan() -> None:
    following, t, ghost = Following(), TableName("d", "t"), TableName("d", "_t_gho")
    remembered: list[list[str]] = []
    for number, statement in enumerate(("CREATE TABLE d._t_gho LIKE d.t", "ALTER TABLE d._t_gho ADD COLUMN a INT")):
        planned = plan(StatementEvent(query(statement.encode()), at(5000 + 100 * number)), following.known)
        assert executes(planned.steps) == [False]
        record = planned.online[ghost]
        assert record is not None
        remembered.append([one.text for one in record.statements])
        following.carry_out(planned)
    assert remembered == [[], ["ALTER TABLE `d`.`_t_gho` ADD COLUMN a INT"]]
    swap = query(b"RENAME TABLE d.t TO d._t_del, d._t_gho TO d.t")
    planned = plan(StatementEvent(swap, at(6000)), following.known)
    proof, altered, renamed = planned.steps
    assert isinstance(proof, CutOver)
    assert (proof.ghost, proof.real) == (ghost, t)
    assert isinstance(altered, Execute)
    assert (altered.piece.text, altered.track, altered.copied_to) == (
        "ALTER TABLE `d`.`t` ADD COLUMN a INT",
        "not",
        ghost,
    )
    assert isinstance(renamed, TrackOnly)
    assert planned.pieces == (altered, renamed)
    assert planned.online == {ghost: None}


def test_all_of_an_alter_goes_with_its_first_piece() -> None:
    first, second = Looking().steps(query(b"ALTER TABLE d.t ADD COLUMN b INT, ADD COLUMN c INT"))
    assert isinstance(first, Execute)
    assert isinstance(second, Execute)
    whole = first.as_a_whole
    assert whole is not None
    assert (whole.piece.text, whole.query) == ("ALTER TABLE d.t ADD COLUMN b INT, ADD COLUMN c INT", first.query)
    assert second.as_a_whole is None


def test_a_statement_that_an_operator_replaces_is_followed_and_its_own_are_executed() -> None:
    replacing = Operator("uuid", "binlog.000001", 100, "replace", ("ALTER TABLE d.t ADD COLUMN w INT",))
    own, followed = Looking().steps(query(b"ALTER TABLE d.t ADD COLUMN v INT"), TRANSACTION, replacing)
    assert isinstance(own, Execute)
    assert (own.piece.text, own.by_hand, own.track) == ("ALTER TABLE d.t ADD COLUMN w INT", True, "not")
    assert isinstance(followed, TrackOnly)
    assert (followed.piece.text, followed.track) == ("ALTER TABLE d.t ADD COLUMN v INT", "if possible")


def test_a_skipped_statement_that_failed_at_the_source_may_be_done_in_part() -> None:
    skipping = Operator("uuid", "binlog.000001", 100, "skip")
    (step,) = Looking().steps(query(b"ALTER TABLE d.t ADD COLUMN v INT", error=1317), TRANSACTION, skipping)
    assert isinstance(step, Forget)


def test_an_injection_is_planned_under_the_same_rules() -> None:
    injecting = Operator("uuid", "binlog.000001", 100, "inject", ("ALTER TABLE d.t ADD v INT", "DROP TABLE other.t"))
    known = Looking().known
    planned, left = plan_injection(injecting, TRANSACTION, known)
    assert (planned, left) == plan_injection(injecting, TRANSACTION, known)
    assert not left  # to nobody
    assert [step.piece.text for step in planned.pieces] == ["ALTER TABLE d.t ADD v INT"]


class Reading(Rules):
    """One of several readings: these tables are its own, or all but these."""

    def __init__(self, *tables: str, but: bool = False) -> None:
        self._tables = tables
        self._but = but

    def followed(self, table: TableName) -> bool:
        return table.schema == "d" and (table.table in self._tables) != self._but

    def elsewhere(self, table: TableName) -> bool:
        return table.schema == "d" and not self.followed(table)


def test_each_reading_injects_what_is_its_own_and_no_other_has_done() -> None:
    words = ("ALTER TABLE d.a ADD v INT, ADD w INT", "ALTER TABLE d.t ADD v INT", "ALTER TABLE d.b ADD v INT")
    injecting = Operator("uuid", "binlog.000001", 100, "inject", (*words, "DROP TABLE other.t"))
    around = Looking().known

    def injected(rules: Rules) -> list[str]:
        nonlocal injecting
        planned, left = plan_injection(injecting, TRANSACTION, replace(around, rules=cast(Any, rules)))
        injecting = replace(injecting, done=True, left=left)
        return [str(step.piece.table) for step in planned.pieces]

    assert injected(Reading("a", "b", but=True)) == ["d.t"]
    assert injecting.left == frozenset({(0, 0), (0, 1), (2, 0)})
    assert injected(Reading("a")) == ["d.a", "d.a"]
    assert injected(Reading("a")) == []
    assert injecting.partly
    assert injected(Rules()) == ["d.b"]  # it is held no more
    assert not injecting.to_come


# -- What is not understood


NOT_UNDERSTOOD = [
    b"CREATE SEQUENCE %s.s",
    b"DROP SEQUENCE %s.s",
    b"CREATE TABLE %s.h (a INT) WITH SYSTEM VERSIONING",
    b"ALTER TABLE %s.h ADD PERIOD FOR p (a, b)",
    b"ALTER TABLE %s.h ADD COLUMN",
]


@pytest.mark.parametrize("sql", NOT_UNDERSTOOD)
def test_a_statement_that_is_not_understood_is_passed_over_where_it_is_about_nothing_migrated(sql: bytes) -> None:
    looking = Looking()
    planned = plan(StatementEvent(query(sql % b"other"), TRANSACTION), looking.known)
    assert planned.steps == ()
    assert "not understood" in planned.passed_over
    with pytest.raises(DMError) as caught:
        looking.steps(query(sql % b"d"))
    assert caught.value.name == "ddl-not-understood"


def test_a_statement_that_is_not_understood_pauses_where_it_may_have_changed_migrated_rows() -> None:
    creating = query(b"CREATE TABLE other.x SELECT f()", schemas=("other", "d"))
    with pytest.raises(DMError) as caught:
        Looking().steps(creating)
    assert caught.value.name == "ddl-not-understood"


def test_a_tidb_gets_the_operations_of_an_alter_one_by_one() -> None:
    altering = query(b"ALTER TABLE d.t DROP INDEX k, ADD INDEX k (b)")
    looking = Looking()
    assert len(looking.steps(altering)) == 1
    looking.known = replace(looking.known, source=replace(looking.known.source, singly=True))
    first, second = looking.steps(altering)
    assert isinstance(first, Execute)
    assert isinstance(second, Execute)
    assert [first.piece.text, second.piece.text] == ["ALTER TABLE d.t DROP INDEX k", "ALTER TABLE d.t ADD INDEX k (b)"]
    assert first.whole is not None
    assert first.whole.text == altering.text  # should the TiDB refuse the first one


def test_what_breaks_over_a_statement_may_be_skipped_by_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str, context: SourceContext, *, singly: bool) -> list[Piece]:
        raise IndexError(f"{text} {singly}")

    monkeypatch.setattr("dm.syncer.ddl.planner.split", broken)
    skipping = Operator("uuid", "binlog.000001", 100, "skip")
    with pytest.raises(IndexError):
        Looking().steps(query(b"ALTER TABLE d.t ADD COLUMN v INT"))
    assert Looking().steps(query(b"ALTER TABLE d.t ADD COLUMN v INT"), TRANSACTION, skipping) == ()


@pytest.mark.parametrize(
    "sql",
    [
        b"ALTER TABLE d.t",
        b"ALTER TABLE d.t ALGORITHM=INPLACE",
        b"ALTER TABLE d.t REMOVE PARTITIONING",
        b"ALTER TABLE d.t PARTITION BY HASH (a) PARTITIONS 3",
    ],
)
def test_an_alter_without_an_operation_is_executed_as_it_stands(sql: bytes) -> None:
    (step,) = Looking().steps(query(sql))
    assert isinstance(step, Execute)
    assert step.piece.text == sql.decode()
    assert step.piece.operation is None or b"PARTITION" in sql


def test_a_second_pass_leaves_out_what_a_tool_did_before_its_table_was_held() -> None:
    rules, t = Rules(), TableName("d", "t")
    rules.second = True
    looking = Looking()
    for points, steps in (({}, 1), ({t: PLACE}, 0)):
        looking.known = replace(looking.known, rules=cast(Any, rules), dump=DumpWindow(points))
        planned = plan(StatementEvent(query(b"CREATE TABLE d._t_gho (id INT PRIMARY KEY)"), TRANSACTION), looking.known)
        assert (len(planned.steps), len(planned.online)) == (steps, steps)
