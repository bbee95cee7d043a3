"""`python -m benchmarks.keyless_scan`: what one UPDATE of all rows of a table without a key costs, as the table grows.

A server that scans the table for each row takes four times as long for twice the rows. Ways to a server of the same
family, one after the other: dm as it is, which at a MariaDB finds the rows together where the table has no index; dm
with each row found by itself, by row events and by SQL; and a replica. Each with the table as it is at the source, and
with an ordinary index of a selective column that only the server which is written to has. What is told is seconds from
before the UPDATE at the source until it is committed there, and that server's CPU.
"""

from __future__ import annotations

import argparse
import itertools
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from benchmarks.measure import server_seconds
from benchmarks.workload import narrow_rows
from dm.changes import row_bag
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.testbed.sync import running_sync, subtask_for

_NUMBERS = itertools.count(1)  # each run is a task of its own
_ROWS = (1_000, 2_000, 4_000)
_SECONDS = 900
_AS_IT_IS = "dm"
_REPLICA = "replica"
_ONE_BY_ONE = {"dm, each row by itself, row events": "auto", "dm, each row by itself, SQL": "sql"}
_WAYS = (_AS_IT_IS, *_ONE_BY_ONE, _REPLICA)
_NEVER = 1 << 30
_TABLE = "CREATE TABLE {} (id INT NOT NULL, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)"
_REPLICATED = "scan_replica"
_STATUS: dict[Flavor, str] = {"mysql": "SHOW BINARY LOG STATUS", "mariadb": "SHOW MASTER STATUS"}
_FOLLOW: dict[Flavor, str] = {
    "mysql": "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{}', SOURCE_PORT = {}, SOURCE_USER = '{}',"
    " SOURCE_PASSWORD = '{}', SOURCE_LOG_FILE = '{}', SOURCE_LOG_POS = {}, GET_SOURCE_PUBLIC_KEY = 1",
    "mariadb": "CHANGE MASTER TO MASTER_HOST = '{}', MASTER_PORT = {}, MASTER_USER = '{}', MASTER_PASSWORD = '{}',"
    " MASTER_LOG_FILE = '{}', MASTER_LOG_POS = {}",
}
_WAIT: dict[Flavor, str] = {"mysql": "SOURCE_POS_WAIT", "mariadb": "MASTER_POS_WAIT"}

Wait = Callable[[], object]
"""Returns when all is committed that the source has."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keyless_scan", description="rows without a key")
    parser.add_argument("--rows", type=int, action="append", help=f"rows of the table (default {_ROWS})")
    flavors: tuple[Flavor, ...] = ("mysql", "mariadb")
    parser.add_argument("--flavor", choices=flavors, action="append", help="only these servers")
    parser.add_argument("--way", choices=_WAYS, action="append", help="only these ways")
    parser.add_argument("--without-index", action="store_true", help="only the table as it is at the source")
    given = parser.parse_args(arguments)
    print("| server | index | way | rows | seconds | CPU seconds of the server |\n|---|---|---|---|---|---|")
    for flavor in given.flavor or flavors:
        with (
            tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
            ThrowawayServer(flavor, Path(directory) / "source", server_id=71) as source,
            ThrowawayServer(flavor, Path(directory) / "target", server_id=72) as target,
            ThrowawayServer(
                flavor,
                Path(directory) / "replica",
                server_id=73,
                options={"replicate_wild_do_table": f"{_REPLICATED}.%"},
            ) as replica,
        ):
            _follow(source, replica)
            for index in (False,) if given.without_index else (False, True):
                for way in given.way or _WAYS:
                    there = replica if way == _REPLICA else target
                    for rows in given.rows or _ROWS:
                        seconds, cost = _measured(source, there, way, rows, index=index)
                        kept = "KEY (id)" if index else "none"
                        print(f"| {flavor} | {kept} | {way} | {rows:,} | {seconds:.2f} | {cost:.2f} |", flush=True)
    return 0


def _follow(source: ThrowawayServer, replica: ThrowawayServer) -> None:
    file, at = source.query(_STATUS[source.flavor])[0][:2]
    how = _FOLLOW[source.flavor].format(source.host, source.port, source.user, source.password, file, at)
    replica.execute(how, "START REPLICA")


def _measured(
    source: ThrowawayServer, there: ThrowawayServer, way: str, rows: int, *, index: bool
) -> tuple[float, float]:
    row_format = _ONE_BY_ONE.get(way, "auto")
    schema = _REPLICATED if way == _REPLICA else f"scan_{row_format}"
    table = f"{schema}.t"
    source.execute(f"DROP DATABASE IF EXISTS {schema}", f"CREATE DATABASE {schema}", _TABLE.format(table))
    source.execute(*(statement.replace("{name}", table) for (statement,) in narrow_rows(random.Random(rows), rows)))
    with ExitStack() as stack:
        if way != _REPLICA:
            _copy(source, there, schema)
            wait: Wait = stack.enter_context(_synced(source, there, schema, way, index=index))
        else:
            wait = _replicated(source, there)
            wait()
            if index:
                _index(there, table)
        before, began = server_seconds(there), time.monotonic()
        source.execute(f"UPDATE {table} SET k = k + 1")
        wait()
        seconds, cost = time.monotonic() - began, server_seconds(there) - before
    one, other = (server.query(f"SELECT COUNT(*), SUM(k), SUM(id * k) FROM {table}") for server in (source, there))
    if one != other:
        raise RuntimeError(f"{way}: the rows differ")
    return seconds, cost


def _copy(source: ThrowawayServer, target: ThrowawayServer, schema: str) -> None:
    """The rows as they are at the source."""
    target.execute(
        f"DROP DATABASE IF EXISTS {schema}",
        f"CREATE DATABASE {schema}",
        _TABLE.format(f"{schema}.t"),
    )
    rows = source.query(f"SELECT id, k, c, pad FROM {schema}.t")
    for low in range(0, len(rows), 500):
        values = ",".join(f"({number},{k},'{c}','{pad}')" for number, k, c, pad in rows[low : low + 500])
        target.execute(f"INSERT INTO {schema}.t VALUES {values}")


@contextmanager
def _synced(source: ThrowawayServer, target: ThrowawayServer, schema: str, way: str, *, index: bool) -> Iterator[Wait]:
    """A task that has begun, and waits for changes."""
    row_format = _ONE_BY_ONE.get(way, "auto")
    together = way == _AS_IT_IS and target.flavor == "mariadb" and not index
    if index:
        _index(target, f"{schema}.t")
    task = f"{schema}_{next(_NUMBERS)}"
    least = row_bag.MIN_SEARCHED
    row_bag.MIN_SEARCHED = least if way == _AS_IT_IS else _NEVER  # type: ignore[misc]  # as no setting can say
    try:
        with running_sync(subtask_for(source, target, schema, task=task, row_format=row_format)) as sync:
            sync.wait_synced()

            def wait() -> None:
                status = sync.wait_synced(_SECONDS)
                counts = status["hashRows"], status["eventRows"]
                if [bool(count) for count in counts] != [together, row_format == "auto" and not together]:
                    raise RuntimeError(f"{way}: {counts} rows were found together, and went as events")

            yield wait
    finally:
        row_bag.MIN_SEARCHED = least  # type: ignore[misc]


def _index(server: ThrowawayServer, table: str) -> None:
    """In no binlog: a replica's own statement would take a GTID that the source is to give."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute(f"ALTER TABLE {table} ADD KEY (id)")


def _replicated(source: ThrowawayServer, replica: ThrowawayServer) -> Wait:
    def wait() -> None:
        file, at = source.query(_STATUS[source.flavor])[0][:2]
        found = replica.query(f"SELECT {_WAIT[source.flavor]}('{file}', {at}, {_SECONDS})")[0][0]
        if found is None or found < 0:
            raise RuntimeError(f"the replica did not catch up: {replica.query('SHOW REPLICA STATUS')}")

    return wait


if __name__ == "__main__":
    raise SystemExit(main())
