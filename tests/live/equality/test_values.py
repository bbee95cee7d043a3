"""The servers compute the same bytes from equal values as this side does, and other bytes from all others."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import pytest
from pymysql.cursors import Cursor

from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.mysql.equality import structure
from dm.mysql.equality.checksum import Checksum, SequenceSum, checksum_query, sequence_queries
from dm.mysql.equality.values import ComparedValue, Side, parts, row_text, text_of
from tests.live.binlog.types import CASES, TYPES
from tests.live.testbed.test_compare import LOOKALIKES, MYSQL_LOOKALIKES
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live

MODES = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00', character_set_results = binary"
Values = tuple[bytes | None, ...]


class Table:
    """A table of one column `v` and an `id`, at one server."""

    def __init__(self, server: ThrowawayServer, name: TableName, type_: str, values: Sequence[str]) -> None:
        self.name, self.flavor = name, server.flavor
        self._connection = server.connect(use_unicode=False, conv={}, autocommit=True)
        self._plain = server.connect(autocommit=True)
        self._ask(MODES)
        self._ask(f"DROP TABLE IF EXISTS {name.sql}")
        self._ask(f"CREATE TABLE {name.sql} (id INT PRIMARY KEY, v {type_} NULL)")
        rows = ", ".join(f"({number}, {value})" for number, value in enumerate([*values, "NULL"]))
        self._ask(f"INSERT IGNORE INTO {name.sql} VALUES {rows}")

    def close(self) -> None:
        self._connection.close()
        self._plain.close()

    def _ask(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return tuple(cursor.fetchall())

    @property
    def side(self) -> Side:
        return Side(
            structure.read(self._plain, self.flavor, self.name, lambda name: name).column("v"), self.name, self.flavor
        )

    def read(self, row: Sequence[ComparedValue]) -> tuple[Values, ...]:
        """What a client reads, row by row."""
        return self._ask(f"SELECT {', '.join(part.read for part in row)} FROM {self.name.sql} ORDER BY id")

    def texts(self, row: Sequence[ComparedValue]) -> list[Any]:
        """What the server computes, row by row."""
        return [text for (text,) in self._ask(f"SELECT {row_text(row)} FROM {self.name.sql} ORDER BY id")]

    def checksum(self, row: Sequence[ComparedValue], *, of: str = "TRUE") -> Checksum | None:
        """Of all rows, or of those that a condition names, by the server."""
        text = row_text(row)
        assert text is not None
        return Checksum.answered(self._ask(checksum_query(text, f"{self.name.sql} WHERE {of}"))[0])


def _in_order(cursor: Cursor, row: Sequence[ComparedValue], rows: str) -> SequenceSum | None:
    """The sum of rows in their order, by the server."""
    begin, count, digest = sequence_queries(row, rows)
    cursor.execute(begin)
    cursor.execute(count)
    counts = cursor.fetchall()[0]
    cursor.execute(digest)
    return SequenceSum.answered(counts, cursor.fetchall()[0][0])


def _sum(texts: Sequence[bytes]) -> Checksum:
    return reduce(add, map(Checksum.of, texts), Checksum())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flavor", ["mysql", pytest.param("mariadb", marks=pytest.mark.chaos)])
def test_the_server_computes_what_is_computed_here(flavor: str, park: ServerPark, schema: SchemaFactory) -> None:
    server = park.shared("mysql" if flavor == "mysql" else "mariadb", "upstream-1")
    name = TableName(schema(server), "t")
    for of, type_, values in CASES:
        if of != flavor:
            continue
        table = Table(server, name, type_, values)
        (row,) = parts([table.side], json_types=flavor == "mysql")
        here = [text_of(row, values) for values in table.read(row)]
        assert table.texts(row) == here, type_
        assert table.checksum(row) == _sum(here), type_
        table.close()


MIXED = {
    "latin VARCHAR(9) CHARACTER SET latin1 NOT NULL": ("_latin1 x'e4'", "''", "'a,1:b'"),
    "wide VARCHAR(9) CHARACTER SET ucs2": ("'ä'", "NULL", "'N'"),
    "wider CHAR(9) CHARACTER SET utf32 NOT NULL": ("'ä'", "'x'", "''"),
    "chinese VARCHAR(9) CHARACTER SET gbk NOT NULL": ("_gbk x'8140'", "'中'", "':'"),
    "plain VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL": ("'ä'", "'a '", "'A'"),
    "other TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci": ("'ä'", "NULL", "''"),
    "bytes VARBINARY(9) NOT NULL": ("x'ff00'", "x''", "'2:'"),
    "number DECIMAL(9,3) NOT NULL": ("-1.5", "0", "7"),
    "many BIGINT": ("NULL", "-1", "9223372036854775807"),
    "word ENUM('ä','b') CHARACTER SET latin1 NOT NULL": ("'ä'", "'b'", "1"),
    "moment DATETIME(3) NOT NULL": ("'2024-01-02 03:04:05.678'", "'2024-01-01'", "'0000-00-00'"),
    "ratio DOUBLE NOT NULL": ("0.1", "5e-324", "-2"),
    "document LONGTEXT CHARACTER SET latin1": ("_latin1 x'e4'", "NULL", "'b'"),
}


@pytest.mark.parametrize("flavor", ["mysql", pytest.param("mariadb", marks=pytest.mark.chaos)])
@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM"])  # which knows its number of rows without counting them
def test_values_of_many_character_sets_stand_in_one_text(
    flavor: str, engine: str, park: ServerPark, schema: SchemaFactory
) -> None:
    server = park.shared("mysql" if flavor == "mysql" else "mariadb", "upstream-1")
    name = TableName(schema(server), "t")
    with server.connect(use_unicode=False, conv={}, autocommit=True) as session, session.cursor() as cursor:
        cursor.execute(MODES)
        cursor.execute(f"CREATE TABLE {name.sql} (id INT PRIMARY KEY, {', '.join(MIXED)}) ENGINE {engine}")
        for number, values in enumerate(zip(*MIXED.values(), strict=True)):
            cursor.execute(f"INSERT INTO {name.sql} VALUES ({number}, {', '.join(values)})")
        with server.connect() as plain:
            columns = structure.read(plain, server.flavor, name, lambda other: other).columns
        row = [part for column in columns for part in parts([Side(column, name, server.flavor)])[0]]
        cursor.execute(f"SELECT {', '.join(part.read for part in row)} FROM {name.sql} ORDER BY id")
        here = [text_of(row, values) for values in cursor.fetchall()]
        text = row_text(row)
        assert text is not None
        cursor.execute(f"SELECT {text} FROM {name.sql} ORDER BY id")
        assert [each for (each,) in cursor.fetchall()] == here
        for condition, some in (("TRUE", here), ("id > 0", here[1:]), ("FALSE", [])):
            rows = f"{name.sql} WHERE {condition}"
            cursor.execute(checksum_query(text, rows))
            assert Checksum.answered(cursor.fetchall()[0]) == _sum(some)
            assert _in_order(cursor, row, rows) == SequenceSum.of(some)


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_both_flavours_compute_the_same(park: ServerPark, schema: SchemaFactory) -> None:
    servers = [park.shared("mysql", "upstream-1"), park.shared("mariadb", "target")]
    name = TableName(schema(*servers), "t")
    same = other = 0
    for type_, values in TYPES.items():
        tables = [Table(server, name, type_, values) for server in servers]
        rows = parts([table.side for table in tables])
        read, texts = ([ask(row) for ask, row in zip(asks, rows, strict=True)] for asks in (
            [table.read for table in tables], [table.texts for table in tables],
        ))  # fmt: skip
        for ours, theirs, *both in zip(*read, *texts, strict=True):
            here = [text_of(row, values) for row, values in zip(rows, (ours, theirs), strict=True)]
            assert here == both, type_
            same, other = same + (both[0] == both[1]), other + (both[0] != both[1])
        for table in tables:
            table.close()
    # What a server makes of a value that it does not take is its own: MySQL has no moment in the second 0.
    assert same > 400
    assert other < same / 20


def test_any_double_has_the_same_bits_everywhere(park: ServerPark, schema: SchemaFactory) -> None:
    servers = [park.shared("mysql", "upstream-1"), park.shared("mariadb", "target")]
    name = TableName(schema(*servers), "t")
    chance = random.Random(23)
    drawn = (struct.unpack("<d", chance.randbytes(8))[0] for _ in range(300))
    numbers = [number for number in drawn if number - number == 0]
    tables = [Table(server, name, "DOUBLE", [f"'{number!r}'" for number in numbers]) for server in servers]
    rows = parts([table.side for table in tables])
    expected = [struct.pack("<d", number).hex().upper().encode() for number in numbers]
    for table, row in zip(tables, rows, strict=True):
        assert table.texts(row)[:-1] == expected
        table.close()


@pytest.mark.parametrize("flavor", ["mysql", pytest.param("mariadb", marks=pytest.mark.chaos)])
def test_values_that_look_alike_have_different_checksums(flavor: str, park: ServerPark, schema: SchemaFactory) -> None:
    server = park.shared("mysql" if flavor == "mysql" else "mariadb", "upstream-1")
    name = TableName(schema(server), "t")
    for type_, one, other in LOOKALIKES + (MYSQL_LOOKALIKES if flavor == "mysql" else []):
        table = Table(server, name, type_, [one, other, one])
        (row,) = parts([table.side], json_types=flavor == "mysql")
        found = [table.checksum(row, of=f"id = {number}") for number in range(3)]
        table.close()
        assert found[0] == found[2] is not None, type_
        assert found[0] != found[1], type_


def test_types_inside_documents_count(park: ServerPark, schema: SchemaFactory) -> None:
    server = park.shared("mysql", "upstream-1")
    name = TableName(schema(server), "t")
    found = []
    for value in ("'[1.5]'", "JSON_ARRAY(CAST(1.5 AS DECIMAL(2,1)))"):
        table = Table(server, name, "JSON", [value])
        found.append([table.checksum(*parts([table.side], json_types=types)) for types in (False, True)])
        table.close()
    assert found[0][0] == found[1][0]
    assert found[0][1] != found[1][1]


@pytest.mark.parametrize("flavor", ["mysql", pytest.param("mariadb", marks=pytest.mark.chaos)])
@pytest.mark.parametrize("type_", ["VARCHAR(900)", "VARCHAR(900) CHARACTER SET latin1"])
def test_a_sequence_is_hashed_on_the_way(flavor: str, type_: str, park: ServerPark, schema: SchemaFactory) -> None:
    server = park.shared("mysql" if flavor == "mysql" else "mariadb", "upstream-1")
    name = TableName(schema(server), "t")
    table = Table(server, name, type_, [f"REPEAT('x', {length})" for length in (0, 240, 250, 251, 255, 700, 1, 600)])
    (row,) = parts([table.side])
    with server.connect(use_unicode=False, conv={}) as session, session.cursor() as cursor:
        cursor.execute(MODES)
        for rows in range(10):
            here = [text_of(row, values) for values in table.read(row)[:rows]]
            assert _in_order(cursor, row, f"{name.sql} WHERE id < {rows}") == SequenceSum.of(here), rows
    table.close()


@pytest.mark.parametrize("flavor", ["mysql", pytest.param("mariadb", marks=pytest.mark.chaos)])
@pytest.mark.parametrize("type_", ["VARCHAR(2000)", "VARCHAR(2000) CHARACTER SET latin1"])
def test_a_row_that_is_too_long_for_the_server_is_no_checksum(
    flavor: str, type_: str, park: ServerPark, schema: SchemaFactory
) -> None:
    server = park.shared("mysql" if flavor == "mysql" else "mariadb", "upstream-1")
    name = TableName(schema(server), "t")
    table = Table(server, name, type_, ["REPEAT('x', 2000)", "'y'"])
    (row,) = parts([table.side])
    assert table.checksum(row) is not None
    limit = server.query("SELECT @@GLOBAL.max_allowed_packet")[0][0]
    server.execute("SET GLOBAL max_allowed_packet = 1024")
    try:
        with server.connect(use_unicode=False, conv={}) as session, session.cursor() as cursor:
            text = row_text(row)
            assert text is not None
            cursor.execute(checksum_query(text, name.sql))
            answer = cursor.fetchone()
            assert answer is not None
            assert Checksum.answered(answer) is None
            assert _in_order(cursor, row, name.sql) is None
            assert _in_order(cursor, row, f"{name.sql} WHERE id > 0") is not None
    finally:
        server.execute(f"SET GLOBAL max_allowed_packet = {limit}")
        table.close()
