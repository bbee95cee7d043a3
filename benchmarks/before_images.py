"""`python -m benchmarks.before_images`: what a before image of key columns alone would save the target.

dm sends the source's images as they are, with all columns. A server finds the row by its key, and is content with the
key's columns. Here a server writes both forms itself (`binlog_row_image`), for UPDATEs that set every column but the
key and for DELETEs; each form comes back in BINLOG statements as mysqlbinlog makes them, one session, nobody else,
500 rows to a transaction. What is told is the length of the events and the target's own CPU, for a row.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.measure import run_program, server_seconds
from benchmarks.recording import SCHEMA
from benchmarks.workload import WORKLOADS, narrow_rows, wide_rows
from dm.demo.servers import Option, ThrowawayServer
from dm.mysql.dialect import Flavor

_ROWS = 20_000
_PART = 500
_OPTIONS: dict[str, Option] = {
    "innodb_buffer_pool_size": "1G",
    "innodb_flush_log_at_trx_commit": 2,
    "sync_binlog": 0,
    "log_bin": "binlog",
    "binlog_row_event_max_size": 1 << 20,
}
_TABLE, _FIRST = f"{SCHEMA}.t", f"{SCHEMA}.first"
_BINLOG = re.compile(r"^BINLOG '\n[A-Za-z0-9+/=\n]*'", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_images", description="what before images cost")
    parser.add_argument("--rows", type=int, default=_ROWS, help=f"how many (default {_ROWS})")
    flavors: tuple[Flavor, ...] = ("mysql", "mariadb")
    parser.add_argument("--flavor", choices=flavors, action="append", help="only this server")
    given = parser.parse_args(arguments)
    print("| server | rows of | change | before image | bytes of BINLOG per row | us of the target's CPU per row |")
    print("|---|---|---|---|---|---|")
    for flavor in given.flavor or flavors:
        with (
            tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
            ThrowawayServer(flavor, Path(directory) / "target", server_id=72, options=_OPTIONS) as target,
        ):
            for name in ("B", "C"):
                columns = _fill(target, name, given.rows)
                for change, statement in _changes(columns):
                    for image in ("FULL", "MINIMAL"):
                        size, cost = _measured(target, statement, image, given.rows)
                        print(f"| {flavor} | {name} | {change} | {image} | {size:.0f} | {cost:.2f} |", flush=True)
    return 0


def _fill(target: ThrowawayServer, name: str, rows: int) -> Sequence[str]:
    """Make the rows; gives the columns that are no key."""
    target.execute(f"DROP DATABASE IF EXISTS {SCHEMA}", f"CREATE DATABASE {SCHEMA}")
    target.execute(*(WORKLOADS[name].create.replace("{name}", table) for table in (_TABLE, _FIRST)))
    made = {"B": narrow_rows, "C": wide_rows}[name](random.Random("images"), rows)
    target.execute(*(statement.replace("{name}", _FIRST) for (statement,) in made))
    return [str(row[0]) for row in target.query(f"SHOW COLUMNS FROM {_FIRST}") if row[3] != "PRI"]


def _changes(columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    first, *others = columns
    same = ", ".join(f"{name} = {name}" for name in others)
    yield (
        "UPDATE",
        f"UPDATE {_TABLE} SET {first} = COALESCE({first}, 0) DIV 2 + 1, {same} WHERE id BETWEEN {{}} AND {{}}",
    )
    yield "DELETE", f"DELETE FROM {_TABLE} WHERE id BETWEEN {{}} AND {{}}"


def _measured(target: ThrowawayServer, statement: str, image: str, rows: int) -> tuple[float, float]:
    _begin_anew(target)
    target.execute("FLUSH BINARY LOGS")
    with closing(target.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET SESSION binlog_row_image = {image}")
        for low in range(1, rows + 1, _PART):
            cursor.execute(statement.format(low, low + _PART - 1))
    wanted = target.query(f"CHECKSUM TABLE {_TABLE}")
    events = _binlog_statements(target)
    _begin_anew(target)
    seconds = _timed(target, events)
    if target.query(f"CHECKSUM TABLE {_TABLE}") != wanted:
        raise RuntimeError(f"{image}: the rows differ")
    return sum(map(len, events)) / rows, seconds * 1e6 / rows


def _begin_anew(target: ThrowawayServer) -> None:
    target.execute(f"TRUNCATE TABLE {_TABLE}", f"INSERT INTO {_TABLE} SELECT * FROM {_FIRST}")


def _binlog_statements(target: ThrowawayServer) -> list[str]:
    """What mysqlbinlog makes of the target's last file, without its transactions."""
    file = target.query("SHOW BINARY LOGS")[-1][0]
    connect = (f"--host={target.host}", f"--port={target.port}", f"--user={target.user}")
    program = target.installation.command({"mysql": "mysqlbinlog", "mariadb": "mariadb-binlog"}[target.flavor])
    text = run_program(
        (*program, "--no-defaults", "--read-from-remote-server", *connect, str(file)),
        environment={"MYSQL_PWD": target.password},
    ).output
    return _BINLOG.findall(text)


def _timed(target: ThrowawayServer, statements: Sequence[str]) -> float:
    """The format description comes first, in a statement of its own."""
    with closing(target.connect(autocommit=False)) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        before = server_seconds(target)
        for number, statement in enumerate(statements):
            cursor.execute(statement)
            if number == 0 and target.flavor == "mysql":
                cursor.execute("SET SESSION gtid_next = 'AUTOMATIC'")
            connection.commit()
        return server_seconds(target) - before


if __name__ == "__main__":
    raise SystemExit(main())
