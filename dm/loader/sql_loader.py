"""The work of the Spark tasks that load SQL dump files: a file, or some small ones, each cut into transactions.

Problem: a file may be larger than a transaction should be, its statements are only found by reading it, and a run that
is killed must go on after what is committed.

Statements are gathered until they are some megabytes, a part; that depends on nothing but the file, so each run finds
the same parts. (A file that somebody has corrected meanwhile may be cut elsewhere, which the parts' sizes tell.) A part
is one transaction with its record in it (`dm.progress.load_parts`), and the last one also enters the end of the
file, so that a finished file is not read again.

A file of ours is compared with its checksum before the first row of it is sent. One of another program has none; a
file that was cut off is noticed when its end is reached, and then its table is not complete and the task says so.

`SET NAMES binary` means two things. mydumper's own sessions are binary, so its texts are in each column's character
set, as they were stored. dumpling reads in utf8mb4 (its connections' collation) and writes the same words above that;
bytes it writes in hexadecimal. To take its texts for what is stored would change every letter beyond ASCII of a latin1
column. They are told apart by their headers: mydumper turns off foreign key checks after SET NAMES, and names a time
zone; dumpling does neither.

TiDB keeps latin1 columns in UTF-8 and takes the bytes of a literal as they are, whatever SET NAMES says. A file holds
such a text in latin1: a binary file (ours, mydumper's) in these columns, a file that names latin1 in all. So the
literals of these columns are found, value by value, and written again in UTF-8.

The rules for quotes are those of `sql_source.py`. A value may be a call, so only commas between the parentheses of a
row begin another column.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Final

from dm import faults
from dm.changes.computing import PADDING
from dm.config.endpoint import Endpoint
from dm.downstream.apply import Attempts
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.literals import SqlTrailer, read_trailer
from dm.dumpfiles.storage import DumpStorage
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.part_writer import statement_frame, without_checks
from dm.loader.sql_source import InsertStatement, NotUnderstood, Setting, SqlSource, SqlText, opened, understand
from dm.loader.tally import OnDuplicate, Tally
from dm.mysql.binlog.charset import decoder_of
from dm.mysql.schema.table import Column
from dm.pace.handle import PaceHandle
from dm.progress.load_parts import (
    NO_DUPLICATES,
    Duplicates,
    LoadRun,
    PartKey,
    claim_part,
    join_run,
    note_duplicates,
    note_size,
)
from dm.session.answers import reads_answers
from dm.session.state import lenient as lenient_mode

FILE_END: Final = (1 << 32) - 1  # the number of the part that stands for the end of a file

_PART_BYTES: Final = 1 << 24
_BLOCK: Final = 1 << 20
_PACKET_MARGIN: Final = 1 << 10


@dataclass(frozen=True, slots=True)
class FileTask:
    """One file to load."""

    table: TableName  # of the source
    generation: int
    chunk: int
    file: str
    size: int
    destination: Destination
    columns: tuple[Column, ...]  # that a statement without a list of columns means
    rows: int  # 0: not known
    ours: bool  # it has a trailer
    time_zone: str = "+00:00"  # where the file names none
    done: Mapping[int, int] = field(default_factory=dict)  # parts that are in the target, and their bytes
    recoded: bool = False  # in utf8mb4 some values are other bytes than in the table, or JSON

    def part(self, number: int) -> PartKey:
        """The record of a part."""
        return PartKey(self.table, self.generation, self.chunk, number)


@dataclass(frozen=True, slots=True)
class FileResult:
    """A file whose rows are in the target."""

    table: TableName
    file: str
    rows: int  # those that are known of, else those that this run has written
    size: int
    duplicates: Duplicates = NO_DUPLICATES  # that this run has met


@dataclass
class _PendingStatements:
    """Statements of one transaction."""

    rows: list[tuple[InsertStatement, int]] = field(default_factory=list)  # each with its offset
    size: int = 0

    def add(self, statement: InsertStatement, offset: int) -> None:
        self.rows.append((statement, offset))
        self.size += len(statement.text)


@dataclass(frozen=True)
class FileLoader:
    """Loads files, each part once."""

    endpoint: Endpoint
    storage: DumpStorage
    run: LoadRun
    on_duplicate: OnDuplicate = "replace"
    pace: PaceHandle | None = None

    def __call__(self, tasks: tuple[FileTask, ...]) -> tuple[FileResult, ...]:
        """Put the files into the target; when this returns, their rows are there exactly once."""
        return tuple(self._file(task) for task in tasks)

    def _file(self, task: FileTask) -> FileResult:
        # A session of its own for each: files set variables of it.
        trailer = checked_trailer(self.storage, task.file) if task.ours else None
        connection = TargetConnection(self.endpoint)
        try:
            join_run(connection, self.run)
            mode = connection.has("sql_mode")
            if trailer is not None and trailer.error_values:
                mode = lenient_mode(mode)
            if task.destination.settings.pads:
                mode = f"{mode},{PADDING}"
            connection.execute("SET SESSION foreign_key_checks = 0")
            connection.set({"sql_mode": mode, "time_zone": task.time_zone})
            with without_checks(connection) if task.destination.unjudged else nullcontext():
                tally = self._load(connection, task, trailer)
        finally:
            connection.close()
        return FileResult(task.table, task.file, task.rows or tally.rows, task.size, tally.duplicates)

    @reads_answers
    def _load(self, connection: TargetConnection, task: FileTask, trailer: SqlTrailer | None) -> Tally:
        largest = int(connection.query("SELECT @@max_allowed_packet")[0][0]) - _PACKET_MARGIN
        errors = 0 if trailer is None else trailer.error_values
        enums = tuple(column.name for column in task.destination.columns if column.type.is_enum)
        into = task.destination
        loaded = (*(column.name for column in into.columns), *(column.name for column, _ in into.same))
        tally = Tally(
            connection,
            self.run,
            task.table,
            into.target,
            into.unique,
            "error" if into.mapped_keys or into.own_keys else self.on_duplicate,  # `replaced_rows.py`
            errors,
            enums,
            loaded,
            into.computed,
        )
        shown = self.storage.shown(task.file)
        sender = _Sender(tally, task, shown, largest, self.pace)
        number = 0
        part = _PendingStatements()
        with opened(self.storage, task.file) as read:
            for text in SqlSource(read, shown, largest):
                rows = sender.take(text)
                if rows is None:
                    continue
                part.add(rows, text.offset)
                if part.size >= _PART_BYTES:
                    self._commit(connection, task, number, part, sender, end=False)
                    number, part = number + 1, _PendingStatements()
        self._commit(connection, task, number, part, sender, end=True)
        return tally

    def _commit(
        self,
        connection: TargetConnection,
        task: FileTask,
        number: int,
        part: _PendingStatements,
        sender: _Sender,
        *,
        end: bool,
    ) -> None:
        if task.done.get(number, part.size) != part.size:
            why = f"an earlier run has loaded {task.done[number]} bytes of it that are now {part.size}"
            raise DMError("dump-file-damaged", file=sender.shown, why=why)
        if number in task.done and not end:
            return
        attempts, tally = Attempts(), sender.tally
        while True:
            before = replace(tally)
            try:
                self._write(connection, task, number, part, sender, end=end)
                return
            except DMError as error:
                if not attempts.again(error):
                    raise
                connection.rollback()
                tally.rows, tally.warnings, tally.duplicates = before.rows, before.warnings, before.duplicates

    def _write(
        self,
        connection: TargetConnection,
        task: FileTask,
        number: int,
        part: _PendingStatements,
        sender: _Sender,
        *,
        end: bool,
    ) -> None:
        connection.begin()
        fresh = claim_part(connection, self.run, task.part(number), 0, part.size, task.destination.target)
        if end:
            claim_part(connection, self.run, task.part(FILE_END), 0, 0, task.destination.target)
        if fresh:
            connection.execute(f"SET NAMES {sender.charset}")
            rows_before, before = sender.tally.rows, sender.tally.duplicates
            for rows, offset in part.rows:
                sender.send(rows, offset)
            # How many they are the server has told.
            note_size(connection, self.run, task.part(number), sender.tally.rows - rows_before, part.size)
            note_duplicates(connection, self.run, task.part(number), sender.tally.duplicates - before)
            faults.hit("loader.chunk_inserted")
        connection.commit()
        faults.hit("loader.chunk_committed")


@dataclass
class _Sender:
    """Makes our statements of those of a file."""

    tally: Tally
    task: FileTask
    shown: str
    largest: int
    pace: PaceHandle | None
    charset: str = "binary"
    _named: bool = False  # the file has named a character set
    _stored: bool = False  # texts are what is stored, not utf8mb4
    _gathered: bool = False  # rows have been taken
    _frames: dict[tuple[str, ...], tuple[bytes, bytes]] = field(default_factory=dict)

    def take(self, text: SqlText) -> InsertStatement | None:
        """Rows to send; settings are made at once."""
        found = understand(text.text, self.task.table)
        if isinstance(found, InsertStatement):
            named = TableName(found.schema or self.task.table.schema, found.table)
            if named == self.task.table:
                if not (self._gathered or self._stored or self.task.ours) and self.task.recoded:
                    self.charset = "utf8mb4" if self.charset == "binary" else self.charset
                self._gathered = True
                return found
            found = NotUnderstood(f"rows of table {named} in a file of table {self.task.table}")
        if isinstance(found, Setting) and self._gathered and (found.sql or found.charset):
            found = NotUnderstood("a setting after rows")
        if isinstance(found, NotUnderstood):
            raise DMError("dump-file-not-understood", file=self.shown, offset=text.offset, why=found.why)
        if isinstance(found, Setting):
            self._stored |= found.name == "time_zone" or (found.name == "foreign_key_checks" and self._named)
            self._named |= bool(found.charset)
            self.charset = found.charset or self.charset
            if found.sql:
                self.tally.connection.execute(found.sql)
        return None

    def send(self, rows: InsertStatement, offset: int) -> None:
        """Execute one statement; raises DMError with the place in the file where the target refuses it."""
        head, tail = self._frame(rows.columns)
        statement = head + self._values(rows) + tail
        if len(statement) > self.largest:
            raise DMError("load-statement-too-large", file=self.shown, offset=offset, largest=self.largest)
        before = self.tally.rows
        try:
            self.tally.insert(statement)
        except DMError as error:
            place = f"statement at byte {offset} of {self.shown}"
            raise error.restated(position=place) from error
        if self.pace is not None:
            self.pace.ask(self.tally.rows - before, len(statement))  # how many rows it has the server has told

    def _values(self, rows: InsertStatement) -> bytes:
        values = rows.text[rows.rows_at :]
        if not self.tally.connection.dialect.stores_texts_in_utf8 or self.charset not in ("binary", CHARSET):
            return values
        columns = self.task.destination.columns
        names = rows.columns or [column.name for column in self.task.columns]
        return in_utf8(values, latin1_columns(columns, names, all_texts=self.charset == CHARSET))

    def _frame(self, columns: tuple[str, ...]) -> tuple[bytes, bytes]:
        if columns not in self._frames:
            listed = tuple(Column(name, "") for name in columns) or self.task.columns
            target, unique = self.task.destination.target, self.task.destination.unique
            self._frames[columns] = statement_frame(target, listed, self.tally.on_duplicate, unique=unique)
        return self._frames[columns]


def checked_trailer(storage: DumpStorage, name: str) -> SqlTrailer:
    """The trailer of a file of ours; raises DMError when the file is not what was written."""
    shown = storage.shown(name)
    try:
        digest = hashlib.sha256()
        with storage.open(name) as file:
            trailer = read_trailer(file, shown)
            file.seek(0)
            for block in _blocks(trailer.body):
                digest.update(file.read(block))
    except OSError as error:
        raise DMError("dump-file-damaged", file=shown, why=str(error)) from error
    if digest.hexdigest() != trailer.sha256:
        raise DMError("dump-file-damaged", file=shown, why="its checksum is another one")
    return trailer


def _blocks(size: int) -> Iterator[int]:
    while size > 0:
        yield min(size, _BLOCK)
        size -= _BLOCK


CHARSET: Final = "latin1"

_PIECE: Final = re.compile(
    rb"'(?:[^'\\]++|\\.)*+'|\"(?:[^\"\\]++|\\.)*+\"|[(),]|[^'\"(),]++", re.DOTALL
)  # a literal, what counts columns, or anything between


def latin1_columns(columns: Sequence[Column], names: Sequence[str], *, all_texts: bool) -> frozenset[int]:
    """Which of a statement's columns have texts in latin1; `all_texts`: the file is in latin1."""
    found = {
        column.name.lower()
        for column in columns
        if (column.type.has_charset and (all_texts or column.charset == CHARSET))
        or (column.type.is_document and all_texts)
    }
    return frozenset(at for at, name in enumerate(names) if name.lower() in found)


def in_utf8(rows: bytes, columns: Collection[int]) -> bytes:
    """The rows of an INSERT, `(value, ..), (..)`, with the literals of these columns in UTF-8."""
    return rows if rows.isascii() or not columns else b"".join(_recoded(rows, columns))


def _recoded(rows: bytes, columns: Collection[int]) -> Iterator[bytes]:
    decode = decoder_of(CHARSET)
    assert decode is not None
    depth = at = 0
    for found in _PIECE.finditer(rows):
        piece = found[0]
        if piece == b"(":
            depth, at = depth + 1, at if depth else 0
        elif piece == b")":
            depth -= 1
        elif piece == b",":
            at += depth == 1
        elif at in columns and piece[0] in b"'\"" and not piece.isascii():
            piece = (decode(piece) or "").encode()
        yield piece
