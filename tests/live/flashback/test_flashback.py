"""What a stretch of the relay has done is taken back by the statements that are written for it, and by nothing less."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest
from pymysql.cursors import Cursor

from dm.config.subtask import SubtaskConfig
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.progress.checkpoint import read_checkpoint, store_table
from dm.progress.tables import SubtaskKey
from dm.sourcelog.stream.until import Until
from dm.task.start_and_end import place_of_text
from dm.tools.errands import FlashbackRequest
from tests.live.flashback.scene import Scene
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.random_rows import RandomRows
from tests.testbed.random_table import Table, draw_table

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

TABLES = 4
TRANSACTIONS = 40


@pytest.fixture
def scene(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path) -> Scene:
    return Scene(upstream, target, schema(upstream), tmp_path)


@contextmanager
def session(server: PrivateServer, schema: str) -> Iterator[Cursor]:
    connection = server.connect(autocommit=True, database=schema)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = ''")
            yield cursor
    finally:
        connection.close()


def accepted(cursor: Cursor, statement: str) -> bool:
    try:
        cursor.execute(statement)
    except pymysql.err.Error:
        return False
    return True


def drawn_tables(cursor: Cursor, schema: str, flavor: Flavor, chance: random.Random, count: int) -> list[Table]:
    found: list[Table] = []
    while len(found) < count:
        table = draw_table(f"t{len(found)}", flavor, chance)
        if accepted(cursor, table.create(schema)):
            found.append(table)
    return found


def draw_changes(cursor: Cursor, rows: RandomRows, chance: random.Random, count: int) -> None:
    for _ in range(count):
        cursor.execute("BEGIN")
        for statement in rows.transaction():
            accepted(cursor, statement)
        cursor.execute(chance.choice(("COMMIT",) * 9 + ("ROLLBACK",)))


def drawn_stretch_is_taken_back(scene: Scene, flavor: Flavor, seed: int, transactions: int, tables: int) -> None:
    chance = random.Random(seed)
    with session(scene.upstream, scene.name) as cursor:
        with scene.following():
            drawn = drawn_tables(cursor, scene.name, flavor, chance, tables)
            rows = RandomRows(scene.name, drawn, chance)
            draw_changes(cursor, rows, chance, transactions // 2)
        before, begin = scene.sums(), scene.place
        with scene.following():
            draw_changes(cursor, rows, chance, transactions)
    assert scene.sums() != before
    report, statements = scene.take_back(begin)
    assert report.statements.total() == statements.count(b";\n") - 2 - 2 * report.transactions
    scene.execute(statements)
    after = scene.sums()
    assert {name: total for name, total in after.items() if total != before[name]} == {}, f"seed {seed}"


def test_drawn_changes_are_taken_back(scene: Scene, flavor: Flavor) -> None:
    drawn_stretch_is_taken_back(scene, flavor, 2306, TRANSACTIONS, TABLES)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(12))
def test_many_drawn_changes_are_taken_back(scene: Scene, flavor: Flavor, seed: int) -> None:
    drawn_stretch_is_taken_back(scene, flavor, seed, 300, 12)


def test_a_file_that_is_there_is_not_written_over(scene: Scene) -> None:
    with session(scene.upstream, scene.name) as cursor, scene.following():
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        begin = scene.place
        cursor.execute("INSERT INTO t VALUES (1)")
    directory = scene.directory / "sql"
    file = directory / f"flashback.{scene.subtask.source_id}.sql"
    request = FlashbackRequest(begin, directory=str(directory))
    scene.flashback(request).run(threading.Event())
    written = file.read_bytes()
    assert b"DELETE FROM" in written
    assert file.stat().st_mode & 0o077 == 0

    asked: list[str] = []

    def place(subtask: SubtaskConfig, text: str) -> Until:
        asked.append(text)
        file.write_bytes(b"of another run")  # which has ended while this one reads
        return place_of_text(subtask, text)

    with pytest.raises(DMError) as raised:
        scene.flashback(request, place).run(threading.Event())
    assert (raised.value.name, asked, file.read_bytes()) == ("flashback-file-there", [], written)
    file.unlink()
    with pytest.raises(DMError) as raised:
        scene.flashback(request, place).run(threading.Event())
    assert (raised.value.name, file.read_bytes()) == ("flashback-file-there", b"of another run")
    assert [path.name for path in directory.iterdir()] == [file.name]


def refused(scene: Scene, begin: str, end: str = "", *tables: str) -> DMError:
    with pytest.raises(DMError) as raised:
        scene.take_back(begin, end, *tables)
    return raised.value


def gtids(server: ThrowawayServer) -> str:
    variable = "gtid_executed" if server.flavor == "mysql" else "gtid_binlog_pos"
    return str(server.query(f"SELECT @@GLOBAL.{variable}")[0][0])


@pytest.mark.ci_flavor("mysql")
def test_stretches_meet_and_what_stands_in_the_way_is_said(scene: Scene, flavor: Flavor) -> None:
    k, keyless = f"{scene.there}.k", f"{scene.there}.l"
    with session(scene.upstream, scene.name) as cursor, scene.following():
        for statement in (
            "CREATE TABLE k (id INT PRIMARY KEY, v VARCHAR(40), j JSON, g INT AS (id + 1) STORED, u INT UNIQUE)",
            "CREATE TABLE l (v INT)",
            "INSERT INTO k (id, v, j, u) VALUES (1, 'one', '{\"a\": [1, 2]}', 1), (2, 'two', NULL, 2), (3, '', '3', 3)",
            "INSERT INTO l VALUES (1), (1), (2)",
        ):
            cursor.execute(statement)
        first, first_gtids = scene.place, gtids(scene.upstream)
        if flavor == "mysql":
            cursor.execute("SET SESSION binlog_row_value_options = PARTIAL_JSON")
        cursor.execute("BEGIN")
        cursor.execute("UPDATE k SET u = NULL WHERE id = 1")
        cursor.execute("UPDATE k SET u = 1, id = 20 WHERE id = 2")
        cursor.execute("UPDATE k SET u = 2, j = JSON_SET(j, '$.a[1]', 'x') WHERE id = 1")
        cursor.execute("COMMIT")
        cursor.execute("ALTER TABLE k ADD INDEX by_v (v)")
        cursor.execute("DELETE FROM k WHERE id = 3")
        cursor.execute("INSERT INTO l VALUES (1)")
        middle = scene.place
        cursor.execute("INSERT INTO k (id, v) VALUES (4, '; \\n-- it''s \\\\')")
        cursor.execute("UPDATE k SET v = 'later' WHERE id = 20")
        cursor.execute("UPDATE l SET v = 7 WHERE v = 1 LIMIT 2")
        last = scene.place
        cursor.execute("ALTER TABLE l ADD COLUMN w INT")
        cursor.execute("SET SESSION binlog_row_image = MINIMAL")
        cursor.execute("UPDATE k SET v = 'minimal' WHERE id = 1")
        cursor.execute("INSERT INTO l VALUES (9, 9)")
    blocked = refused(scene, first)
    assert (blocked.name, blocked.message.count("ALTER TABLE l ADD COLUMN w INT")) == ("flashback-ddl", 1)
    assert f"{scene.name}.l" in blocked.message
    assert f"{scene.name}.k" not in blocked.message
    assert refused(scene, first, last).name == "flashback-ddl", (
        "it lies after the stretch, and before the target's state"
    )
    assert refused(scene, last, "", k).name == "flashback-partial-image"
    file, _, offset = last.partition(":")
    assert refused(scene, first, f"{file}:{int(offset) + 100_000}", k).name == "flashback-ahead"

    scene.target.execute(f"UPDATE {k} SET v = 'one' WHERE id = 1")  # by hand
    newer, statements = scene.take_back(middle, last, k)
    assert (newer.transactions, dict(newer.statements), newer.ddl) == (2, {k: 2}, [])
    scene.execute(statements.replace(b"; \n-- it", b"; \\n-- it"))
    older, statements = scene.take_back(first, middle, k)
    assert (older.transactions, dict(older.statements)) == (2, {k: 4})
    assert [each.text for each in older.ddl] == ["ALTER TABLE k ADD INDEX by_v (v)"]
    assert b"ADD INDEX by_v" in statements
    scene.execute(statements)
    rows = scene.target.query(f"SELECT id, v, JSON_EXTRACT(j, '$.a[1]'), g, u FROM {k} ORDER BY id")
    assert [tuple(row) for row in rows] == [(1, "one", "2", 2, 1), (2, "two", None, 3, 2), (3, "", None, 4, 3)]
    by_gtids, others = scene.take_back(first_gtids, middle, k)
    assert (by_gtids.transactions, others.split(b"START", 1)[1]) == (2, statements.split(b"START", 1)[1])
    report, _ = scene.take_back(last, "", keyless)
    assert (dict(report.statements), report.file != "") == ({keyless: 1}, True)


@pytest.mark.ci_flavor("mariadb")
def test_a_table_that_is_ahead_of_the_checkpoint_is_refused(scene: Scene) -> None:
    """A later state of its rows would be overwritten, and the file's head would be wrong."""
    key = SubtaskKey(scene.subtask.meta_schema, scene.subtask.task, scene.subtask.source_id)
    with session(scene.upstream, scene.name) as cursor:
        with scene.following():
            cursor.execute("CREATE TABLE k (id INT PRIMARY KEY)")
            cursor.execute("CREATE TABLE l (id INT PRIMARY KEY)")
        begin = scene.place
        with scene.following():
            cursor.execute("INSERT INTO k VALUES (1)")
            cursor.execute("INSERT INTO l VALUES (1)")

    def put(further: int) -> None:
        """Say that a table is so far, as a replay does."""
        with closing(TargetConnection(scene.subtask.target)) as connection:
            found = read_checkpoint(connection, key)
            assert found is not None
            own = replace(found.position, offset=found.position.offset + further)
            table = TableName(scene.name, "k")
            store_table(connection, key, table, replace(found.tables[table], point=own))

    put(100)
    ahead = refused(scene, begin)
    assert (ahead.name, str(ahead.details["table"])) == ("flashback-table-ahead", f"{scene.name}.k")
    others, _ = scene.take_back(begin, "", f"{scene.there}.l")
    assert dict(others.statements) == {f"{scene.there}.l": 1}
    put(0)
    both, _ = scene.take_back(begin)
    assert both.statements.total() == 2
