"""`python -m benchmarks.keyless_join`: rows without a key found one by one, or all together by their hash.

dm finds a row of such a table by SQL with a statement of its own, which scans. The other way, which dm does not have:
the rows before and after go into a temporary table with a hash as its key, and one UPDATE reads the table once and
joins. It is exact as long as it changes as many rows as there are changes: where the table has equal rows, it changes
more, and would have to be taken back. Rows are drawn from the whole table; one session, nobody else.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from pymysql.cursors import Cursor

from benchmarks.measure import server_seconds
from benchmarks.recording import SCHEMA
from benchmarks.workload import narrow_rows
from dm.demo.servers import ThrowawayServer
from dm.flavor import FLAVORS

_SIZES: Final = ((1_000, 1_000), (2_000, 1_000), (4_000, 1_000), (2_000, 2_000), (4_000, 2_000), (4_000, 4_000))
_TABLE: Final = f"{SCHEMA}.t"
_JOINED: Final = f"{SCHEMA}.changes"
_COLUMNS: Final = "id INT NOT NULL, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL"
_PART: Final = 500
_HASH: Final = "UNHEX(SHA2(CONCAT_WS(',', {0}id, {0}k, HEX({0}c), HEX({0}pad)), 256))"
_UPDATE: Final = (
    f"UPDATE {_TABLE} AS t STRAIGHT_JOIN {_JOINED} AS j ON j.h = {_HASH.format('t.')} AND t.id = j.id AND t.k = j.k"
    " AND CAST(t.c AS BINARY) = CAST(j.c AS BINARY) AND CAST(t.pad AS BINARY) = CAST(j.pad AS BINARY)"
    " SET t.k = j.k + 1"
)
_Rows = Sequence[tuple[Any, ...]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keyless_join", description="rows found together")
    parser.add_argument("--flavor", choices=FLAVORS, action="append", help="only this server")
    given = parser.parse_args(arguments)
    print("| server | rows of the table | rows changed | statements | seconds | CPU seconds of the server |")
    print("|---|---|---|---|---|---|")
    for flavor in given.flavor or FLAVORS:
        with (
            tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
            ThrowawayServer(flavor, Path(directory) / "target", server_id=72) as target,
        ):
            for rows, changed in _SIZES:
                for name, way in (("one for each row", _one_by_one), ("one for all", _together)):
                    drawn = _drawn(target, rows, changed)
                    with (
                        closing(target.connect(autocommit=False, database=SCHEMA)) as connection,
                        connection.cursor() as cursor,
                    ):
                        before, began = server_seconds(target), time.monotonic()
                        if way(cursor, drawn) != changed:
                            raise RuntimeError(f"{name}: not as many rows as there are changes")
                        connection.commit()
                        seconds, cost = time.monotonic() - began, server_seconds(target) - before
                    print(f"| {flavor} | {rows:,} | {changed:,} | {name} | {seconds:.2f} | {cost:.2f} |", flush=True)
    return 0


def _drawn(target: ThrowawayServer, rows: int, changed: int) -> _Rows:
    """Make the table anew, and draw rows of it."""
    target.execute(f"DROP DATABASE IF EXISTS {SCHEMA}", f"CREATE DATABASE {SCHEMA}")
    target.execute(f"CREATE TABLE {_TABLE} ({_COLUMNS})")
    target.execute(*(text.replace("{name}", _TABLE) for (text,) in narrow_rows(random.Random(rows), rows)))
    return random.Random(changed).sample(target.query(f"SELECT * FROM {_TABLE}"), changed)


def _one_by_one(cursor: Cursor, rows: _Rows) -> int:
    statement = (
        f"UPDATE {_TABLE} SET k = %s + 1 WHERE id = %s AND k = %s AND CAST(c AS BINARY) = %s"
        " AND CAST(pad AS BINARY) = %s LIMIT 1"
    )
    return sum(cursor.execute(statement, (row[1], *row)) for row in rows)


def _together(cursor: Cursor, rows: _Rows) -> int:
    cursor.execute(f"CREATE TEMPORARY TABLE {_JOINED} ({_COLUMNS}, h BINARY(32) NOT NULL PRIMARY KEY)")
    for low in range(0, len(rows), _PART):
        part = rows[low : low + _PART]
        values = ", ".join(["(%s, %s, %s, %s, UNHEX(SHA2(CONCAT_WS(',', %s, %s, HEX(%s), HEX(%s)), 256)))"] * len(part))
        cursor.execute(f"INSERT INTO {_JOINED} VALUES {values}", [value for row in part for value in (*row, *row)])
    return cursor.execute(_UPDATE)


if __name__ == "__main__":
    raise SystemExit(main())
