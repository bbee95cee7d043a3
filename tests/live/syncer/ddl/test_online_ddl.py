"""gh-ost and pt-osc at the source: the target gets the change, and nothing of the tools."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pymysql.constants.ER import LOCK_DEADLOCK
from pymysql.err import OperationalError, ProgrammingError

from dm.config.rules import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from tests.live.syncer.apply.test_dump_window import Dump
from tests.live.syncer.errors.test_operators import ask
from tests.live.syncer.follow.test_follow import identical
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.online_ddl_tools import SHADOW, TOOLS, TRASH, OnlineChange, Tool
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

TABLE = "CREATE TABLE {s}.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, w VARCHAR(20), KEY by_v (v))"
ALTERATIONS = (
    "ADD COLUMN a INT NOT NULL DEFAULT 5 AFTER id, ADD COLUMN b DATETIME DEFAULT '2026-01-02', DROP KEY by_v",
    "MODIFY w VARCHAR(50) CHARACTER SET latin1, ADD UNIQUE KEY by_w (w)",
    "AUTO_INCREMENT=1000",
)
COLUMNS = ("id", "v", "w")


def online(subtask: SubtaskConfig, **changes: object) -> SubtaskConfig:
    rules = {"shadow_table_rules": SHADOW, "trash_table_rules": TRASH}
    return subtask.model_copy(update={**rules, **changes})


@contextmanager
def suppressing_lost_turns() -> Iterator[None]:
    """Go on like an application: there is no table for a moment between two renames, and the tool's copy locks rows."""
    try:
        yield
    except ProgrammingError:
        pass
    except OperationalError as error:
        if error.args[0] != LOCK_DEADLOCK:
            raise


@contextmanager
def writing(server: ThrowawayServer, table: TableName) -> Iterator[threading.Lock]:
    """Somebody writes to the table all the time, but for whoever holds the lock."""
    over, quiet = threading.Event(), threading.Lock()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
                for number in itertools.count():
                    if over.wait(0.02):
                        return
                    with quiet, suppressing_lost_turns():
                        cursor.execute(f"INSERT INTO {table.sql} (v, w) VALUES (%s, %s)", (number, f"row {number}"))
                        cursor.execute(f"UPDATE {table.sql} SET v = v + 1 WHERE v < %s ORDER BY id LIMIT 2", (number,))
                        cursor.execute(f"DELETE FROM {table.sql} WHERE v = %s", (number // 2,))
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield quiet
    finally:
        over.set()
        writer.join()
    assert not failed, failed


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    "tool", [pytest.param(tool, marks=[] if tool == "pt-osc" else [pytest.mark.chaos]) for tool in TOOLS]
)
def test_the_change_arrives_while_rows_are_written_and_nothing_else(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tool: Tool
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(TABLE.format(s=name))
    upstream.execute(f"INSERT INTO {name}.t (v, w) VALUES (-1, 'first'), (-2, 'second')")
    target.execute(f"INSERT INTO {name}.t SELECT 1, -1, 'first' UNION SELECT 2, -2, 'second'")
    change = OnlineChange(tool, upstream, TableName(name, "t"), COLUMNS)
    subtask = online(subtask_for(upstream, target, name, task=name))
    records = f"SELECT ghost_table FROM {subtask.meta_schema}.{name}_onlineddl"
    with running_sync(subtask) as sync:
        sync.wait_synced()
    with running_sync(subtask) as sync, writing(upstream, change.table) as quiet:
        change.create()
        change.alter(*ALTERATIONS)
        change.copy()
        with running_sync_again(sync, subtask) as again:
            again.wait_synced()
            assert target.query(records) == ((change.ghost.table,),)
            if tool == "gh-ost":
                # Our locks are not all of gh-ost's: a write that waits for the table could get in before the RENAME,
                # and the source would lose it.
                with quiet:
                    change.cut_over()
            else:
                change.cut_over()
            change.clean()
            upstream.execute(f"ALTER TABLE {name}.t ADD COLUMN later INT DEFAULT 7 FIRST")
            again.wait_synced()
            assert target.query(f"SHOW TABLES FROM {name}") == (("t",),)
            assert target.query(records) == ()
    with running_sync(subtask) as last:
        last.wait_synced()
    identical(upstream, target, name)


@contextmanager
def running_sync_again(sync: RunningSync, subtask: SubtaskConfig) -> Iterator[RunningSync]:
    """Pause and resume."""
    sync.stop()
    with running_sync(subtask) as again:
        yield again


def prepared(
    tool: Tool, upstream: ThrowawayServer, target: PrivateServer, name: str
) -> tuple[SubtaskConfig, OnlineChange]:
    """A task that has begun, and a change that has not."""
    for server in (upstream, target):
        server.execute(TABLE.format(s=name), f"INSERT INTO {name}.t VALUES (1, 1, 'one'), (2, 2, 'two')")
    subtask = online(subtask_for(upstream, target, name, task=name))
    with running_sync(subtask) as sync:
        sync.wait_synced()
    return subtask, OnlineChange(tool, upstream, TableName(name, "t"), COLUMNS)


# Five pieces are executed. Six statements are stored or tracked: CREATE, two ALTERs, two renames, the DROP.
AROUND_PIECES = ("syncer.before_intent", "syncer.before_ddl", "syncer.after_ddl")
AROUND_RECORDS = ("syncer.after_ddl_record", "syncer.before_checkpoint", "syncer.after_checkpoint")
KILLS = [(point, number) for point in AROUND_PIECES for number in range(1, 6)]
KILLS += [(point, number) for point in AROUND_RECORDS for number in range(1, 7)]
SAMPLE = (("syncer.after_ddl", 2),)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    ("point", "number"), [pytest.param(*kill, marks=[] if kill in SAMPLE else [pytest.mark.chaos]) for kill in KILLS]
)
def test_a_kill_between_what_is_kept_and_what_is_executed_changes_nothing(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, point: str, number: int
) -> None:
    name = schema(upstream, target)
    subtask, change = prepared("gh-ost two-step", upstream, target, name)
    change.create()
    change.alter(*ALTERATIONS[:2])
    change.copy()
    upstream.execute(f"UPDATE {name}.t SET v = v + 1")
    change.cut_over()
    upstream.execute(f"UPDATE {name}.t SET a = a + 1")
    change.clean()
    log = tmp_path / "faults"
    armed = SyncProcess(subtask, faults=f"{point}=kill@{number}", fault_log=log)
    try:
        assert armed.wait_killed()
    finally:
        armed.close()
    assert log.read_text().startswith(point)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    identical(upstream, target, name)
    assert target.query(f"SELECT COUNT(*) FROM {subtask.meta_schema}.{name}_onlineddl") == ((0,),)


@pytest.mark.ci_flavor("mariadb")
def test_a_task_that_begins_in_the_middle_pauses_and_a_person_says_what_was_done(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(TABLE.format(s=name))
    change = OnlineChange("gh-ost", upstream, TableName(name, "t"), COLUMNS)
    change.create()
    change.alter(ALTERATIONS[0])
    upstream.execute(f"DROP TABLE {name}.t")
    subtask, change = prepared("gh-ost", upstream, target, name)
    change.copy()
    change.cut_over()
    upstream.execute(f"INSERT INTO {name}.t (v, a) VALUES (7, 8)")
    sync = RunningSync(subtask, None)
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert (error.code, error.place is not None) == (36046, True)
    assert error.place is not None
    statement = f"ALTER TABLE {name}.t {ALTERATIONS[0]}"
    ask(subtask, "replace", f"{error.place['file']}:{error.place['offset']}", statement)
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
        change.clean()
        whole = OnlineChange("gh-ost", upstream, change.table, (*COLUMNS, "a", "b"))
        whole.all("ADD COLUMN c INT DEFAULT 1")
        resumed.wait_synced()
    identical(upstream, target, name)


COPIED = "id INT PRIMARY KEY, b TIMESTAMP NULL, c INT"


@pytest.mark.parametrize(
    ("row", "alteration", "pauses"),
    [
        ("(0, '2026-01-02', 7)", "MODIFY id INT NOT NULL AUTO_INCREMENT", True),
        ("(1, '2026-01-02', 7)", "MODIFY id INT NOT NULL AUTO_INCREMENT", False),
        ("(1, NULL, 7)", "MODIFY b TIMESTAMP NOT NULL DEFAULT '2026-01-01'", True),
        ("(1, '2026-01-02', 7)", "MODIFY b TIMESTAMP NOT NULL DEFAULT '2026-01-01'", False),
        ("(1, '2026-01-02', 7)", "DROP COLUMN c, ADD COLUMN c BIGINT", True),
        ("(1, '2026-01-02', 7)", "CHANGE c d INT", True),
    ],
)
@pytest.mark.ci_flavor("mysql")
def test_rows_that_a_copy_holds_otherwise_than_the_table_altered_in_place_pause(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    row: str,
    alteration: str,
    *,
    pauses: bool,
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t ({COPIED})", f"INSERT INTO {name}.t VALUES {row}")
    subtask = online(subtask_for(upstream, target, name, task=name))
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    shared = "id, b" if "c d" in alteration else "id, b, c"
    upstream.execute(
        f"USE {name}",
        "CREATE TABLE _t_gho LIKE t",
        f"ALTER TABLE _t_gho {alteration}",
        "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
        f"INSERT IGNORE INTO _t_gho ({shared}) SELECT {shared} FROM t",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
    )
    if pauses:
        error = sync.wait_ended()
        sync.stop()
        assert isinstance(error, DMError)
        assert (error.code, error.place is not None) == (36933, True)
        assert target.query(f"SELECT * FROM {name}.t") == upstream.query(f"SELECT * FROM {name}._t_del")
        return
    sync.wait_synced()
    sync.stop()
    upstream.execute(f"DROP TABLE {name}._t_del")
    identical(upstream, target, name)


@pytest.mark.ci_flavor("mysql")
def test_each_shard_of_a_merged_table_is_changed_online(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    table = "(id INT PRIMARY KEY, v INT, w VARCHAR(20))"
    upstream.execute(*(f"CREATE TABLE {name}.shard_{number} {table}" for number in (1, 2)))
    target.execute(f"CREATE TABLE {name}.merged {table}")
    rule = RouteRule(schema_pattern=name, table_pattern="shard_*", target_schema=name, target_table="merged")
    subtask = online(subtask_for(upstream, target, name, task=name, routes=(rule,)))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        for number in (1, 2):
            rows = ", ".join(f"({10 * row + number}, 0, 'x')" for row in range(5))
            upstream.execute(f"INSERT INTO {name}.shard_{number} VALUES {rows}")
        for number in (1, 2):
            change = OnlineChange("gh-ost", upstream, TableName(name, f"shard_{number}"), COLUMNS)
            change.all("ADD COLUMN a INT NOT NULL DEFAULT 5", "MODIFY w VARCHAR(50)")
            upstream.execute(f"INSERT INTO {name}.shard_{number} VALUES ({1000 + number}, 1, 'y', 2)")
            if number == 1:
                upstream.execute(f"INSERT INTO {name}.shard_2 (id, v) VALUES (2000, 3)")
        sync.wait_synced()
    assert target.query(f"SHOW TABLES FROM {name}") == (("merged",),)
    report = compare(pair_tables([upstream], [name], route=lambda _, table: TableName(name, "merged")), target)
    assert report.identical, str(report)


@pytest.mark.ci_flavor("mariadb")
def test_without_online_ddl_they_are_tables_like_any_other(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask, change = prepared("gh-ost", upstream, target, name)
    with running_sync(subtask.model_copy(update={"online_ddl": False})) as sync:
        change.create()
        change.alter("ADD COLUMN a DATETIME DEFAULT CURRENT_TIMESTAMP")
        change.copy()
        sync.wait_synced()
        assert {row[0] for row in target.query(f"SHOW TABLES FROM {name}")} == {"t", "_t_gho", "_t_ghc"}
        change.cut_over()
        sync.wait_synced()
    identical(upstream, target, name)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("read", [pytest.param("before", marks=pytest.mark.chaos), "after"])
def test_a_change_that_ends_while_the_table_is_dumped(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, read: str
) -> None:
    name = schema(upstream, target)
    upstream.execute(TABLE.format(s=name), f"INSERT INTO {name}.t VALUES (1, 1, 'one'), (2, 2, 'two')")
    change = OnlineChange("pt-osc", upstream, TableName(name, "t"), COLUMNS)
    if read == "after":
        change.create()  # nobody sees this, and nobody has to
        change.alter(*ALTERATIONS)
    dump = Dump(upstream, target, name)
    if read == "before":
        dump.load("t")
        change.create()
        change.alter(*ALTERATIONS)
    upstream.execute(f"UPDATE {name}.t SET v = v + 1")
    change.copy()
    upstream.execute(f"UPDATE {name}.t SET v = v + 1")
    change.cut_over()
    if read == "after":
        dump.load("t", dump.point())
    upstream.execute(f"UPDATE {name}.t SET a = a + 1")
    dump.finish()
    change.clean()
    upstream.execute(f"INSERT INTO {name}.t (v) VALUES (9)")
    with running_sync(online(subtask_for(upstream, target, name, task=name))) as sync:
        sync.wait_synced()
    identical(upstream, target, name)


@pytest.mark.ci_flavor("mariadb")
def test_a_new_table_under_the_name_of_one_that_was_moved_away_pauses(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask, _ = prepared("pt-osc", upstream, target, name)
    upstream.execute(
        f"RENAME TABLE {name}.t TO {name}._t_old",
        TABLE.format(s=name),
        f"INSERT INTO {name}.t VALUES (1, 10, 'new')",
    )
    sync = RunningSync(subtask, None)
    error = sync.wait_ended()
    sync.stop()
    assert getattr(error, "code", 0) == 36935
    target.execute(f"DROP TABLE {name}.t")
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
    assert target.query(f"SELECT * FROM {name}.t") == ((1, 10, "new"),)
    assert target.query(f"SELECT COUNT(*) FROM {subtask.meta_schema}.{name}_onlineddl") == ((0,),)
