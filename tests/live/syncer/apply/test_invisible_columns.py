"""Columns that `SELECT *` does not show are followed, compared and validated, between servers of all kinds."""

from __future__ import annotations

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.testbed.diffing import compared
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.shared_dialect import Kind
from tests.testbed.sync import RunningSync, running_sync, subtask_for
from tests.testbed.validation import errors_of, running_validator, validated

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

PAIRS = [
    pytest.param("mysql", "mysql"),
    pytest.param("mariadb", "mariadb"),
    pytest.param("mysql", "mariadb"),
    pytest.param("mariadb", "mysql"),
    pytest.param("mysql", "tidb", marks=pytest.mark.tidb),
    pytest.param("mariadb", "tidb", marks=pytest.mark.tidb),
]
# A hidden column with a default, one that is computed, one that is the key, and one in a table without a key.
STATEMENTS = (
    "CREATE TABLE t (id INT PRIMARY KEY, h INT INVISIBLE DEFAULT 5, v VARCHAR(9), g INT AS (id + 1) STORED INVISIBLE)",
    "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "INSERT INTO t (id, h, v) VALUES (3, 30, 'c'), (4, NULL, 'd')",
    "UPDATE t SET h = 6 WHERE id = 1",
    "DELETE FROM t WHERE h = 30",
    "CREATE TABLE k (h INT NOT NULL DEFAULT 0 INVISIBLE, v INT, PRIMARY KEY (h))",
    "INSERT INTO k (h, v) VALUES (1, 1), (2, 2), (3, 3)",
    "UPDATE k SET h = 9 WHERE v = 2",
    "DELETE FROM k WHERE h = 3",
    "CREATE TABLE keyless (a INT, h INT INVISIBLE)",
    "INSERT INTO keyless (a, h) VALUES (1, 1), (1, 2), (1, 2), (1, NULL)",
    "DELETE FROM keyless WHERE h = 2 LIMIT 1",
    "UPDATE keyless SET a = 2 WHERE h IS NULL",
    "ALTER TABLE t ADD COLUMN late INT NOT NULL DEFAULT 3 INVISIBLE AFTER id, ADD COLUMN w INT",
    "INSERT INTO t (id, late, v, w) VALUES (5, 50, 'e', 5)",
    "ALTER TABLE t MODIFY h BIGINT DEFAULT 5",  # which is shown from here on
    "INSERT INTO t VALUES (6, 60, 'f', 6)",
    "ALTER TABLE t MODIFY w INT INVISIBLE, CHANGE late later INT NOT NULL DEFAULT 3 INVISIBLE",
    "INSERT INTO t VALUES (7, 70, 'g')",
    "CREATE TABLE copy LIKE t",
    "INSERT INTO copy (id, later, h, v, w) SELECT id, later, h, v, w FROM t",
    "UPDATE copy SET w = -1 WHERE w IS NULL",
    "ALTER TABLE t DROP COLUMN later",
)
HIDING_AN_INDEX = {
    "mysql": ("ALTER TABLE t ADD KEY by_v (v) INVISIBLE, ADD KEY by_h (h)", "ALTER TABLE t ALTER INDEX by_h INVISIBLE"),
    "mariadb": ("ALTER TABLE t ADD KEY by_v (v) IGNORED, ADD KEY by_h (h)", "ALTER TABLE t ALTER INDEX by_h IGNORED"),
}
HIDDEN_INDEXES = {
    "mysql": "SELECT index_name FROM information_schema.statistics WHERE table_schema = %s AND is_visible = 'NO'",
    "mariadb": "SELECT index_name FROM information_schema.statistics WHERE table_schema = %s AND ignored = 'YES'",
}
HIDDEN_COLUMNS = (
    "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_schema = %s AND extra LIKE '%%INVISIBLE%%'"
)
# What only MySQL has: another visibility without a definition, and keys that it makes by itself.
OF_MYSQL = (
    "SET SESSION sql_generate_invisible_primary_key = ON",
    "CREATE TABLE gipk (a INT)",
    "SET SESSION sql_generate_invisible_primary_key = OFF",
    "INSERT INTO gipk VALUES (7), (7), (8)",
    "DELETE FROM gipk WHERE a = 7 LIMIT 1",
    "UPDATE gipk SET a = 9 WHERE a = 8",
)
SHOWING = (
    "ALTER TABLE t ALTER COLUMN w SET VISIBLE, ALTER COLUMN h SET INVISIBLE",
    "INSERT INTO t VALUES (8, 'h', 80)",
    "ALTER TABLE t ADD COLUMN x INT VISIBLE",
    "ALTER TABLE t ALTER COLUMN x SET INVISIBLE, ALTER COLUMN v SET DEFAULT 'd'",
    "ALTER TABLE t ALTER COLUMN h SET VISIBLE",
    "INSERT INTO t (id, x) VALUES (9, 9)",
)


def servers(
    park: ServerPark, schema: SchemaFactory, source: Flavor, kind: Kind
) -> tuple[ThrowawayServer, PrivateServer, str]:
    """A source, a target, and a schema on both with one collation."""
    upstream = park.shared(source, "upstream-1")
    target: PrivateServer = park.tidb() if kind == "tidb" else park.shared(kind, "target")
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    return upstream, target, name


@pytest.mark.parametrize(("source", "kind"), PAIRS)
def test_hidden_columns_are_followed(park: ServerPark, schema: SchemaFactory, source: Flavor, kind: Kind) -> None:
    upstream, target, name = servers(park, schema, source, kind)
    statements = [*STATEMENTS, *HIDING_AN_INDEX[source]]
    if source == "mysql":
        statements += OF_MYSQL if kind == "mariadb" else (*OF_MYSQL, *SHOWING)
    subtask = subtask_for(upstream, target, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"USE {name}", *statements)
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)
    assert all(chunk.equal for chunk in compared(subtask))
    hidden = set(upstream.query(HIDDEN_COLUMNS, (name,)))
    assert {("k", "h"), ("t", "g"), ("copy", "later")} < hidden
    assert set(target.query(HIDDEN_COLUMNS, (name,))) == (set() if kind == "tidb" else hidden)
    for server in (upstream, target):
        assert {index for (index,) in server.query(HIDDEN_INDEXES[server.flavor], (name,))} == {"by_v", "by_h"}


@pytest.mark.parametrize("operation", ["ALTER COLUMN v SET INVISIBLE", "ADD COLUMN h INT NOT NULL INVISIBLE"])
def test_what_mariadb_does_not_hide_pauses(park: ServerPark, schema: SchemaFactory, operation: str) -> None:
    upstream, target, name = servers(park, schema, "mysql", "mariadb")
    sync = RunningSync(subtask_for(upstream, target, name, task=name), None)
    sync.wait_synced()
    upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)", f"ALTER TABLE {name}.t {operation}")
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError), error
    assert error.name == "ddl-failed", error


@pytest.mark.parametrize(("source", "kind"), [PAIRS[0], PAIRS[1], PAIRS[4]])
def test_a_spoiled_value_of_a_hidden_column_is_found(
    park: ServerPark, schema: SchemaFactory, source: Flavor, kind: Kind
) -> None:
    upstream, target, name = servers(park, schema, source, kind)
    subtask = validated(subtask_for(upstream, target, name, task=name))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, h INT INVISIBLE DEFAULT 5, v INT)")
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
        upstream.execute(f"INSERT INTO {name}.t VALUES (1, 1), (2, 2), (3, 3)")
        sync.wait_synced()
        target.execute(f"UPDATE {name}.t SET h = 6 WHERE id = 2", f"DELETE FROM {name}.t WHERE id = 3")
        with running_validator(subtask) as validator:
            validator.wait("3/0/0")
    (chunk,) = compared(subtask)
    assert [each.key for each in chunk.differences] == ["id=2", "id=3"]
    found = {each.row.message: each.row.fix for each in errors_of(subtask)}
    assert "id=2: h: 5 at the source, 6 at the target" in found, found
    target.execute(*found.values())
    rows = f"SELECT id, h, v FROM {name}.t ORDER BY id"
    assert target.query(rows) == upstream.query(rows)
