"""`python -m benchmarks.load_forms`: what the target takes for a row, by LOAD DATA and as its own events.

One session, nobody else, sysbench's rows in the order of their key, 10,000 to a transaction: the target's own CPU. The
events are those that the target itself wrote when the rows were inserted, up to a megabyte each, and come back in
BINLOG statements as mysqlbinlog makes them. Each way writes the same rows into the empty table, and into the binlog.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from benchmarks.measure import run_program, server_seconds
from benchmarks.recording import SCHEMA, TARGET_OPTIONS
from benchmarks.workload import WORKLOADS, Transaction, narrow_rows
from dm.demo.servers import ThrowawayServer

_ROWS = 50_000
_PART = 10_000
_OPTIONS = {**TARGET_OPTIONS, "local_infile": 1, "binlog_row_event_max_size": 1 << 20, "secure_file_priv": ""}
_TABLE = f"{SCHEMA}.t"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load_forms", description="what loading costs")
    parser.add_argument("--rows", type=int, default=_ROWS, help=f"how many (default {_ROWS})")
    given = parser.parse_args(arguments)
    print("| way | us of the target's CPU per row |\n|---|---|")
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
        ThrowawayServer("mysql", Path(directory) / "target", server_id=72, options=_OPTIONS) as target,
    ):
        target.execute(f"CREATE DATABASE {SCHEMA}")
        target.execute(WORKLOADS["B"].create.replace("{name}", _TABLE))
        for way, cost in _ways(target, narrow_rows(random.Random("load"), given.rows), Path(directory)):
            print(f"| {way} | {cost * 1e6 / given.rows:.1f} |", flush=True)
    return 0


def _ways(target: ThrowawayServer, rows: Iterator[Transaction], directory: Path) -> Iterator[tuple[str, float]]:
    target.execute("FLUSH BINARY LOGS")
    yield "INSERT", _timed(target, list(_transactions(_inserts(rows))))
    wanted = target.query(f"CHECKSUM TABLE {_TABLE}")
    events = list(_transactions(_binlog_statements(target)))
    files = list(_files(target, directory))
    for way, statements in (("LOAD DATA LOCAL", files), ("row events in BINLOG", events)):
        target.execute(f"TRUNCATE TABLE {_TABLE}")
        yield way, _timed(target, statements)
        if target.query(f"CHECKSUM TABLE {_TABLE}") != wanted:
            raise RuntimeError(f"{way}: the rows differ")


def _inserts(rows: Iterator[Transaction]) -> Iterator[str]:
    """Of as many rows as go into an event."""
    while part := [statement for (statement,) in islice(rows, 5)]:
        head = part[0].replace("{name}", _TABLE).partition(" VALUES ")[0]
        yield f"{head} VALUES {','.join(each.partition(' VALUES ')[2] for each in part)}"


def _binlog_statements(target: ThrowawayServer) -> Iterator[str]:
    """What mysqlbinlog makes of the target's last file, without its transactions."""
    file = target.query("SHOW BINARY LOG STATUS")[0][0]
    connect = (f"--host={target.host}", f"--port={target.port}", f"--user={target.user}")
    program = target.installation.command("mysqlbinlog")
    text = run_program(
        (*program, "--no-defaults", "--read-from-remote-server", "--skip-gtids", *connect, str(file)),
        environment={"MYSQL_PWD": target.password},
    ).output
    yield from re.findall(r"^BINLOG '\n[A-Za-z0-9+/=\n]*'", text, re.MULTILINE)


def _files(target: ThrowawayServer, directory: Path) -> Iterator[list[str]]:
    """The same rows in files, one for a transaction."""
    rows = target.query(f"SELECT COUNT(*), MIN(id), MAX(id) FROM {_TABLE}")[0]
    for number, low in enumerate(range(int(rows[1]), int(rows[2]) + 1, _PART)):
        path = directory / f"rows-{number}-{rows[0]}"
        where = f"WHERE id BETWEEN {low} AND {low + _PART - 1} ORDER BY id"
        target.execute(f"SELECT * INTO OUTFILE '{path}' CHARACTER SET utf8mb4 FROM {_TABLE} {where}")
        yield [f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE {_TABLE} CHARACTER SET utf8mb4"]


def _transactions(statements: Iterator[str]) -> Iterator[list[str]]:
    while part := list(islice(statements, 4)):
        yield part


def _timed(target: ThrowawayServer, transactions: Sequence[Sequence[str]]) -> float:
    with closing(target.connect(local_infile=True, autocommit=False)) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        before, first = server_seconds(target), transactions[0][0]
        for statements in transactions:
            for statement in statements:
                cursor.execute(statement)
                if statement == first and statement.startswith("BINLOG"):  # the format description
                    cursor.execute("SET SESSION gtid_next = 'AUTOMATIC'")
            connection.commit()
        return server_seconds(target) - before


if __name__ == "__main__":
    raise SystemExit(main())
