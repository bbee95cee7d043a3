"""`python -m benchmarks.statements`: what the target takes for a row, by the form of the statement that brings it.

One session, nobody else, rows of workload B (and, inserted only, of C): the target's own CPU, which is the least that
any program that sends such statements can come to. Every form writes the same rows in the same order.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from benchmarks.measure import server_seconds
from benchmarks.recording import SCHEMA, TARGET_OPTIONS
from benchmarks.workload import WORKLOADS, narrow_rows, wide_rows
from dm.demo.servers import ThrowawayServer

_ROWS = 50_000
_TABLE = f"{SCHEMA}.t"
_NARROW = ("id", "k", "c", "pad")

Statements = Callable[[Sequence[Sequence[str]]], str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statements", description="what statements cost")
    parser.add_argument("--rows", type=int, default=_ROWS, help=f"how many (default {_ROWS})")
    parser.add_argument("--batch", type=int, default=500, help="rows of a statement (default 500)")
    given = parser.parse_args(arguments)
    print("| rows | statement | us of the target's CPU per row |\n|---|---|---|")
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
        ThrowawayServer("mysql", Path(directory) / "target", server_id=72, options=TARGET_OPTIONS) as target,
    ):
        target.execute(f"CREATE DATABASE {SCHEMA}", WORKLOADS["B"].create.replace("{name}", _TABLE))
        chance = random.Random("statements")
        rows = [_cells(row) for row in _texts(narrow_rows(chance, given.rows))]
        moved = [(key, str(int(number) + 1), *others) for key, number, *others in rows]
        for name, statement, sent in _forms(rows, moved):
            _report("B", name, _run(target, _split(sent, given.batch), statement), len(rows))
        target.execute(f"DROP TABLE {_TABLE}", WORKLOADS["C"].create.replace("{name}", _TABLE))
        statements = [each[0].replace("{name}", _TABLE) for each in wide_rows(chance, given.rows)]
        _report("C", "INSERT", _timed(target, statements), given.rows)
    return 0


def _texts(transactions: Iterator[list[str]]) -> Iterator[str]:
    for (statement,) in transactions:
        yield from statement.partition(" VALUES ")[2].strip("()").split("),(")


def _cells(row: str) -> tuple[str, ...]:
    return tuple(row.split(","))


def _split(rows: Sequence[Sequence[str]], size: int) -> Iterator[Sequence[Sequence[str]]]:
    left = iter(rows)
    while part := list(islice(left, size)):
        yield part


def _insert(verb: str, end: str = "") -> Statements:
    def statement(part: Sequence[Sequence[str]]) -> str:
        values = ",".join(f"({','.join(row)})" for row in part)
        return f"{verb} INTO {_TABLE} ({','.join(_NARROW)}) VALUES {values}{end}"

    return statement


def _keys(part: Sequence[Sequence[str]]) -> str:
    return ",".join(row[0] for row in part)


def _cases(part: Sequence[Sequence[str]]) -> str:
    cases = " ".join(f"WHEN {row[0]} THEN {row[1]}" for row in part)
    return f"UPDATE {_TABLE} SET k = CASE id {cases} END WHERE id IN ({_keys(part)})"


def _joined(part: Sequence[Sequence[str]]) -> str:
    values = ",".join(f"ROW({row[0]},{row[1]})" for row in part)
    return f"UPDATE {_TABLE} JOIN (VALUES {values}) AS new (id, k) ON t.id = new.id SET t.k = new.k"


def _forms(
    rows: Sequence[Sequence[str]], moved: Sequence[Sequence[str]]
) -> Iterator[tuple[str, Statements, Sequence[Sequence[str]]]]:
    upsert = " ON DUPLICATE KEY UPDATE " + ", ".join(f"{name} = VALUES({name})" for name in _NARROW)
    yield "INSERT", _insert("INSERT"), rows
    yield "INSERT .. ON DUPLICATE KEY UPDATE of all columns, one and its index differ", _insert("INSERT", upsert), moved
    yield "REPLACE, one column and its index differ", _insert("REPLACE"), rows
    yield "UPDATE .. SET k = CASE id ..", _cases, moved
    yield "UPDATE .. JOIN (VALUES ..)", _joined, rows
    yield "DELETE .. WHERE id IN (..)", lambda part: f"DELETE FROM {_TABLE} WHERE id IN ({_keys(part)})", rows


def _run(target: ThrowawayServer, parts: Iterator[Sequence[Sequence[str]]], statement: Statements) -> float:
    return _timed(target, [statement(part) for part in parts])


def _timed(target: ThrowawayServer, statements: Sequence[str]) -> float:
    with closing(target.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        before = server_seconds(target)
        for statement in statements:
            cursor.execute(statement)
            connection.commit()
        return server_seconds(target) - before


def _report(workload: str, name: str, seconds: float, rows: int) -> None:
    print(f"| {workload} | {name} | {seconds * 1e6 / rows:.1f} |", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
