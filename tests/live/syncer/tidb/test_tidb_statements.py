"""The statements that a TiDB gets: many rows each, and never a row event. It counts them itself."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.mysql.binlog.row_events import binlog_statement, format_description
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.tidb, pytest.mark.ci_flavor("mysql")]

ROWS = 600
NUMBERS = f"WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"


@dataclass(frozen=True)
class Executed:
    """Statements of one kind on one table."""

    kind: str
    count: int
    rows: float  # that all of them changed


def executed(tidb: TidbServer, table: str) -> dict[str, Executed]:
    """What the server has counted since its last forgetting."""
    found: dict[str, Executed] = {}
    for kind, count, rows in tidb.query(
        "SELECT stmt_type, SUM(exec_count), SUM(exec_count * avg_affected_rows)"
        " FROM information_schema.statements_summary WHERE table_names LIKE %s"
        " AND stmt_type IN ('Insert', 'Replace', 'Update', 'Delete') GROUP BY stmt_type",
        (f"%{table}%",),
    ):
        found[str(kind)] = Executed(str(kind), int(count), float(rows))
    return found


def counted_events(tidb: TidbServer) -> int:
    """How many BINLOG statements it has executed."""
    query = "SELECT SUM(exec_count) FROM information_schema.statements_summary WHERE digest_text LIKE %s"
    ((count,),) = tidb.query(query, ("binlog%",))
    return int(count or 0)


def forget(tidb: TidbServer) -> None:
    """Have the server count anew."""
    tidb.execute("SET GLOBAL tidb_enable_stmt_summary = OFF", "SET GLOBAL tidb_enable_stmt_summary = ON")


def test_rows_come_many_by_a_statement_and_never_as_events(
    upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, tidb)
    for server in (upstream, tidb):
        server.execute(
            f"CREATE TABLE {name}.keyed (id INT PRIMARY KEY, v INT)", f"CREATE TABLE {name}.keyless (a INT, b INT)"
        )
    subtask = subtask_for(upstream, tidb, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    forget(tidb)
    upstream.execute(
        f"INSERT INTO {name}.keyed {NUMBERS} SELECT i, i FROM n",
        f"INSERT INTO {name}.keyless {NUMBERS} SELECT i, i FROM n",
    )
    with running_sync(subtask) as sync:
        assert sync.wait_synced()["eventRows"] == 0
    for table in ("keyed", "keyless"):
        inserts = executed(tidb, f"{name}.{table}")["Insert"]
        assert inserts.rows == ROWS
        assert inserts.count * 20 <= ROWS, inserts
    forget(tidb)
    upstream.execute(f"UPDATE {name}.keyed SET v = v + 1", f"DELETE FROM {name}.keyed WHERE id > {ROWS // 2}")
    with running_sync(subtask) as sync:
        assert sync.wait_synced()["eventRows"] == 0
    changes = executed(tidb, f"{name}.keyed")
    assert sum(each.count for each in changes.values()) * 20 <= ROWS, changes
    assert counted_events(tidb) == 0
    tidb.execute(binlog_statement([format_description("8.0.11")]).decode())
    assert counted_events(tidb) == 1, "it takes them, and would be seen to"
    report = compare(pair_tables([upstream], [name]), tidb, structures=False)
    assert report.identical, str(report)
