"""Rows of a query as the server's own bytes, column by column, in bounded memory.

Problem: a driver that makes Python values of what it reads is slow and not exact (decimals, zero dates, TIME beyond a
day, FLOAT, bytes in a column's own character set). The text protocol already is the exact form: each value is a
length-encoded string of bytes (MySQL Client/Server Protocol, "Text Resultset Row"), and with `character_set_results`
set to binary the server does not touch its character set either. So the rows are cut out of the socket's bytes here,
and nothing is decoded.

pymysql makes the connection and sends the query; the rows behind the column definitions are read from its buffered
socket file directly, since its own unbuffered cursor costs one Python object chain per packet.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

import pymysql
from pymysql.constants import COMMAND
from pymysql.err import raise_mysql_exception

from dm.upstream.connection import Connection, server_error

_BLOCK = 1 << 18
_LARGEST_PACKET = 0xFFFFFF
_EOF, _ERROR, _NULL = 0xFE, 0xFF, 0xFB


@dataclass(slots=True)
class Batch:
    """Some rows in a row, turned into columns."""

    columns: list[list[bytes | None]]
    rows: int
    size: int  # bytes on the wire


def length_encoded(buffer: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer above 250 and the offset behind it; `at` is where its first byte stands."""
    first = buffer[at]
    if first == 0xFC:
        return buffer[at + 1] | buffer[at + 2] << 8, at + 3
    if first == 0xFD:
        return buffer[at + 1] | buffer[at + 2] << 8 | buffer[at + 3] << 16, at + 4
    return struct.unpack_from("<Q", buffer, at + 1)[0], at + 9


def split_row(buffer: bytes, at: int, appends: list[Callable[[bytes | None], None]]) -> int:
    """Hand each value of the row that starts at `at` to its column; gives the offset behind the row."""
    for append in appends:
        length = buffer[at]
        at += 1
        if length < _NULL:
            end = at + length
            append(buffer[at:end])
            at = end
        elif length == _NULL:
            append(None)
        else:
            length, at = length_encoded(buffer, at - 1)
            append(buffer[at : at + length])
            at += length
    return at


def read_batches(connection: Connection, sql: str, *, rows: int, size: int) -> Iterator[Batch]:
    """Run the query and give its rows in batches of at most `rows` rows and about `size` bytes."""
    try:
        width = _send(connection, sql)
        yield from _batches(cast("BinaryIO", connection._rfile), width, rows, size)  # type: ignore[attr-defined]
    except (pymysql.err.Error, OSError) as error:
        user = connection.user.decode() if isinstance(connection.user, bytes) else connection.user or ""
        raise server_error(
            error, role="upstream", host=connection.host, port=connection.port, user=user, statement=sql
        ) from error


def read_all(connection: Connection, sql: str) -> list[tuple[bytes | None, ...]]:
    """All rows of a small query, as bytes."""
    found: list[tuple[bytes | None, ...]] = []
    for batch in read_batches(connection, sql, rows=10_000, size=1 << 24):
        found.extend(zip(*batch.columns, strict=True))
    return found


def _send(connection: Connection, sql: str) -> int:
    connection._execute_command(COMMAND.COM_QUERY, sql)  # type: ignore[attr-defined]
    width = connection._read_packet().read_length_encoded_integer()  # type: ignore[no-untyped-call]
    for _ in range(width + 1):  # the column definitions, and the EOF packet behind them
        connection._read_packet()  # type: ignore[no-untyped-call]
    return int(width)


def _batches(source: BinaryIO, width: int, row_limit: int, size_limit: int) -> Iterator[Batch]:
    read = source.read1  # type: ignore[attr-defined]
    buffer = b""
    at = 0
    end = 0

    def more(needed: int) -> None:
        """Have at least `needed` bytes behind `at`; a large packet is read in one piece, not block by block."""
        nonlocal buffer, at, end
        parts = [buffer[at:end]]
        have = end - at
        while have < needed:
            missing = needed - have
            part = source.read(missing) if missing > _BLOCK else read(_BLOCK)
            if not part:
                raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")
            parts.append(part)
            have += len(part)
        buffer = b"".join(parts)
        at, end = 0, len(buffer)

    while True:
        columns: list[list[bytes | None]] = [[] for _ in range(width)]
        appends = [column.append for column in columns]
        rows = size = 0
        while rows < row_limit and size < size_limit:
            if end - at < 4:
                more(4)
            length = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
            if end - at - 4 < length:
                more(length + 4)
            first = buffer[at + 4] if length else 0
            if (first == _EOF and length < 9) or first == _ERROR:
                if first == _ERROR:
                    raise_mysql_exception(buffer[at + 4 : at + 4 + length])
                if rows:
                    yield Batch(columns, rows, size)
                return
            if length == _LARGEST_PACKET:
                # A row of 16 MiB or more goes on in the packets that follow, up to one that is not full.
                parts = [buffer[at + 4 : at + 4 + length]]
                at += 4 + length
                while length == _LARGEST_PACKET:
                    more(4)
                    length = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
                    more(length + 4)
                    parts.append(buffer[at + 4 : at + 4 + length])
                    at += 4 + length
                row = b"".join(parts)
                split_row(row, 0, appends)
                size += len(row)
            else:
                split_row(buffer, at + 4, appends)
                at += 4 + length
                size += length
            rows += 1
        yield Batch(columns, rows, size)
