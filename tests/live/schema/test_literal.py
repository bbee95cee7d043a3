"""Literals through the servers: what is written is what stands there, byte by byte, and WHERE finds it again."""

from __future__ import annotations

import random

import pytest

from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.mysql.binlog.value import Value
from tests.live.schema.session import session
from tests.testbed.fixtures import SchemaFactory

pytestmark = pytest.mark.live

_POINT = bytes.fromhex("000000000101000000000000000000f03f0000000000000040")
_SESSION = "SET NAMES utf8mb4, sql_mode = 'STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'"
_EVERY_BYTE = bytes(range(256))
_TEXT = "a'b\\c\0d\x1a\n\r\t\"`%_é€😀".encode()

# column definition, value, what HEX(column) gives (None: the value's own bytes)
_BOTH: tuple[tuple[str, Value, str | None], ...] = (
    ("VARCHAR(100) CHARACTER SET utf8mb4", _TEXT, None),
    ("VARCHAR(100) CHARACTER SET utf8mb4", b"", None),
    ("VARCHAR(300) CHARACTER SET latin1", _EVERY_BYTE, None),
    ("VARCHAR(9) CHARACTER SET gbk", "\u4f60\\".encode("gbk"), None),
    ("VARCHAR(9) CHARACTER SET utf16", "a'\\\u20ac".encode("utf-16-be"), None),
    ("VARBINARY(300)", _EVERY_BYTE, None),
    ("BLOB", _EVERY_BYTE * 20, None),
    ("BLOB", b"", None),
    ("BINARY(4)", b"a\0b\0", None),
    ("GEOMETRY", _POINT, None),
    ("BIT(20)", 0xABCDE, "ABCDE"),
    ("SET('a','b','c')", 5, "612C63"),
    ("ENUM('a','b')", 2, "62"),
    ("YEAR", 0, "0"),
    ("BIGINT UNSIGNED", 18446744073709551615, "F" * 16),
)
_TEXT_FORM: tuple[tuple[str, Value, str], ...] = (
    ("DECIMAL(65,30)", "-12345678901234567890123456789012345.123456789012345678901234567891", ""),
    ("TIME(6)", "-838:59:58.999999", ""),
    ("DATETIME(6)", "0000-00-00 00:00:00.000000", ""),
    ("DATE", "2020-02-31", ""),
)


def test_what_is_written_stands_there(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(upstream)
    table = TableName(name, "t")
    with session(upstream) as server:
        server.run(name, _SESSION)
        for definition, value, expected in _BOTH:
            server.run(name, "DROP TABLE IF EXISTS t", f"CREATE TABLE t (c {definition})")
            column = server.structure(table).columns[0]
            literal = column.encoder()(value).decode()
            server.run(name, f"INSERT INTO t VALUES ({literal})")
            function = "HEX(c)" if not definition.startswith("YEAR") else "HEX(c + 0)"
            assert isinstance(value, bytes) or expected is not None
            wanted = value.hex().upper() if isinstance(value, bytes) else expected
            assert server.rows(f"SELECT {function} FROM t") == [(wanted,)], definition
            assert server.rows(f"SELECT COUNT(*) FROM t WHERE c = {literal}") == [(1,)], definition
        for definition, value, _ in _TEXT_FORM:
            server.run(name, "DROP TABLE IF EXISTS t", f"CREATE TABLE t (c {definition})")
            literal = server.structure(table).columns[0].encoder()(value).decode()
            server.run(name, f"INSERT INTO t VALUES ({literal})")
            assert server.rows("SELECT CONCAT(c) FROM t") == [(value,)], definition
            assert server.rows(f"SELECT COUNT(*) FROM t WHERE c = {literal}") == [(1,)], definition


def test_floating_point_comes_back_bit_by_bit(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(upstream)
    draw = random.Random(7)
    values = [0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e16] + [draw.uniform(-1e9, 1e9) for _ in range(50)]
    with session(upstream) as server:
        server.run(name, _SESSION, "CREATE TABLE t (id INT PRIMARY KEY, d DOUBLE)")
        column = server.structure(TableName(name, "t")).columns[1]
        for number, value in enumerate(values):
            literal = column.encoder()(value).decode()
            server.run(name, f"INSERT INTO t VALUES ({number}, {literal})")
            assert server.rows(f"SELECT COUNT(*) FROM t WHERE id = {number} AND d = {literal}") == [(1,)]
        found = [float(str(row[0])) for row in server.rows("SELECT d FROM t ORDER BY id")]
        if server.flavor == "mariadb":
            values[1] = 0.0  # MariaDB has no negative zero, however it is written
        assert [value.hex() for value in found] == [value.hex() for value in values]


def test_mariadb_s_own_types(mariadb: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(mariadb)
    with session(mariadb) as server:
        server.run(name, "CREATE TABLE t (u UUID, s INET6, f INET4)")
        columns = server.structure(TableName(name, "t")).columns
        raw = (bytes.fromhex("123e4567e89b12d3a456426655440000"), b"\0" * 15 + b"\1", b"\1\2\3\4")
        literals = [column.encoder()(value).decode() for value, column in zip(raw, columns, strict=True)]
        server.run(name, f"INSERT INTO t VALUES ({', '.join(literals)})")
        row = server.rows("SELECT CAST(u AS CHAR), CAST(s AS CHAR), CAST(f AS CHAR) FROM t")
        assert row == [("123e4567-e89b-12d3-a456-426655440000", "::1", "1.2.3.4")]
