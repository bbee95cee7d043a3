"""`python -m benchmarks.row_sums`: what a server takes for the checksum of a row, by stages and by ways to compute it.

Sysbench's rows, and 20 mixed columns with JSON; one session, nobody else: the server's own CPU, the least of several
runs. Stages are cumulative: a scan that looks at one column, the row's text, the text's hash, sums of hashes. The text
before decision 087 asked for bytes of each column twice, and for NULL in columns that have none; the one before
decision 091 had each value after its length. The last lines are statements as a whole: what dm asks for, what it asked
for before, what pt-table-checksum asks for.

CRC32 is there for comparison. It is linear: CRC32(salt || text) is CRC32(text) exclusive-or a constant of the salt and
the length. So CRC32s of differently salted texts of one length know no more than one of them. And the exclusive or of
CRC32s stays as it is when two rows of one length exchange the values of a column: both rows change by the same bits at
the same place. `tests/unit/mysql/equality/test_checksum.py` shows both. A sum instead of the exclusive or sees the
exchange, but has 32 bits.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pymysql

from benchmarks.full import SYSBENCH, WIDE, Filled, FullTable, fill
from benchmarks.measure import server_seconds
from dm.demo.servers import Option, ThrowawayServer
from dm.ident import Ident, TableName
from dm.mysql.dialect import FLAVORS, Flavor
from dm.mysql.equality import structure
from dm.mysql.equality.checksum import checksum_query, sequence_queries
from dm.mysql.equality.values import ComparedValue, Side, parts, row_text

_ROWS: Final = 200_000
_ROUNDS: Final = 3
_OPTIONS: Final[Mapping[str, Option]] = {
    "innodb_buffer_pool_size": "1G", "innodb_flush_log_at_trx_commit": 2, "sync_binlog": 0,
}  # fmt: skip
_ALL: Final = (1 << 64) - 1
_BEFORE: Final = (  # decision 087
    "SELECT COUNT(*), COUNT(h), SUM(CAST(CONV(LEFT(h, 16), 16, 10) AS UNSIGNED)),"
    " BIT_XOR(CAST(CONV(SUBSTR(h, 17, 16), 16, 10) AS UNSIGNED))"
    f" FROM (SELECT {{hash}} AS h FROM {{table}} LIMIT {_ALL}) AS hashes"
)


def _hashes(text: str) -> dict[str, str]:
    return {
        "CRC32": f"CRC32({text})",
        "CRC32C": f"CRC32C({text})",
        "two CRC32, salted": f"CRC32({text}) ^ CRC32(CONCAT('salt', {text}))",
        "MD5": f"MD5({text})",
        "SHA1": f"SHA1({text})",
        **{f"SHA2, {bits}": f"SHA2({text}, {bits})" for bits in (224, 256, 384, 512)},
    }


def _number(digits: str) -> str:
    return f"CAST(CONV({digits}, 16, 10) AS UNSIGNED)"


def _halves(hashed: str) -> tuple[str, str]:
    return _number(f"LEFT({hashed}, 16)"), _number(f"SUBSTR({hashed}, 17, 16)")


def _sums(hashed: str, table: str) -> dict[str, str]:
    """Ways to add up hashes in hexadecimal digits; all but the first have 128 bits."""
    first, second = _halves(hashed)
    left, right = (_number(f"HEX({half})") for half in ("LEFT(h, 8)", "RIGHT(h, 8)"))
    short = f"SELECT UNHEX(LEFT({hashed}, 32)) AS h FROM {table} LIMIT {_ALL}"
    return {
        "exclusive or of 64 bits": f"SELECT BIT_XOR({second}) FROM {table}",
        "sum of 64 bits": f"SELECT SUM({first}) FROM {table}",
        "two exclusive ors, hashed twice": f"SELECT BIT_XOR({first}), BIT_XOR({second}) FROM {table}",
        "sum and exclusive or, hashed twice": f"SELECT COUNT(*), SUM({first}), BIT_XOR({second}) FROM {table}",
        "exclusive or of 16 bytes": f"SELECT BIT_XOR(UNHEX(LEFT({hashed}, 32))) FROM {table}",
        "derived table, 64 digits": _BEFORE.format(hash=hashed, table=table),
        "derived table, 16 bytes": f"SELECT COUNT(*), COUNT(h), SUM({left}), BIT_XOR({right}) FROM ({short}) AS hashes",
    }


def _text_before(row: Sequence[ComparedValue]) -> str:
    """The same text as it was computed before."""
    pieces = []
    for part in row:
        assert part.text is not None
        text = part.text
        if part.form in {"framed", "whole"}:
            text = f"CONCAT(LENGTH({text}), ':', {text})"
        elif part.form == "hashed":
            text = f"SHA2({text}, 256)"
        pieces.append(f"IF({part.null} IS NULL, 'N', {text})" if part.null else f"IFNULL({text}, 'N')")
    joined = ", ',', ".join(pieces)
    return f"CONCAT({joined})"


def _questions(table: TableName, row: Sequence[ComparedValue], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    text = row_text(row)
    framed = row_text([replace(part, form="framed") if part.form == "whole" else part for part in row])
    assert text is not None
    assert framed is not None
    before = _text_before(row)
    columns = ", ".join(Ident(name).sql for name in names)
    nulls = ", ".join(f"ISNULL({part.null or part.text})" for part in row if part.nullable)
    peer = f"CONCAT_WS('#', {columns}, CONCAT({nulls}))" if nulls else f"CONCAT_WS('#', {columns})"
    yield "scan", f"SELECT BIT_XOR(LENGTH({Ident(names[-1]).sql})) FROM {table.sql}"
    for what, made in (
        ("dm", text),
        ("dm, before 091", framed),
        ("dm, before 087", before),
        ("pt-table-checksum", peer),
    ):
        yield f"text of {what}", f"SELECT BIT_XOR(LENGTH({made})) FROM {table.sql}"
    for what, hashed in _hashes(text).items():
        yield f"text and {what}", f"SELECT BIT_XOR(LENGTH({hashed})) FROM {table.sql}"
    for way, question in _sums(_hashes(text)["SHA2, 256"], table.sql).items():
        yield f"SHA2, 256: {way}", question
    yield (
        "all: pt-table-checksum",
        "SELECT COUNT(*), COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32"
        f"({peer}) AS UNSIGNED)), 10, 16)), 0) FROM {table.sql} FORCE INDEX (`PRIMARY`)",
    )
    yield "all: dm, before 087", _BEFORE.format(hash=f"SHA2({before}, 256)", table=table.sql)
    yield "all: dm, in the order of the key, before 091", _behind_each_other(framed, table.sql)
    yield "all: dm, in any order", checksum_query(text, table.sql)
    yield "all: dm, behind each other", _behind_each_other(text, table.sql)
    yield "all: dm, in the order of the key", sequence_queries(row, table.sql)[1]


def _behind_each_other(text: str, table: str) -> str:
    hashes = f"SELECT COUNT(*) AS n, GROUP_CONCAT(SHA2({text}, 256) SEPARATOR '') AS g FROM {table}"
    return f"SELECT n, LENGTH(g), SHA2(g, 256) FROM ({hashes}) AS hashes"


def _cost(server: ThrowawayServer, question: str, rounds: int) -> float:
    """CPU seconds of the server; raises pymysql's error where it has no such function."""
    found = []
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION group_concat_max_len = 1 << 26")
        cursor.execute(sequence_queries([], "DUAL")[0])
        for _ in range(rounds):
            before = server_seconds(server)
            cursor.execute(question)
            cursor.fetchall()
            found.append(server_seconds(server) - before)
    return min(found)


def _measured(server: ThrowawayServer, filled: Filled, rounds: int) -> Iterator[tuple[str, float | None]]:
    """Microseconds of CPU per row for each question; None where the server has no such function."""
    table = TableName(filled.schema, "t")
    with closing(server.connect()) as session:
        found = structure.read(session, server.flavor, table, lambda name: name)
    row = [part for column in found.columns for part in parts([Side(column, table, server.flavor)])[0]]
    for what, question in _questions(table, row, [column.name for column in found.columns]):
        cost = None
        with suppress(pymysql.err.OperationalError, pymysql.err.ProgrammingError):
            cost = _cost(server, question, rounds) * 1e6 / filled.rows
        yield what, cost


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table for each kind of rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.row_sums", description="what a row's checksum costs")
    parser.add_argument("--rows", type=int, default=_ROWS, help=f"sysbench rows (default {_ROWS}); wide rows a fourth")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help=f"the least of so many counts (default {_ROUNDS})")
    parser.add_argument("--flavor", choices=FLAVORS, action="append", help="only this server")
    given = parser.parse_args(arguments)
    flavors: Sequence[Flavor] = given.flavor or FLAVORS
    found: dict[tuple[str, str], dict[Flavor, float | None]] = {}
    for flavor in flavors:
        with (
            tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
            ThrowawayServer(flavor, Path(directory) / "server", server_id=71, options=_OPTIONS) as server,
        ):
            table: FullTable
            for table, rows in ((SYSBENCH, given.rows), (WIDE, given.rows // 4)):
                for what, cost in _measured(server, fill(server, table, rows), given.rounds):
                    found.setdefault((table.what, what), {})[flavor] = cost
    print(f"| rows | what | {' | '.join(f'us of CPU per row, {flavor}' for flavor in flavors)} |")
    print("|---|---|" + "---|" * len(flavors))
    for (kind, what), costs in found.items():
        cells = (costs.get(flavor) for flavor in flavors)
        print(f"| {kind} | {what} | {' | '.join('-' if cell is None else f'{cell:.2f}' for cell in cells)} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
