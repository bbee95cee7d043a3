"""Spool files: records that are verified when they are read back, in the format of TiDB's Pump.

    record    magic u32, length u64, crc u32 (CRC-32 of the payload), payload; all little-endian, 16 bytes in front
    footer    a record with its own magic: number of records, bytes of payload, latest commit time

An offset alone finds a record, and a record is self-contained. The CRC does not cover the length: a wrong length
selects other bytes, whose CRC differs, or leads past the file's end.

A disk that returns other bytes than were written must not cause wrong rows at the target. So every read is verified,
and a mismatch is a DMError with file and offset.

Items of a transaction as records of a spool file, and back.

    M   number, flavour, the table map as the source wrote it, its id empty; precedes the first rows that refer to it
    E   kind, flags, number of the table map, time, bitmaps, row images as in the event, decompressed
    S   a statement: its session, schema and text
    T   the same, for a statement on temporary tables
    C, D  the same two, for a statement inside a transaction

Rows are not decoded here: an image takes a ninth of the memory of its values.
"""

from __future__ import annotations

import ast
import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from dm.errors import DMError
from dm.mysql.binlog.cursor import ByteCursor
from dm.mysql.binlog.query import Query, QuerySession
from dm.mysql.binlog.row_events import TIME_SIZE, Rows, RowsKind
from dm.mysql.binlog.table_map import TABLE_ID_SIZE, TableMap, parse_table_map
from dm.mysql.dialect import FLAVORS
from dm.sourcelog.stream.transaction import Item, RowsItem, StatementItem

MAGIC: Final = 0x6B4D5053
FOOTER_MAGIC: Final = 0x6B4D5046
HEADER: Final = Struct("<IQI")
HEADER_SIZE: Final = HEADER.size
FLUSH_BYTES: Final = 1 << 18
READ_BYTES: Final = 1 << 18

_FOOTER = Struct("<QQQ")
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Piece = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a finished file."""

    records: int
    payload_bytes: int
    commit_time: int  # the latest of its transactions, seconds at the source


class SpoolWriter:
    """Appends records to a new file; a record is readable at its offset after `flush`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: list[Piece] = []
        self._held_bytes = 0
        self._end = 0
        self._records = 0
        self._payload_bytes = 0
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _not_written(path, error) from error
        self._open = True

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self._end

    def append(self, *pieces: Piece) -> int:
        """Append a record whose payload is the concatenated pieces; returns its offset.

        Raises DMError when the disk is full.
        """
        at, length, crc = self._end, 0, 0
        for piece in pieces:
            length += len(piece)
            crc = crc32(piece, crc)
        self._add(MAGIC, length, crc, pieces)
        self._records += 1
        self._payload_bytes += length
        return at

    def _add(self, magic: int, length: int, crc: int, pieces: tuple[Piece, ...]) -> None:
        self._held.append(HEADER.pack(magic, length, crc))
        self._end += HEADER_SIZE + length
        if length < FLUSH_BYTES:
            # A copy: a view would keep the whole event, and the socket's buffer under it, alive.
            self._held.extend([bytes(piece) for piece in pieces])
            self._held_bytes += HEADER_SIZE + length
            if self._held_bytes >= FLUSH_BYTES:
                self.flush()
            return
        self.flush()
        for piece in pieces:
            self._write(piece)

    def flush(self) -> None:
        """Hand everything to the operating system, so that readers find it."""
        if self._held:
            held = b"".join(self._held)
            self._held = []
            self._held_bytes = 0
            self._write(held)

    def sync(self) -> None:
        """Force everything to the disk, including the file's name: it survives a crash of the host."""
        self.flush()
        try:
            os.fsync(self._descriptor)
            directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise _not_written(self.path, error) from error

    def finish(self, commit_time: int) -> None:
        """Write the footer; nothing is appended after it."""
        payload = _FOOTER.pack(self._records, self._payload_bytes, commit_time)
        self._add(FOOTER_MAGIC, len(payload), crc32(payload), (payload,))
        self.flush()

    def close(self) -> None:
        """Close the file; drops what was not flushed."""
        if self._open:
            self._open = False
            with suppress(OSError):  # a late error of the file system: only `sync` promises durability
                os.close(self._descriptor)

    def _write(self, piece: Piece) -> None:
        left = memoryview(piece)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            raise _not_written(self.path, error) from error


class SpoolReader:
    """Reads records of a file, repeatedly and from several threads at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise DMError("spool-damaged", file=path, offset=0, what="it can't be opened") from error
        self._open = True

    def size(self) -> int:
        """Bytes of the file now."""
        return os.fstat(self._descriptor).st_size

    def record(self, offset: int) -> bytes:
        """The payload of the record at an offset; raises DMError when it is damaged."""
        return next(self.records(offset, self.size()))

    def records(self, start: int, end: int) -> Iterator[bytes]:
        """The payloads of all records from one offset to another; raises DMError at the first damaged one.

        `end` is the end of a record, as the writer returned it, or the end of the file; a footer in between ends it
        too.
        """
        window, base = b"", start
        at = start
        while at < end:
            if at + HEADER_SIZE > base + len(window):
                window, base = self._read(at, min(READ_BYTES, end - at)), at
            if len(window) - (at - base) < HEADER_SIZE:
                raise self._damaged(at, "it ends inside the front of a record")
            magic, length, crc = HEADER.unpack_from(window, at - base)
            if magic not in (MAGIC, FOOTER_MAGIC):
                raise self._damaged(at, "no record begins there")
            if at + HEADER_SIZE + length > end:
                raise self._damaged(at, f"a record of {length} bytes does not fit in")
            body = at + HEADER_SIZE
            if body + length <= base + len(window):
                payload = window[body - base : body - base + length]
            else:
                payload = self._read(body, length)
            if len(payload) != length or crc32(payload) != crc:
                raise self._damaged(at, "its checksum is wrong")
            if magic == FOOTER_MAGIC:
                return
            yield payload
            at = body + length

    def footer(self) -> Footer | None:
        """The file's footer; None when the writer did not finish it."""
        size = HEADER_SIZE + _FOOTER.size
        at = self.size() - size
        if at < 0:
            return None
        data = self._read(at, size)
        magic, length, crc = HEADER.unpack_from(data)
        payload = data[HEADER_SIZE:]
        if magic != FOOTER_MAGIC or length != _FOOTER.size or crc32(payload) != crc:
            return None
        return Footer(*_FOOTER.unpack(payload))

    def close(self) -> None:
        """Close the file."""
        if self._open:
            self._open = False
            os.close(self._descriptor)

    def _read(self, at: int, count: int) -> bytes:
        try:
            found = os.pread(self._descriptor, count, at)
            if len(found) in (count, 0):
                return found
            pieces = [found]  # one call returns 2 GiB at most, and a signal may cut it short
            while found:
                at += len(found)
                count -= len(found)
                found = os.pread(self._descriptor, count, at)
                pieces.append(found)
            return b"".join(pieces)
        except OSError as error:
            raise self._damaged(at, "it can't be read") from error

    def _damaged(self, offset: int, what: str) -> DMError:
        return DMError("spool-damaged", file=self.path, offset=offset, what=what)


def _not_written(path: Path, error: OSError) -> DMError:
    name = "spool-full" if error.errno in _NO_ROOM else "spool-not-written"
    return DMError(name, file=path)


_MAP = Struct("<cIB")  # M, number, flavour
_NO_ID: Final = bytes(TABLE_ID_SIZE)
_CONTENT: Final = _MAP.size + TABLE_ID_SIZE
_ROWS = Struct("<cBBHIQII")  # E, kind, partial, flags, table map, table id, columns, time
_STATEMENT = Struct("<cIIIHIIQ")  # S, time, thread, seconds, error, bytes of session and schema, start
RECORDS: Final = b"MESTCD"
"""How records begin; rows began with R before they had a time."""
_STATEMENTS: Final = b"STCD"  # by two bits: on temporary tables, inside a transaction
_KINDS: Final[tuple[RowsKind, ...]] = ("insert", "update", "delete")


class ItemWriter:
    """Writes the items of one transaction; keeps its table maps, so that a reader gets the same objects."""

    def __init__(self, writer: SpoolWriter) -> None:
        self.start = writer.end
        self.maps: list[TableMap] = []
        self._writer = writer
        self._numbers: dict[int, int] = {}

    def append(self, item: Item) -> None:
        """Write one; raises DMError when the disk is full."""
        if isinstance(item, StatementItem):
            self._statement(item)
            return
        rows = item.rows
        kind = _KINDS.index(rows.kind)
        front = _ROWS.pack(
            b"E", kind, rows.partial, rows.flags, self._number(item.table_map), rows.table_id, rows.column_count,
            rows.timestamp,
        )  # fmt: skip
        self._writer.append(front, rows.present, rows.present_after, rows.body)

    def _number(self, table_map: TableMap) -> int:
        number = self._numbers.get(id(table_map))
        if number is None:
            number = self._numbers[id(table_map)] = len(self.maps)
            self.maps.append(table_map)
            self._writer.append(_MAP.pack(b"M", number, FLAVORS.index(table_map.flavor)), _NO_ID, table_map.content)
        return number

    def _statement(self, item: StatementItem) -> None:
        query = item.query
        session, schema = repr(astuple(query.session)).encode(), query.schema.encode()
        kind = query.uses_temporary + 2 * query.in_transaction
        what = _STATEMENTS[kind : kind + 1]
        front = _STATEMENT.pack(
            what, query.timestamp, query.thread_id, query.exec_time, query.error_code, len(session), len(schema),
            item.start,
        )  # fmt: skip
        self._writer.append(front, session, schema, query.sql)


def read_maps(records: Iterable[bytes]) -> list[TableMap]:
    """The table maps of one transaction, for a reader that needs the same objects at each reading."""
    return [
        parse_table_map(ByteCursor(record, _CONTENT), FLAVORS[_MAP.unpack_from(record)[2]])
        for record in records
        if record[0] == 0x4D  # M
    ]


def read_items(records: Iterable[bytes], maps: list[TableMap] | None = None) -> Iterator[Item]:
    """The items of one transaction, in order; with the writer's own table maps if they still exist."""
    known = [] if maps is None else maps
    sessions: dict[bytes, QuerySession] = {}
    for record in records:
        what = record[0]
        if what == 0x45:  # E
            _, kind, partial, flags, number, table_id, count, _ = _ROWS.unpack_from(record)
            data = record[_ROWS.size - TIME_SIZE :]
            at = TIME_SIZE
            width = (count + 7) >> 3
            present, present_after = data[at : at + width], data[at + width : at + 2 * width]
            at += 2 * width
            images = (present, present_after, data, at, len(data))
            yield RowsItem(known[number], Rows(_KINDS[kind], table_id, count, *images, flags, bool(partial)))
        elif what == 0x4D:  # M
            if maps is None:
                _, _, server = _MAP.unpack_from(record)
                known.append(parse_table_map(ByteCursor(record, _CONTENT), FLAVORS[server]))
        else:
            yield _statement(record, sessions)


def _statement(record: bytes, sessions: dict[bytes, QuerySession]) -> StatementItem:
    what, timestamp, thread_id, exec_time, error_code, session_size, schema_size, start = _STATEMENT.unpack_from(record)
    at = _STATEMENT.size
    text = record[at : at + session_size]
    at += session_size
    session = sessions.get(text)
    if session is None:
        session = sessions[text] = QuerySession(*ast.literal_eval(text.decode()))
    schema = record[at : at + schema_size].decode()
    kind = _STATEMENTS.index(what)
    query = Query(
        schema, record[at + schema_size :], session, timestamp, thread_id, exec_time, error_code,
        bool(kind & 1), bool(kind & 2),
    )  # fmt: skip
    return StatementItem(query, start)
