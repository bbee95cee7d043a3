"""Rows that a source without strict modes holds: the target takes each exactly, or the task pauses."""

from __future__ import annotations

import pytest

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = pytest.mark.live

LAX = "SET SESSION sql_mode = ''"
TABLES = {
    "rounded": "id INT PRIMARY KEY, a FLOAT(10,0), b FLOAT(10,5) UNSIGNED, c DOUBLE(20,10), n INT",
    "computed": "id INT PRIMARY KEY, d DATE, t VARCHAR(1), late DATETIME AS (d + INTERVAL 1 MONTH) STORED,"
    " twice VARCHAR(1) AS (CONCAT(t, t)) VIRTUAL, KEY (twice)",
    "keyless": "a FLOAT(10,0), t VARCHAR(1), twice VARCHAR(1) AS (CONCAT(t, t)) STORED, n INT",
}
WRITES = [
    "INSERT INTO {}.rounded VALUES (1, 9999999999, 99999.99999, 9999999999.9999999999, 1), (2, 1e20, 1e20, 1e20, 1)",
    "INSERT INTO {}.rounded VALUES (3, -1e20, 0, -1e20, 1), (4, 5, 5, 5, 1)",
    "UPDATE {}.rounded SET n = n + 1, a = 1e20 WHERE id IN (2, 4)",
    "UPDATE {}.rounded SET id = 5 WHERE id = 3",
    "DELETE FROM {}.rounded WHERE id = 1",
    "INSERT INTO {}.computed (id, d, t) VALUES (1, '0000-00-00', 'x'), (2, '2024-01-02', ''), (3, '2024-00-00', 'y')",
    "UPDATE {}.computed SET t = 'z', d = '0000-00-00' WHERE id IN (1, 2)",
    "DELETE FROM {}.computed WHERE id = 3",
    "INSERT INTO {}.keyless (a, t, n) VALUES (1e20, 'x', 1), (1e20, 'x', 1), (3, 'x', 2), (1e20, '', 3)",
    "UPDATE {}.keyless SET a = -1e20 WHERE n = 2",
    "DELETE FROM {}.keyless WHERE n = 3",
]
REFUSED = [  # columns of the target, and a row
    # The number beside it passes, and the character would be lost.
    ("a FLOAT(10,0), t VARCHAR(9) CHARACTER SET latin1", "1e20, '漢'"),
    ("a TINYINT, t VARCHAR(9)", "1e20, 'x'"),
    ("a FLOAT(10,0), t VARCHAR(1)", "1, 'xy'"),
    ("a FLOAT(8,0), t VARCHAR(9)", "1e20, 'x'"),
]

# The error value of an ENUM: number 0, in columns of a key and beside them.
ENUMS = {
    "keyed": "id INT PRIMARY KEY, u INT, e ENUM('a','b'), f ENUM('x') NOT NULL, n INT, UNIQUE (u)",
    "keyless": "e ENUM('a','b'), n INT",
}
ENUM_WRITES = (
    "INSERT INTO {}.keyed VALUES (1, 10, 0, 0, 1), (2, 20, 'a', 'x', 2), (3, 30, '', 'x', 3), (4, 40, NULL, 0, 4)",
    "INSERT INTO {}.keyless VALUES (0, 1), (0, 1), ('b', 2), (NULL, 3)",
    "UPDATE {}.keyed SET n = 5 WHERE id = 1",
    "UPDATE {}.keyed SET e = 0 WHERE id = 2",
    "UPDATE {}.keyed SET e = 'b', f = 0 WHERE id = 3",
    "UPDATE {}.keyed SET id = 6, u = 60 WHERE id = 1",
    "DELETE FROM {}.keyed WHERE id = 4",
    "DELETE FROM {}.keyless WHERE n = 1 LIMIT 1",
    "UPDATE {}.keyless SET e = 0 WHERE n = 2",
)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("safe", [False, True])
def test_the_target_holds_exactly_what_the_source_holds(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, safe: bool
) -> None:
    name = schema(upstream, target)
    for table, columns in TABLES.items():
        for server in (upstream, target):
            server.execute(LAX, f"CREATE TABLE {name}.{table} ({columns}) DEFAULT CHARSET utf8mb4")
    subtask = subtask_for(upstream, target, name, task=name)
    subtask = subtask.model_copy(update={"syncer": subtask.syncer.model_copy(update={"safe_mode": safe})})
    with running_sync(subtask) as sync:
        sync.wait_synced()
        for write in WRITES:
            upstream.execute(LAX, write.format(name))
        sync.wait_synced()
    for table in TABLES:
        rows = f"SELECT * FROM {name}.{table} ORDER BY 1, 2, 3"
        assert target.query(rows) == upstream.query(rows)
    assert upstream.query(f"SELECT a, b > 99999.99999 FROM {name}.rounded WHERE id = 2") == ((1e10, 1),)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize(("columns", "row"), REFUSED)
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_a_value_that_does_not_fit_pauses_and_leaves_nothing(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, columns: str, row: str, key: str
) -> None:
    pauses_and_leaves_nothing(upstream, target, schema(upstream, target), f"id INT {key}", columns, row)


def pauses_and_leaves_nothing(
    source: ThrowawayServer,
    target: PrivateServer,
    name: str,
    key: str,
    columns: str,
    row: str,
    of: str = "DEFAULT CHARSET utf8mb4",
) -> None:
    """Some target has no place for the row."""
    source.execute(LAX, f"CREATE TABLE {name}.t ({key}, a FLOAT(10,0), t VARCHAR(9)) {of}")
    target.execute(LAX, f"CREATE TABLE {name}.t ({key}, {columns}) {of}")
    subtask = subtask_for(source, target, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    source.execute(LAX, f"INSERT INTO {name}.t VALUES (1, {row})")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert not error.retryable
    assert target.query(f"SELECT COUNT(*) FROM {name}.t") == ((0,),)


def test_the_error_value_of_an_enum_arrives_where_replace_is_not_allowed(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    enums_arrive(upstream, target, schema(upstream, target), ", own INT DEFAULT 7", safe=True)


def enums_arrive(upstream: ThrowawayServer, target: PrivateServer, name: str, own: str, *, safe: bool) -> None:
    """Follow rows with error values; `own`: a column that only the target has, which forbids REPLACE."""
    for table, columns in ENUMS.items():
        charset = "DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_bin"
        upstream.execute(f"CREATE TABLE {name}.{table} ({columns}) {charset}")
        target.execute(f"CREATE TABLE {name}.{table} ({columns}{own}) {charset}")
    subtask = subtask_for(upstream, target, name, task=name)
    subtask = subtask.model_copy(update={"syncer": subtask.syncer.model_copy(update={"safe_mode": safe})})
    with running_sync(subtask) as sync:
        sync.wait_synced()
        for write in ENUM_WRITES:
            upstream.execute(LAX, write.format(name))
        sync.wait_synced()
    for rows in ("id, u, e + 0, f + 0, n FROM {}.keyed", "e + 0, n FROM {}.keyless"):
        query = f"SELECT {rows.format(name)} ORDER BY 1, 2"
        assert target.query(query) == upstream.query(query)
