"""The change sets: what is written to the source, always the same for one scale.

A  OLTP: transactions of two updates, a delete and an insert, one row per event
B  bulk: 500 rows per statement, inserts, updates and deletes
C  like B, 20 columns of mixed types with JSON, 50 rows per statement
H  hot keys: ten single-row updates per transaction, keys drawn from a zipf distribution
"""

from __future__ import annotations

import itertools
import json
import random
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pymysql.connections import Connection
from pymysql.cursors import Cursor

Transaction = list[str]

_NARROW = """CREATE TABLE {name} (
    id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0,
    c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', KEY k_1 (k)
)"""
_WIDE = """CREATE TABLE {name} (
    id BIGINT UNSIGNED NOT NULL PRIMARY KEY, tiny TINYINT, small SMALLINT UNSIGNED, medium MEDIUMINT, whole INT,
    price DECIMAL(12,2), exact DECIMAL(30,10), ratio DOUBLE, share FLOAT, born DATE, made DATETIME(6),
    seen TIMESTAMP NULL, taken TIME(3), year_of YEAR, kind ENUM('new','paid','sent','gone'), tags SET('a','b','c','d'),
    name VARCHAR(80), note TEXT, raw VARBINARY(40), details JSON
) CHARACTER SET utf8mb4"""
_ZIPF = 0.99
_HOT_ROWS = 10_000
_PER_INSERT = 500


@dataclass(frozen=True, slots=True)
class Workload:
    """One change set; `rows` are the row changes of scale 1."""

    name: str
    what: str
    create: str  # {name} stands for the table
    first: Callable[[random.Random, int], Iterator[Transaction]]  # rows that are there before
    changes: Callable[[random.Random, int], Iterator[Transaction]]
    rows: int

    def transactions(self, rows: int) -> Iterator[Transaction]:
        """The transactions that make about `rows` row changes; `{name}` in them stands for the table."""
        return self.changes(random.Random(self.name), rows)

    def before(self, rows: int) -> Iterator[Transaction]:
        """What fills the table before."""
        return self.first(random.Random(self.name + " before"), rows)


def play(connection: Connection[Cursor], table: str, transactions: Iterator[Transaction]) -> int:
    """Execute the transactions on the table; gives the affected rows.

    The connection commits by itself; for transactions of several statements it is one with MULTI_STATEMENTS.
    """
    affected = 0
    with connection.cursor() as cursor:
        for transaction in transactions:
            statements = [statement.replace("{name}", table) for statement in transaction]
            whole = statements if len(statements) == 1 else ["BEGIN", *statements, "COMMIT"]
            affected += cursor.execute(";".join(whole))
            while cursor.nextset():
                affected += cursor.rowcount
    return affected


def _digits(chance: random.Random, groups: int) -> str:
    return "-".join(f"{chance.randrange(10**11):011d}" for _ in range(groups))


def _narrow_row(chance: random.Random, key: int) -> str:
    return f"({key},{chance.randrange(1, 1_000_000)},'{_digits(chance, 10)}','{_digits(chance, 5)}')"


def _inserts(rows: Iterator[str], columns: str, size: int) -> Iterator[Transaction]:
    while part := tuple(itertools.islice(rows, size)):
        yield [f"INSERT INTO {{name}} ({columns}) VALUES {','.join(part)}"]


_NARROW_COLUMNS = "id,k,c,pad"


def narrow_rows(chance: random.Random, count: int) -> Iterator[Transaction]:
    """Inserts of so many rows like sysbench's."""
    return _inserts((_narrow_row(chance, key) for key in range(1, count + 1)), _NARROW_COLUMNS, _PER_INSERT)


def _oltp_first(chance: random.Random, rows: int) -> Iterator[Transaction]:
    return narrow_rows(chance, max(1000, rows // 2))


def _oltp(chance: random.Random, rows: int) -> Iterator[Transaction]:
    keys = max(1000, rows // 2)
    for _ in range(rows // 4):
        first, second, moved = (chance.randrange(1, keys + 1) for _ in range(3))
        yield [
            f"UPDATE {{name}} SET k = k + 1 WHERE id = {first}",
            f"UPDATE {{name}} SET c = '{_digits(chance, 10)}' WHERE id = {second}",
            f"DELETE FROM {{name}} WHERE id = {moved}",
            f"INSERT INTO {{name}} ({_NARROW_COLUMNS}) VALUES {_narrow_row(chance, moved)}",
        ]


def _nothing(chance: random.Random, rows: int) -> Iterator[Transaction]:
    return iter(())


def _bulk(chance: random.Random, rows: int) -> Iterator[Transaction]:
    inserted, deleted = rows * 2 // 5, rows // 5
    yield from narrow_rows(chance, inserted)
    for low in range(1, inserted + 1, _PER_INSERT):
        yield [f"UPDATE {{name}} SET k = k + 1 WHERE id BETWEEN {low} AND {low + _PER_INSERT - 1}"]
    for low in range(1, deleted + 1, _PER_INSERT):
        yield [f"DELETE FROM {{name}} WHERE id BETWEEN {low} AND {min(low + _PER_INSERT - 1, deleted)}"]


_WIDE_COLUMNS = (
    "id,tiny,small,medium,whole,price,exact,ratio,share,born,made,seen,taken,year_of,kind,tags,name,note,raw,details"
)
_WIDE_PER_STATEMENT = 50
_WORDS = ("Zürich", "naïve", "日本語", "quick", "brown", "fox", "straße", "Ωmega", "plain", "text")


def _details(chance: random.Random) -> str:
    return json.dumps(
        {
            "user": {"id": chance.randrange(1 << 40), "name": chance.choice(_WORDS), "active": chance.random() < 0.5},
            "items": [
                {"sku": f"S{chance.randrange(10**6):06d}", "n": chance.randrange(100), "price": chance.random() * 100}
                for _ in range(chance.randrange(1, 4))
            ],
            "note": None if chance.random() < 0.3 else " ".join(chance.choices(_WORDS, k=5)),
        },
        ensure_ascii=False,
    )


def _wide_row(chance: random.Random, key: int) -> str:
    def maybe(text: str) -> str:
        return "NULL" if chance.random() < 0.05 else text

    day = f"{chance.randrange(1970, 2037)}-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}"
    clock = f"{chance.randrange(24):02d}:{chance.randrange(60):02d}:{chance.randrange(60):02d}"
    values = (
        str(key),
        maybe(str(chance.randrange(-128, 128))),
        maybe(str(chance.randrange(65536))),
        maybe(str(chance.randrange(-(1 << 23), 1 << 23))),
        maybe(str(chance.randrange(-(1 << 31), 1 << 31))),
        maybe(f"{chance.randrange(10**11) / 100:.2f}"),
        maybe(f"{chance.randrange(10**20)}.{chance.randrange(10**10):010d}"),
        maybe(repr(chance.gauss(0, 1e6))),
        maybe(f"{chance.random():.5f}"),
        maybe(f"'{day}'"),
        maybe(f"'{day} {clock}.{chance.randrange(10**6):06d}'"),
        maybe(f"'{day} {clock}'"),
        maybe(f"'{clock}.{chance.randrange(1000):03d}'"),
        maybe(str(chance.randrange(1901, 2156))),
        maybe(f"'{chance.choice(('new', 'paid', 'sent', 'gone'))}'"),
        maybe(f"'{chance.choice(('', 'a', 'a,b', 'c,d', 'a,b,c,d'))}'"),
        maybe(f"'{' '.join(chance.choices(_WORDS, k=3))}'"),
        maybe(f"'{' '.join(chance.choices(_WORDS, k=20))}'"),
        maybe(f"x'{chance.randbytes(20).hex()}'"),
        maybe(f"'{_details(chance)}'"),
    )
    return f"({','.join(values)})"


def wide_rows(chance: random.Random, count: int) -> Iterator[Transaction]:
    """Inserts of so many rows with 20 mixed columns."""
    return _inserts((_wide_row(chance, key) for key in range(1, count + 1)), _WIDE_COLUMNS, _WIDE_PER_STATEMENT)


def _wide(chance: random.Random, rows: int) -> Iterator[Transaction]:
    inserted, deleted = rows * 2 // 5, rows // 5
    yield from wide_rows(chance, inserted)
    for low in range(1, inserted + 1, _WIDE_PER_STATEMENT):
        high = low + _WIDE_PER_STATEMENT - 1
        changed = "whole = COALESCE(whole, 0) DIV 2, year_of = 2026"
        yield [f"UPDATE {{name}} SET {changed} WHERE id BETWEEN {low} AND {high}"]
    for low in range(1, deleted + 1, _WIDE_PER_STATEMENT):
        yield [f"DELETE FROM {{name}} WHERE id BETWEEN {low} AND {min(low + _WIDE_PER_STATEMENT - 1, deleted)}"]


def _hot_first(chance: random.Random, rows: int) -> Iterator[Transaction]:
    return narrow_rows(chance, _HOT_ROWS)


def _hot(chance: random.Random, rows: int) -> Iterator[Transaction]:
    weights = list(itertools.accumulate(1 / rank**_ZIPF for rank in range(1, _HOT_ROWS + 1)))
    keys = list(range(1, _HOT_ROWS + 1))
    chance.shuffle(keys)
    for number in range(rows // 10):
        drawn = [keys[bisect(weights, chance.random() * weights[-1])] for _ in range(10)]
        yield [f"UPDATE {{name}} SET k = {number}, pad = '{_digits(chance, 5)}' WHERE id = {key}" for key in drawn]


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("A", "OLTP, one row per event", _NARROW, _oltp_first, _oltp, 120_000),
        Workload("B", "bulk, 500 rows per statement", _NARROW, _nothing, _bulk, 250_000),
        Workload("C", "20 mixed columns with JSON", _WIDE, _nothing, _wide, 200_000),
        Workload("H", "zipf hot keys, 10 updates per transaction", _NARROW, _hot_first, _hot, 150_000),
    )
}
