"""What the syncer makes of the time in which a dump ran: from P0 to P1, with tables that have points of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pytest

from dm import faults
from dm.config.rules import BlockAllowList, TablePattern
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.position import Position
from dm.progress.checkpoint import Handover, write_handover
from dm.progress.tables import SubtaskKey
from dm.sourcelog.upstream.facts import question_session, read_facts, read_structure
from dm.sourcelog.upstream.snapshot import lower_bound, upper_bound
from tests.live.syncer.errors.test_operators import ask, place
from tests.live.syncer.follow.test_follow import identical
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, endpoint_of, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]


class Dump:
    """Does by hand what a dump and a load do, one step at a time."""

    def __init__(self, upstream: ThrowawayServer, target: ThrowawayServer, schema: str) -> None:
        self.upstream = upstream
        self.target = target
        self.schema = schema
        self._session = question_session(endpoint_of(upstream))
        self._facts = read_facts(self._session)
        self.p0 = self.point()
        self._tables: dict[TableName, tuple[TableSchema, Position | None]] = {}
        self._vanished: dict[TableName, Position] = {}

    def point(self) -> Position:
        """A lower bound of what is read from now on."""
        return lower_bound(partial(question_session, endpoint_of(self.upstream)), self._facts)

    def exact(self) -> Position:
        """The end; exact as long as nobody writes."""
        return upper_bound(self._session, self._facts)

    def load(self, table: str, point: Position | None = None) -> None:
        """Copy the table as it is now."""
        name = TableName(self.schema, table)
        text = read_structure(self._session, name)
        context = SourceContext(self._facts.flavor, self._facts.version, self.schema)
        self._tables[name] = (parse_create_table(text, context), point)
        self.target.execute(text.replace(f"CREATE TABLE `{table}`", f"CREATE TABLE {name.sql}", 1))
        for row in self.upstream.query(f"SELECT * FROM {name.sql}"):
            with self.target.connect() as connection, connection.cursor() as cursor:
                cursor.execute(f"INSERT INTO {name.sql} VALUES ({', '.join(['%s'] * len(row))})", row)

    def vanished(self, *tables: str) -> None:
        """These are gone now."""
        self._vanished |= dict.fromkeys((TableName(self.schema, table) for table in tables), self.point())

    def finish(self) -> None:
        """Hand over to the syncer."""
        key = SubtaskKey(f"meta_{self.schema}", self.schema, "source-1")
        with TargetConnection(endpoint_of(self.target)) as connection:
            assert write_handover(connection, key, Handover(self.p0, self.exact(), self._tables, self._vanished))
        self._session.close()


def follow(dump: Dump) -> None:
    subtask = subtask_for(dump.upstream, dump.target, dump.schema, task=dump.schema)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    identical(dump.upstream, dump.target, dump.schema)


@pytest.fixture
def name(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> str:
    return schema(upstream, target)


Run = Callable[[Iterable[str]], None]


@pytest.fixture
def run(upstream: ThrowawayServer, name: str) -> Run:
    return lambda statements: upstream.execute(f"USE {name}", *statements)


def test_a_table_read_again_after_an_alter_takes_nothing_from_before_its_point(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    run(["CREATE TABLE t (id INT PRIMARY KEY, gone INT)", "INSERT INTO t VALUES (1, 10), (2, 20)"])
    dump = Dump(upstream, target, name)
    run(
        [
            "UPDATE t SET gone = 11 WHERE id = 1",
            "ALTER TABLE t DROP COLUMN gone, ADD COLUMN came VARCHAR(9) DEFAULT 'x'",
            "UPDATE t SET came = 'y' WHERE id = 2",
        ]
    )
    point = dump.point()
    run(["INSERT INTO t VALUES (3, 'z')", "DELETE FROM t WHERE id = 1"])
    dump.load("t", point)
    run(["UPDATE t SET id = 4 WHERE id = 3"])
    dump.finish()
    follow(dump)


def test_tables_that_vanished_or_came_under_a_new_name(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    run(
        [
            "CREATE TABLE stays (id INT PRIMARY KEY)",
            "CREATE TABLE dropped (id INT PRIMARY KEY)",
            "CREATE TABLE renamed (id INT PRIMARY KEY)",
            "INSERT INTO renamed VALUES (1)",
        ]
    )
    dump = Dump(upstream, target, name)
    run(
        [
            "INSERT INTO dropped VALUES (1)",
            "DROP TABLE dropped",
            "INSERT INTO renamed VALUES (2)",
            "RENAME TABLE renamed TO arrived",
            "INSERT INTO arrived VALUES (3)",
        ]
    )
    dump.vanished("dropped", "renamed")
    point = dump.point()
    run(["INSERT INTO arrived VALUES (4)"])
    dump.load("stays")
    dump.load("arrived", point)
    run(["CREATE TABLE dropped (other VARCHAR(3) PRIMARY KEY)", "INSERT INTO dropped VALUES ('a')"])
    dump.finish()
    follow(dump)


def test_names_that_only_the_window_saw(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    run(["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"])
    dump = Dump(upstream, target, name)
    run(
        [
            "RENAME TABLE t TO middle",
            "INSERT INTO middle VALUES (2)",
            "ALTER TABLE middle ADD COLUMN v INT, RENAME TO later",
            "INSERT INTO later VALUES (3, 3)",
            "RENAME TABLE later TO arrived",
            "INSERT INTO arrived VALUES (4, 4)",
        ]
    )
    dump.vanished("t")
    dump.load("arrived", dump.point())
    run(["CREATE TABLE middle (id INT PRIMARY KEY)", "INSERT INTO middle VALUES (5)"])
    dump.finish()
    run(["INSERT INTO middle VALUES (6)", "INSERT INTO arrived VALUES (7, 7)"])
    follow(dump)


@pytest.mark.parametrize("fault", ["syncer.after_ddl_record", "syncer.before_commit"])
def test_names_that_only_the_window_saw_are_remembered_by_the_next_run(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run, fault: str
) -> None:
    run(["CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"])
    dump = Dump(upstream, target, name)
    dump.load("u")
    run(
        [
            "RENAME TABLE t TO middle",
            "ALTER TABLE u ADD COLUMN v INT",
            "INSERT INTO u VALUES (1, 1)",
            "INSERT INTO middle VALUES (2)",
            "DROP TABLE middle",
        ]
    )
    dump.vanished("t")
    dump.finish()
    faults.arm(f"{fault}=error")
    try:
        ended = RunningSync(subtask_for(upstream, target, name, task=name), None).wait_ended()
    finally:
        faults.arm("")
    assert ended is not None
    follow(dump)


def test_a_rename_to_such_a_name_may_be_skipped(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    run(["CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)"])
    dump = Dump(upstream, target, name)
    dump.load("u")
    renamed = place(upstream)
    run(["RENAME TABLE t TO middle", "INSERT INTO middle VALUES (2)", "DROP TABLE middle"])
    dump.vanished("t")
    run(["INSERT INTO u VALUES (1)"])
    dump.finish()
    ask(subtask_for(upstream, target, name, task=name), "skip", renamed)
    follow(dump)


def test_a_rename_of_a_table_that_was_made_meanwhile_may_be_executed(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    """A person knows that the dump read nothing of it; what the table was then, the dump never told."""
    run(["CREATE TABLE u (id INT PRIMARY KEY)"])
    dump = Dump(upstream, target, name)
    dump.load("u")
    run(["CREATE TABLE made (id INT PRIMARY KEY)", "INSERT INTO made VALUES (1)"])
    renamed = place(upstream)
    run(["RENAME TABLE made TO later", "INSERT INTO later VALUES (2)", "DROP TABLE later", "INSERT INTO u VALUES (1)"])
    dump.finish()
    subtask = subtask_for(upstream, target, name, task=name)
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "ddl-within-dump"
    assert "dmctl binlog replace" in error.workaround
    ask(subtask, "replace", renamed, f"RENAME TABLE {name}.made TO {name}.later")
    follow(dump)


def test_a_name_that_the_dump_read_and_another_table_took_pauses(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    run(["CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)"])
    dump = Dump(upstream, target, name)
    run(["DROP TABLE b", "RENAME TABLE a TO b"])
    dump.vanished("a")
    dump.load("b")  # it looks like the one that was planned
    dump.finish()
    error = RunningSync(subtask_for(upstream, target, name, task=name), None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "ddl-within-dump"


def test_a_keyless_table_altered_in_the_window_is_applied_exactly_once(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    run(["CREATE TABLE t (v INT)", "INSERT INTO t VALUES (1), (1)"])
    dump = Dump(upstream, target, name)
    run(["INSERT INTO t VALUES (2)", "ALTER TABLE t ADD COLUMN w INT DEFAULT 5", "INSERT INTO t VALUES (3, 3)"])
    dump.load("t", dump.exact())
    run(["INSERT INTO t VALUES (3, 3)", "DELETE FROM t WHERE v = 1 LIMIT 1"])
    dump.finish()
    follow(dump)


def test_a_table_made_like_another_and_altered(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    run(["CREATE TABLE model (id INT PRIMARY KEY)", "INSERT INTO model VALUES (1)"])
    dump = Dump(upstream, target, name)
    run(["CREATE TABLE t LIKE model", "ALTER TABLE t ADD COLUMN w INT", "INSERT INTO t VALUES (1, 2)"])
    point = dump.point()
    dump.load("model")
    dump.load("t", point)
    dump.finish()
    run(["INSERT INTO t VALUES (2, 2)"])
    follow(dump)


def test_a_table_dropped_and_made_anew_in_the_window(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    run(["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)"])
    dump = Dump(upstream, target, name)
    run(["INSERT INTO t VALUES (3)", "DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (2)"])
    dump.load("t")
    run(["INSERT INTO t VALUES (4)"])
    dump.finish()
    follow(dump)


def test_a_schema_change_by_a_copy_ends_in_the_window(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    run(["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"])
    dump = Dump(upstream, target, name)
    run(
        [
            "CREATE TABLE copy (id INT PRIMARY KEY)",
            "ALTER TABLE copy ADD COLUMN v INT",
            "INSERT INTO copy (id) SELECT id FROM t",
            "RENAME TABLE t TO old, copy TO t",
            "UPDATE t SET v = 1",
        ]
    )
    point = dump.point()
    dump.load("t", point)
    dump.load("old", point)
    dump.finish()
    run(["INSERT INTO t VALUES (2, 2)"])
    follow(dump)


def test_a_table_that_gave_its_rows_to_another_while_it_was_dumped_pauses(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    run(["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"])
    dump = Dump(upstream, target, name)
    run(["CREATE TABLE fresh LIKE t", "RENAME TABLE t TO old, fresh TO t"])
    dump.load("old", dump.point())
    dump.load("t")  # the structure is the one that was planned, so nothing tells that it is another table
    dump.finish()
    sync = RunningSync(subtask_for(upstream, target, name, task=name), None)
    error = sync.wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "ddl-within-dump"


def test_tables_that_changed_places_before_both_were_read_are_what_was_read(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    run(
        [
            "CREATE TABLE a (id INT PRIMARY KEY)",
            "CREATE TABLE b (id INT PRIMARY KEY, v INT)",
            "INSERT INTO a VALUES (1)",
            "INSERT INTO b VALUES (2, 2)",
        ]
    )
    dump = Dump(upstream, target, name)
    run(["RENAME TABLE a TO swapping, b TO a, swapping TO b"])
    point = dump.point()
    dump.load("a", point)
    dump.load("b", point)
    dump.finish()
    run(["INSERT INTO a VALUES (3, 3)", "INSERT INTO b VALUES (4)"])
    follow(dump)


@pytest.mark.parametrize(
    "swap",
    ["RENAME TABLE a TO swapping, b TO a, swapping TO b", "ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b"],
)
def test_equal_tables_that_change_places_while_they_are_dumped_pause(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run, swap: str
) -> None:
    parts = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN MAXVALUE)" if "EXCHANGE" in swap else ""
    run(
        [
            f"CREATE TABLE a (id INT PRIMARY KEY) {parts}",
            "CREATE TABLE b (id INT PRIMARY KEY)",
            "INSERT INTO a VALUES (1)",
            "INSERT INTO b VALUES (2)",
        ]
    )
    dump = Dump(upstream, target, name)
    dump.load("a")
    run([swap])
    dump.load("b")
    dump.finish()
    sync = RunningSync(subtask_for(upstream, target, name, task=name), None)
    error = sync.wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "ddl-within-dump"
    assert f"{name}.b" in error.message


def test_a_table_that_changes_places_with_one_outside_the_lists_while_it_is_dumped_pauses(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, run: Run
) -> None:
    """The rows that the dump has of it are of both, so the statement can't just be skipped."""
    run(["CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE outside (id INT PRIMARY KEY)"])
    dump = Dump(upstream, target, name)
    run(["RENAME TABLE a TO swapping, outside TO a, swapping TO outside"])
    dump.load("a")
    dump.finish()
    lists = BlockAllowList(do_dbs=(name,), ignore_tables=(TablePattern(db_name=name, tbl_name="outside"),))
    subtask = subtask_for(upstream, target, name, task=name).model_copy(update={"block_allow_list": lists})
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "ddl-within-dump"
