"""Rows of a part as the data of LOAD DATA LOCAL, which the server takes with less work than an INSERT.

The data come from memory: `TargetConnection.send_data` answers the server's request with what it was given, whatever
file the server names. Values are the bytes that the source sent (`CHARACTER SET binary`), with four escapes. Where a
value can't be taken as bytes, it goes through a variable and a SET clause; the reasons are those of
`dm.dumpfiles.literals`.

LOAD DATA LOCAL makes warnings of errors and leaves out rows whose key is there, so its answer is looked at more closely
than an INSERT's: records read, rows deleted, rows skipped, warnings. Nothing is committed unless they are as expected.

What remains for INSERT:

- `on-duplicate-logical: ignore`: each row that is not taken would be a warning, and the server counts 65535 of them;
- JSON documents with types of their own, which are expressions;
- a table that has an AUTO_INCREMENT column, where `innodb_autoinc_lock_mode` is below 2 (MariaDB's default): there a
  LOAD DATA locks the counter until its end, and parts of a table would be loaded one after the other;
- rows without any stored column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import pyarrow
from pyarrow import compute

from dm.accelerator.native import Native, shared
from dm.accelerator.switch import Twins
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.chunk_plan import counted
from dm.dumpfiles.literals import sliced
from dm.ident import Ident, TableName
from dm.mysql.schema.table import Column, TableSchema
from dm.session.answers import reads_answers

_ESCAPES = ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"))
_PACKET = 1 << 20


@dataclass(frozen=True, slots=True)
class LocalDataAdmission:
    """What the target says about LOAD DATA LOCAL."""

    admitted: bool
    counters_interleave: bool

    @classmethod
    @reads_answers
    def ask(cls, connection: TargetConnection) -> LocalDataAdmission:
        """The server's settings."""
        if not connection.dialect.takes_local_data:
            return cls(False, True)
        names = "'local_infile', 'innodb_autoinc_lock_mode'"
        shown = connection.query(f"SHOW VARIABLES WHERE Variable_name IN ({names})")
        found = {str(name).lower(): str(value) for name, value in shown}
        return cls(found.get("local_infile") in ("ON", "1"), found.get("innodb_autoinc_lock_mode", "2") == "2")

    def of(self, target: TableSchema) -> bool:
        """Whether the table's rows may come so, and its parts do not wait for each other."""
        counting = any(column.auto_increment for column in target.columns)
        return self.admitted and (self.counters_interleave or not counting)


def load_statement(
    target: TableName, columns: Sequence[Column], constants: Sequence[tuple[Column, bytes]], *, replace: bool
) -> bytes:
    """The LOAD DATA statement for rows of these columns; `constants` are what all rows have, as SQL."""
    places, settings = [], []
    for at, column in enumerate(columns):
        name = Ident(column.name).sql
        value = _converted(column, f"@v{at}")
        places.append(name if value is None else f"@v{at}")
        if value is not None:
            settings.append(f"{name} = {value}".encode())
    settings += [f"{Ident(column.name).sql} = ".encode() + literal for column, literal in constants]
    text = (
        f"LOAD DATA LOCAL INFILE 'part' {'REPLACE ' if replace else ''}INTO TABLE {target.sql} CHARACTER SET binary"
        rf" FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' ({', '.join(places)})"
    )
    return text.encode() + (b" SET " + b", ".join(settings) if settings else b"")


def _converted(column: Column, variable: str) -> str | None:
    """The expression that makes the value of what was read; None where the column takes it as it is."""
    if column.type.text_charset is not None:
        return f"CONVERT({variable} USING {column.type.text_charset})"
    if counted(column):
        return f"CAST({variable} AS UNSIGNED)"
    return None


def packets(batch: pyarrow.RecordBatch, columns: Sequence[Column], most: int) -> Iterator[bytes]:
    """The rows as the server reads them, in pieces of about a megabyte, and of `most` bytes at most.

    `columns` are the first ones of the batch.
    """
    step = min(2 * _PACKET, most)  # a packet of the protocol ends below 16 MiB
    for data in _TWINS()(batch, columns):
        for at in range(0, len(data), step):
            yield data[at : at + step]


@shared
class ArrowColumn(NamedTuple):
    """A column's buffers."""

    valid: Any  # a bit per value, or None
    offsets: Any
    values: Any
    first: int  # where the column begins in them

    @classmethod
    def of(cls, column: pyarrow.Array) -> ArrowColumn:
        """The buffers of a column of bytes."""
        valid, offsets, values = column.buffers()
        return cls(valid, offsets, values or b"", column.offset)


class _Lines(Protocol):
    """The loop over the rows."""

    def __call__(self, batch: pyarrow.RecordBatch, columns: Sequence[Column], /) -> Iterator[bytes]:
        """The lines, many at a time."""
        ...


def _compiled(native: Native) -> _Lines:
    """The lines, made by the extension of Arrow's buffers."""

    def lines(batch: pyarrow.RecordBatch, columns: Sequence[Column]) -> Iterator[bytes]:
        given = tuple(ArrowColumn.of(column) for column in batch.columns[: len(columns)])
        row = 0
        while row < batch.num_rows:
            data, row = native.local_data(given, row, batch.num_rows, _PACKET)
            yield data

    return lines


def _joined(batch: pyarrow.RecordBatch, columns: Sequence[Column]) -> Iterator[bytes]:
    """The lines, joined by Arrow."""
    pending: list[bytes] = []
    size = 0
    for piece in sliced(batch):
        if piece.num_rows == 0:
            continue
        fields = [_fields(piece.column(at), column) for at, column in enumerate(columns)]
        for line in compute.binary_join_element_wise(*fields, pyarrow.scalar(b"\t", pyarrow.binary())).to_pylist():
            pending.append(line)
            size += len(line) + 1
            if size >= _PACKET:
                yield b"\n".join(pending) + b"\n"
                pending, size = [], 0
    if pending:
        yield b"\n".join(pending) + b"\n"


def _fields(values: pyarrow.Array, column: Column) -> pyarrow.Array:
    if not column.type.plain_text:
        for character, escape in _ESCAPES:
            values = compute.replace_substring(values, pattern=character, replacement=escape)
    return compute.fill_null(values, pyarrow.scalar(b"\\N", pyarrow.binary()))


_TWINS: Final[Twins[_Lines]] = Twins(_joined, _compiled)
