"""Rows of a query as the server's own bytes, column by column, in bounded memory.

Problem: a driver that makes Python values of what it reads is slow and not exact (decimals, zero dates, TIME beyond a
day, FLOAT, bytes in a column's own character set). The text protocol already is the exact form: each value is a
length-encoded string of bytes (MySQL Client/Server Protocol, "Text Resultset Row"), and with `character_set_results`
set to binary the server does not touch its character set either. So the rows are cut out of the socket's bytes here,
and nothing is decoded.

pymysql makes the connection and sends the query; the rows after the column definitions are read from its buffered
socket file directly, since its own unbuffered cursor costs one Python object chain per packet.

Packets that are rows and nothing else are taken in runs, by the compiled `TextRows` or by `ColumnLists`; both stop at
whatever is not one, which is looked at here. The compiled one copies values to where Arrow wants them and makes no
object of a row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Final, NamedTuple, Protocol, cast

import pyarrow
import pymysql
from pymysql.constants import COMMAND, CR
from pymysql.err import raise_mysql_exception

from dm.accelerator.native import Native, shared
from dm.accelerator.switch import Twins
from dm.sourcelog.upstream.connection import Connection, grantee, server_error

_BLOCK = 1 << 18
_HEAD = 4
_LARGEST_PACKET = 0xFFFFFF
_EOF, _ERROR, _NULL = 0xFE, 0xFF, 0xFB


@dataclass(slots=True)
class ColumnBatch:
    """Some rows in a row, turned into columns."""

    columns: list[pyarrow.Array]  # of bytes
    rows: int
    size: int  # bytes on the wire


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a batch, which ends with the row that reaches one of them."""

    rows: int
    size: int  # bytes on the wire


class Incoming(Protocol):
    """A socket."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Wait for bytes and take those that are there; none at the end."""
        ...


class BufferedIncoming(Protocol):
    """The same after a buffer, as pymysql reads from it."""

    @property
    def raw(self) -> Incoming:
        """What follows the buffer."""
        ...

    def read1(self, size: int, /) -> bytes:
        """What is in the buffer; where it is empty, what comes next."""
        ...


@shared
class TakenRows(NamedTuple):
    """What a run has taken."""

    at: int  # the place where it stopped
    rows: int
    size: int  # bytes on the wire


@shared
class ColumnBuffers(NamedTuple):
    """A column as Arrow's buffers."""

    nulls: int
    valid: bytes | None  # a bit per value; None where all are there
    offsets: bytes
    values: bytes


class RowColumns(Protocol):
    """Rows on their way into columns."""

    def run(self, data: bytearray, start: int, end: int, rows: int, size: int, /) -> TakenRows:
        """Take whole packets with a row each until there are so many rows or bytes, or something else comes."""
        ...

    def row(self, data: bytes, start: int, end: int, /) -> bool:
        """Take one row; False when the bytes are none."""
        ...

    def arrays(self, rows: int) -> list[pyarrow.Array]:
        """The columns of all that was taken, which were so many rows; then there are none."""
        ...


class ColumnLists:
    """The columns as lists of values, filled in Python."""

    def __init__(self, width: int) -> None:
        self._columns: list[list[bytes | None]] = [[] for _ in range(width)]
        self._appends = [column.append for column in self._columns]

    def run(self, data: bytearray, start: int, end: int, rows: int, size: int, /) -> TakenRows:
        """As the protocol has it."""
        known = bytes(memoryview(data)[start:end])  # whose slices are values that may be kept
        at, end, taken, total, appends = 0, len(known), 0, 0, self._appends
        while taken < rows and total < size and end - at > _HEAD:
            length = known[at] | known[at + 1] << 8 | known[at + 2] << 16
            row, row_end = at + _HEAD, at + _HEAD + length
            if not length or length == _LARGEST_PACKET or row_end > end or _is_word(known[row], length):
                break
            try:
                if split_row(known, row, appends) != row_end:
                    raise _malformed()
            except (IndexError, struct.error):
                raise _malformed() from None
            at = row_end
            total += length
            taken += 1
        return TakenRows(start + at, taken, total)

    def row(self, data: bytes, start: int, end: int, /) -> bool:
        """As the protocol has it."""
        try:
            return split_row(data, start, self._appends) == end
        except (IndexError, struct.error):
            return False

    def arrays(self, rows: int) -> list[pyarrow.Array]:
        """As the protocol has it."""
        made = [pyarrow.array(values, pyarrow.binary()) for values in self._columns]
        for values in self._columns:
            values.clear()
        return made


class CompiledColumns:
    """The columns as Arrow's buffers, filled by the extension."""

    def __init__(self, native: Native, width: int) -> None:
        self._rows = native.TextRows(width)
        self.run = self._rows.run
        self.row = self._rows.row

    def arrays(self, rows: int) -> list[pyarrow.Array]:
        """As the protocol has it."""
        made = []
        columns: list[ColumnBuffers] = self._rows.take()
        for column in columns:
            valid = None if column.valid is None else pyarrow.py_buffer(column.valid)
            buffers = [valid, pyarrow.py_buffer(column.offsets), pyarrow.py_buffer(column.values)]
            made.append(pyarrow.Array.from_buffers(pyarrow.binary(), rows, buffers, column.nulls))
        return made


def row_columns(width: int) -> RowColumns:
    """Columns for rows of so many values."""
    return _TWINS()(width)


_TWINS: Final[Twins[Callable[[int], RowColumns]]] = Twins(ColumnLists, lambda native: partial(CompiledColumns, native))


def _is_word(first: int, length: int) -> bool:
    """Whether a packet is the server's word on the query and not a row."""
    return first == _ERROR or (first == _EOF and length < 9)


def _malformed() -> pymysql.err.Error:
    return pymysql.err.OperationalError(CR.CR_MALFORMED_PACKET, "Malformed communication packet")


def length_encoded(buffer: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer above 250 and the offset after it; `at` is where its first byte stands."""
    first = buffer[at]
    if first == 0xFC:
        return buffer[at + 1] | buffer[at + 2] << 8, at + 3
    if first == 0xFD:
        return buffer[at + 1] | buffer[at + 2] << 8 | buffer[at + 3] << 16, at + 4
    return struct.unpack_from("<Q", buffer, at + 1)[0], at + 9


def split_row(buffer: bytes, at: int, appends: list[Callable[[bytes | None], None]]) -> int:
    """Hand each value of the row that starts at `at` to its column; gives the offset after the row."""
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


def read_batches(connection: Connection, sql: str, limits: Iterable[Limits]) -> Iterator[ColumnBatch]:
    """Run the query and give its rows in batches, each within its limits; `limits` has no end."""
    try:
        width = _send(connection, sql)
        # What is pymysql's own is not in its types, here and in `_send`.
        yield from _batches(cast("BufferedIncoming", connection._rfile), width, limits)  # type: ignore[attr-defined]
    except (pymysql.err.Error, OSError) as error:
        user = connection.user.decode() if isinstance(connection.user, bytes) else connection.user or ""
        host, port, who = connection.host, connection.port, partial(grantee, connection)
        raise server_error(error, role="upstream", host=host, port=port, user=user, statement=sql, who=who) from error


def read_all(connection: Connection, sql: str) -> list[tuple[bytes | None, ...]]:
    """All rows of a small query, as bytes."""
    found: list[tuple[bytes | None, ...]] = []
    for batch in read_batches(connection, sql, repeat(Limits(10_000, 1 << 24))):
        found.extend(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return found


def _send(connection: Connection, sql: str) -> int:
    connection._execute_command(COMMAND.COM_QUERY, sql)  # type: ignore[attr-defined]
    width = connection._read_packet().read_length_encoded_integer()  # type: ignore[no-untyped-call]
    for _ in range(width + 1):  # the column definitions, and the EOF packet after them
        connection._read_packet()  # type: ignore[no-untyped-call]
    return int(width)


def _batches(source: BufferedIncoming, width: int, limits: Iterable[Limits]) -> Iterator[ColumnBatch]:
    columns = row_columns(width)
    # Beginning with what was read together with the columns' definitions. From then on the buffer is passed by: its
    # `readinto1` would wait for more, however much it has already.
    begun = source.read1(_BLOCK)
    receive = source.raw.readinto
    buffer = bytearray(_BLOCK)
    buffer[: len(begun)] = begun
    at = 0
    end = len(begun)

    def more(needed: int) -> None:
        """Have at least `needed` bytes after `at`."""
        nonlocal at, end
        if end - at >= needed:
            return
        buffer[: end - at] = buffer[at:end]
        at, end = 0, end - at
        if needed > len(buffer):
            buffer.extend(bytes(needed - len(buffer)))
        with memoryview(buffer) as room:
            while end < needed:
                part = receive(room[end:])
                if not part:
                    raise pymysql.err.OperationalError(
                        CR.CR_SERVER_LOST, "Lost connection to MySQL server during query"
                    )
                end += part

    def packet() -> int:
        """The length of the packet at `at`, all of which is there then."""
        more(_HEAD)
        length = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
        more(_HEAD + length)
        return length

    for limit in limits:
        rows = size = 0
        while rows < limit.rows and size < limit.size:
            at, more_rows, more_size = columns.run(buffer, at, end, limit.rows - rows, limit.size - size)
            rows, size = rows + more_rows, size + more_size
            if rows >= limit.rows or size >= limit.size:
                break
            known, length = end - at, packet()
            first = buffer[at + _HEAD] if length else 0
            if length and _is_word(first, length):
                if first == _ERROR:
                    if length < 4:  # without a number or without a word, which pymysql expects
                        raise _malformed()
                    raise_mysql_exception(bytes(buffer[at + _HEAD : at + _HEAD + length]))
                if rows:
                    yield ColumnBatch(columns.arrays(rows), rows, size)
                return
            if length < _LARGEST_PACKET and known < _HEAD + length:
                continue  # the run has ended for want of bytes
            # A row of 16 MiB or more goes on in the packets that follow, up to one that is not full.
            parts = []
            while True:
                parts.append(buffer[at + _HEAD : at + _HEAD + length])
                at += _HEAD + length
                if length < _LARGEST_PACKET:
                    break
                length = packet()
            row = b"".join(parts)
            if not columns.row(row, 0, len(row)):
                raise _malformed()
            rows += 1
            size += len(row)
        yield ColumnBatch(columns.arrays(rows), rows, size)
    raise ValueError("limits with an end would leave out rows")
