"""What an error tells a person to do, done: the task goes on, and the rows are the source's."""

from __future__ import annotations

from contextlib import closing

import pytest

from dm.config.rules import BlockAllowList, RouteRule, TablePattern
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.syncer.operators import Request
from dm.task.binlog_verbs import StructureRequest, change_structure, operate_on_event
from tests.live.changes.tables import endpoint_of
from tests.live.syncer.errors.test_operators import place
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live


def pauses(subtask: SubtaskConfig, name: str) -> DMError:
    """The error that ends the run."""
    with running_sync(subtask) as sync:
        error = sync.wait_ended()
        sync.error = None
    assert isinstance(error, DMError)
    assert error.name == name, error
    return error


def goes_on(subtask: SubtaskConfig) -> None:
    with running_sync(subtask) as sync:
        sync.wait_synced()


def replace(subtask: SubtaskConfig, at: str, statement: str) -> None:
    operate_on_event(subtask, Request("replace", subtask.task, subtask.source_id, at, (statement,)), None)


def identical(upstream: ThrowawayServer, target: ThrowawayServer, name: str) -> None:
    report = compare(pair_tables([upstream], [name]), target, structures=False)
    assert report.identical, str(report)


@pytest.mark.ci_flavor("mysql")
def test_a_statement_in_a_character_set_without_a_codec(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask = subtask_for(upstream, target, name, task=name)
    goes_on(subtask)
    at = place(upstream)
    with closing(upstream.connect(database=name)) as session:
        session.query("SET NAMES dec8")
        session.query(b"CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) DEFAULT '\xe9')")
        session.query(b"INSERT INTO t VALUES (1, DEFAULT)")
    error = pauses(subtask, "statement-undecodable")
    assert "dmctl binlog replace" in error.workaround
    replace(subtask, at, f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a VARCHAR(9) DEFAULT 'é')")
    goes_on(subtask)
    identical(upstream, target, name)


ROWS_REFUSED = {
    "a value": (
        "row-value-refused", "v INT", "v VARCHAR(3)", "INSERT INTO {}.t VALUES (2, 12345)",
        "ALTER TABLE {}.t MODIFY v INT",
    ),
    "NULL": (
        "row-value-refused", "v INT", "v INT NOT NULL", "INSERT INTO {}.t VALUES (2, NULL)",
        "ALTER TABLE {}.t MODIFY v INT NULL",
    ),
    "a partition": (
        "row-partition-missing", "v INT", "v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (2)",
        "INSERT INTO {}.t VALUES (2, 2)", "ALTER TABLE {}.t ADD PARTITION (PARTITION p1 VALUES LESS THAN MAXVALUE)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ROWS_REFUSED)
@pytest.mark.ci_flavor("mysql")
def test_a_row_that_the_targets_table_does_not_take(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, kind: str
) -> None:
    refused, at_source, at_target, row, mended = ROWS_REFUSED[kind]
    name = schema(upstream, target)
    for server, columns in ((upstream, at_source), (target, at_target)):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, {columns})")
    subtask = subtask_for(upstream, target, name, task=name)
    goes_on(subtask)
    upstream.execute(f"INSERT INTO {name}.t VALUES (1, 1)", row.format(name))
    error = pauses(subtask, refused)
    assert ("ADD PARTITION" if kind == "a partition" else "ALTER TABLE") in error.workaround
    target.execute(mended.format(name))
    goes_on(subtask)
    identical(upstream, target, name)


def test_a_row_whose_parent_is_no_table_of_the_task(
    mariadb: ThrowawayServer, park: ServerPark, schema: SchemaFactory
) -> None:
    target = park.shared("mariadb", "target")
    name = schema(mariadb, target)
    for each in (mariadb, target):
        each.execute(
            f"CREATE TABLE {name}.parent (id INT PRIMARY KEY)",
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, parent INT REFERENCES {name}.parent (id))",
        )
    plain = subtask_for(mariadb, target, name, task=name)
    plain = plain.model_copy(
        update={"block_allow_list": BlockAllowList(do_tables=(TablePattern(db_name=name, tbl_name="t"),))}
    )
    checked = endpoint_of(target, foreign_key_checks="1")
    checking = plain.model_copy(update={"target": checked, "foreign_key_checks": True})
    goes_on(checking)
    mariadb.execute(f"INSERT INTO {name}.parent VALUES (1)", f"INSERT INTO {name}.t VALUES (1, 1)")
    error = pauses(checking, "row-reference-refused")
    assert "leave `foreign_key_checks` out of the session" in error.workaround
    goes_on(plain)
    assert target.query(f"SELECT * FROM {name}.t") == ((1, 1),)


@pytest.mark.parametrize("where", ["at once", "after rows"])
def test_a_character_set_that_the_target_lacks(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory, where: str
) -> None:
    name = schema(mysql, mariadb)
    for server in (mysql, mariadb):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET gbk)")
    subtask = subtask_for(mysql, mariadb, name, task=name)
    goes_on(subtask)
    if where == "after rows":
        mysql.execute(f"INSERT INTO {name}.t VALUES (1, '中')")
        goes_on(subtask)
    at = place(mysql)
    mysql.execute(
        f"ALTER TABLE {name}.t MODIFY a VARCHAR(9) CHARACTER SET gb18030", f"INSERT INTO {name}.t VALUES (2, '文😀')"
    )
    error = pauses(subtask, "ddl-collation-unknown")
    assert "dmctl binlog replace" in error.workaround
    assert "gb18030" in (error.cause or "")
    replace(subtask, at, f"ALTER TABLE {name}.t MODIFY a VARCHAR(9) CHARACTER SET utf8mb4")
    goes_on(subtask)
    rows = f"SELECT id, a FROM {name}.t ORDER BY id"
    assert mariadb.query(rows) == mysql.query(rows)


def test_a_structure_that_rows_contradict_since_it_is_like_a_temporary_one(
    mysql: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(mysql)
    other = schema(mysql)
    subtask = subtask_for(mysql, mysql, name, task=name, routes=(RouteRule(schema_pattern=name, target_schema=other),))
    goes_on(subtask)
    with mysql.connect(database=name) as session, session.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE tmp (id INT PRIMARY KEY, a TEXT) CHARACTER SET latin1")
        cursor.execute("CREATE TABLE t LIKE tmp")
        cursor.execute("INSERT INTO t VALUES (1, 'é')")
        cursor.execute("RENAME TABLE t TO u")
    error = pauses(subtask, "structure-mismatch")
    assert "LIKE a temporary table" in error.workaround
    text = "CREATE TABLE t (id INT PRIMARY KEY, a TEXT) CHARACTER SET latin1"
    change_structure(subtask, StructureRequest("update", TableName(name, "t"), text=text))
    mysql.execute(f"ALTER TABLE {other}.t CONVERT TO CHARACTER SET latin1")
    goes_on(subtask)
    assert mysql.query(f"SELECT a FROM {other}.u") == (("é",),)


@pytest.mark.ci_flavor("mysql")
def test_values_that_each_server_would_choose_for_itself(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (v VARCHAR(9))")
    subtask = subtask_for(upstream, target, name, task=name)
    goes_on(subtask)
    with closing(upstream.connect(autocommit=False)) as slow:
        slow.query(f"INSERT INTO {name}.t VALUES ('a')")
        upstream.execute(f"INSERT INTO {name}.t VALUES ('b')")
        slow.commit()  # after the second in the binlog, before it in the table
    goes_on(subtask)
    at, statement = place(upstream), f"ALTER TABLE {name}.t ADD COLUMN n INT AUTO_INCREMENT PRIMARY KEY"
    upstream.execute(statement, f"INSERT INTO {name}.t (v) VALUES ('c')")
    error = pauses(subtask, "ddl-values-differ")
    assert "`dmctl binlog replace` with the same statement" in error.workaround
    replace(subtask, at, statement)
    goes_on(subtask)
    assert sorted(target.query(f"SELECT v FROM {name}.t")) == [("a",), ("b",), ("c",)]


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("way", ["DELETE", "insert-mode"])
def test_a_key_that_somebody_else_has_taken(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, way: str
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, u INT UNIQUE)")
    subtask = subtask_for(upstream, target, name, task=name)
    goes_on(subtask)
    target.execute(f"INSERT INTO {name}.t VALUES (7, 1)")
    upstream.execute(f"INSERT INTO {name}.t VALUES (1, 1), (2, 2)")
    error = pauses(subtask, "duplicate-key")
    assert "Delete a row that another writer left, then `dmctl resume-task`" in error.workaround
    assert "or `insert-mode: replace` in `syncers`" in error.workaround
    if way == "DELETE":
        target.execute(f"DELETE FROM {name}.t WHERE id = 7")
    else:
        syncer = subtask.syncer.model_copy(update={"insert_mode": "replace"})
        subtask = subtask.model_copy(update={"syncer": syncer})
    goes_on(subtask)
    identical(upstream, target, name)


@pytest.mark.ci_flavor("mysql")
def test_a_statement_that_the_tracked_structure_does_not_allow(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a INT, b INT)")
    subtask = subtask_for(upstream, target, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.t VALUES (1, 2, 3)")
        sync.wait_synced()
    table = TableName(name, "t")
    change_structure(
        subtask, StructureRequest("update", table, text="CREATE TABLE t (id INT PRIMARY KEY, a INT, c INT)")
    )
    upstream.execute(f"ALTER TABLE {name}.t MODIFY b BIGINT", f"INSERT INTO {name}.t VALUES (2, 3, 4)")
    error = pauses(subtask, "ddl-untrackable")
    assert str(error).count("there is no column b") == 1
    change_structure(
        subtask, StructureRequest("update", table, text="CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    )
    goes_on(subtask)
    identical(upstream, target, name)
