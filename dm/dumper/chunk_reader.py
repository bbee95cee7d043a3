"""The work of the Spark tasks of a dump: read one chunk into one file.

Everything here runs on executors. The endpoint, and with it the password, is inside the function that Spark pickles;
the items name tables and conditions only.

JSON documents of a chunk with the types that their texts leave out, as the server has given them.

A text that is longer than its max_allowed_packet the server gives as an empty one, and a list of types as NULL, each
with a warning that is gone with the statement. So neither may come: a document without its types would be loaded as
another one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path

import pyarrow
from pyarrow import compute

from dm.config.endpoint import Endpoint
from dm.dumper.asked_paths import PlainRows, Unproven, proven
from dm.dumper.chunk_file import ChunkSink, HashedFile, SqlForm, open_chunk_file
from dm.dumper.stored_values import StoredValues
from dm.dumpfiles.chunk_plan import (
    value_expression,
)
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.dump_files import ChunkFooter, read_footer
from dm.dumpfiles.literals import types_column
from dm.dumpfiles.storage import DumpStorage
from dm.dumpfiles.text_rows import ColumnBatch, Limits, read_all, read_batches
from dm.errors import REFUSED_STATEMENT, DMError
from dm.ident import Ident, TableName
from dm.mysql.schema.show import normal_structure
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.json_literal import NOTHING, types_expression
from dm.pace.handle import PaceHandle
from dm.position import Position
from dm.sourcelog.upstream.connection import Connection
from dm.sourcelog.upstream.facts import ServerFacts
from dm.sourcelog.upstream.snapshot import TableSnapshot

# Of a Parquet file: what a processor's cache holds, and little enough that the source goes on writing into the socket
# while a group is compressed. But each part of a load reads what the file's end says of all its groups, so a table that
# is one large chunk gets larger ones. A stream writes each batch by one statement, so larger ones pay.
_SMALL_GROUP, _SMALL_GROUPS = Limits(1 << 14, 1 << 22), 1000
_LARGE_GROUP = _STREAMED = Limits(1 << 16, 1 << 24)

# What a server says when a table is not what it was when the dump was planned: no such table, no such schema, no such
# column, no such index, definition changed under a snapshot, tablespace gone (DISCARD, or a rebuild under way).
_CHANGED = (1146, 1049, 1054, 1176, 1412, 1814, 1969)

_unproven: set[tuple[str, TableName]] = set()  # dumps and tables of which this process had to read a chunk again

ROWS_ONLY = "(rows) "  # where all columns are generated; no column of a server ends with a space


def row_groups() -> Iterator[Limits]:
    """The limits of a chunk file's row groups."""
    return chain(repeat(_SMALL_GROUP, _SMALL_GROUPS), repeat(_LARGE_GROUP))


def _is_refusal(error: DMError) -> bool:
    """Whether the server has read the statement and answered with an error."""
    return error.name in REFUSED_STATEMENT.values()


def is_changed(error: DMError) -> bool:
    """Whether the server's error means that the table is not the planned one any more."""
    return _is_refusal(error) and error.server_errno in _CHANGED


@dataclass(frozen=True, slots=True)
class ChunkTask:
    """One chunk to read."""

    table: TableName
    generation: int
    chunk: int
    columns: tuple[str, ...]
    select: str  # everything up to the WHERE
    condition: str
    file: str
    keyless: bool = False
    transactional: bool = True
    structure: str = ""  # of a keyless table: what it must be at its point
    sql: SqlForm | None = None  # None: a Parquet file
    destination: Destination | None = None  # where the rows go without a file
    stored: StoredValues | None = None  # what is asked of the table first
    plain: PlainRows | None = None  # where documents may be asked for by the paths that have numbers
    weight: float = 1.0  # estimated, as a share of a full chunk

    def __str__(self) -> str:
        return f"chunk {self.chunk} of {self.table}"


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What became of a chunk; `changed` when the table is not the planned one any more."""

    table: TableName
    generation: int
    chunk: int
    rows: int = 0
    size: int = 0
    changed: bool = False
    point: Position | None = None
    words: str = ""  # of the server that refused it as changed


def selected_columns(schema: TableSchema, *, json_types: bool = False) -> tuple[str, ...]:
    """The columns whose values are stored: all but the generated ones, which the target computes itself."""
    stored = [column for column in schema.columns if column.generated is None]
    types = [types_column(column.name) for column in stored if json_types and column.type.is_document]
    # A file without columns would not know how many rows it has.
    return (*(column.name for column in stored), *types) or (ROWS_ONLY,)


def select_text(schema: TableSchema, index: str | None, *, json_types: bool = False) -> str:
    """`SELECT .. FROM ..` of all stored values in their exact form, `json_types` with what JSON's text leaves out."""
    expressions = _values(schema)
    if json_types:
        documents = [column for column in schema.columns if column.type.is_document and column.generated is None]
        expressions += [types_expression(schema.name, column.name) for column in documents]
    # A table may have generated columns only; then the rows are counted by a constant.
    return f"SELECT {', '.join(expressions) or '1'}{_from(schema, index)}"


def plain_rows(schema: TableSchema, index: str | None) -> PlainRows:
    """The same in parts, without JSON's types."""
    documents = tuple(column.name for column in schema.columns if column.type.is_document and column.generated is None)
    return PlainRows(schema.name, documents, f"SELECT {', '.join(_values(schema))}", _from(schema, index))


def _from(schema: TableSchema, index: str | None) -> str:
    hint = f" FORCE INDEX ({Ident(index).sql})" if index else ""
    return f" FROM {schema.name.sql}{hint}"


def _values(schema: TableSchema) -> list[str]:
    expressions = []
    for column in schema.columns:
        if column.generated is None:
            # A BIT's own bytes are what an INSERT takes; only as a bound it must be a number.
            expressions.append(Ident(column.name).sql if column.type.is_bits else value_expression(column))
    return expressions


def shared_marker(directory: Path, dump_id: str) -> Path:
    """A file by which workers know that they see the driver's directory, and not one of their own of the same name."""
    return directory / f".{dump_id}.shared.tmp"


def report_file(directory: Path, chunk_file: str) -> Path:
    """Where a worker says how far it is with a chunk; the driver reads it now and then, and nothing depends on it."""
    return directory / f".{chunk_file}.progress.tmp"


def report(directory: Path, chunk_file: str, rows: int, size: int, sha256: str = "") -> None:
    """Say how far a chunk is; the checksum when its file is in its place."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(report_file(directory, chunk_file), flags, 0o600), "w", encoding="ascii") as file:
        file.write(f"{rows} {size} {sha256}\n")


def read_report(directory: Path, chunk_file: str) -> tuple[int, int]:
    """Rows and bytes of a chunk that is being read; zeros when nobody has said anything."""
    try:
        rows, size, *_ = report_file(directory, chunk_file).read_text(encoding="ascii").split()
        return int(rows), int(size)
    except (FileNotFoundError, ValueError):  # not begun, or caught in the middle of being written
        return 0, 0


def reported_checksum(directory: Path, chunk_file: str) -> str | None:
    """The checksum of a chunk's file, if its writer's last word is still there."""
    try:
        words = report_file(directory, chunk_file).read_text(encoding="ascii").split()
    except (FileNotFoundError, ValueError):
        return None
    return words[2] if len(words) == 3 else None


@dataclass(frozen=True)
class ChunkReader:
    """Reads a chunk and leaves it as a file."""

    endpoint: Endpoint
    facts: ServerFacts
    storage: DumpStorage
    dump_id: str
    where: str = ""
    sink: ChunkSink | None = None
    pace: PaceHandle | None = None

    def demand_shared(self) -> None:
        """Raise DMError where the directory to report and to meet in is not the one that the driver sees."""
        if not self._shared:
            raise DMError("dump-directory-not-shared", directory=self.storage.work, host=socket.gethostname())

    def demand_reach(self) -> None:
        """Raise DMError where the files would be in another place than the driver's."""
        if not self.storage.everywhere:
            self.demand_shared()

    @property
    def _shared(self) -> bool:
        return shared_marker(self.storage.work, self.dump_id).exists()

    def _report(self, task: ChunkTask, rows: int, size: int, sha256: str = "") -> None:
        if not self.storage.everywhere or self._shared:
            report(self.storage.work, task.file, rows, size, sha256)

    def finished(self, task: ChunkTask) -> ChunkResult | None:
        """The chunk as an earlier attempt has left it; None when it has to be read."""
        if task.destination is not None:
            return None  # whoever writes it finds its record
        footer = read_footer(self.storage, task.file)
        if footer is None or footer.dump_id != self.dump_id:
            return None
        return ChunkResult(task.table, task.generation, task.chunk, footer.rows, footer.size, point=footer.point)

    def read(self, connection: Connection, task: ChunkTask) -> ChunkResult:
        """Read the chunk through a session of the caller's, in whichever snapshot that has."""
        with self._condition_told(connection, task):
            self._demand_stored(connection, task)
            if task.destination is not None:
                return self._stream(task, task.destination, connection)
            return self._write(task, connection, None, None)

    def read_snapshot(self, snapshot: TableSnapshot, task: ChunkTask) -> ChunkResult:
        """Read the only chunk of a table as of the snapshot's point; `changed` if it is not the planned table then."""
        if normal_structure(snapshot.structure) != normal_structure(task.structure):
            return ChunkResult(task.table, task.generation, task.chunk, changed=True)
        with self._condition_told(snapshot.connection, task):
            self._demand_stored(snapshot.connection, task)
            return self._write(task, snapshot.connection, snapshot.point, snapshot.structure)

    def _demand_stored(self, connection: Connection, task: ChunkTask) -> None:
        if task.stored is not None:
            task.stored.demand(connection, "" if task.condition == "1" else task.condition, self.where)

    def close(self) -> None:
        """End the session of the target, if a chunk needed one."""
        if self.sink is not None:
            self.sink.close()

    def _batches(self, task: ChunkTask, connection: Connection, limits: Iterator[Limits]) -> Iterator[ColumnBatch]:
        return demanded_whole(read_batches(connection, self._query(task), limits), task.columns, task.table)

    def _query(self, task: ChunkTask) -> str:
        return f"{task.select}{self._where(task.condition, self.where)}"

    @staticmethod
    def _where(*texts: str) -> str:
        conditions = [f"({text})" for text in texts if text and text != "1"]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    @contextmanager
    def _condition_told(self, connection: Connection, task: ChunkTask) -> Iterator[None]:
        """Tell what is wrong in the user's condition from a table that has changed."""
        try:
            yield
        except DMError as error:
            if not self.where or not _is_refusal(error):
                raise
            # Asked again, since a table may be away for a moment.
            plain = f"{task.select}{self._where(task.condition)} LIMIT 0"
            if (
                self._refused(connection, plain)
                or not self._refused(connection, f"{self._query(task)} LIMIT 0")
                or self._refused(connection, plain)
            ):
                raise
            raise DMError("dump-where-refused", table=task.table, where=self.where, cause=error.cause) from error

    @staticmethod
    def _refused(connection: Connection, query: str) -> bool:
        try:
            read_all(connection, query)
        except DMError as error:
            if not _is_refusal(error):
                raise
            return True
        return False

    def _stream(self, task: ChunkTask, destination: Destination, connection: Connection) -> ChunkResult:
        assert self.sink is not None

        def batches() -> Iterator[ColumnBatch]:
            rows = size = 0
            most = None if self.pace is None else self.pace.rows_at_once()
            limits = _STREAMED if most is None else Limits(min(_STREAMED.rows, most), _STREAMED.size)
            for batch in self._batches(task, connection, repeat(limits)):
                yield batch  # whoever writes it asks for leave
                rows += batch.rows
                size += batch.size
                self._report(task, rows, size)

        rows, size = self.sink.write(task.table, task.generation, task.chunk, destination, batches())
        return ChunkResult(task.table, task.generation, task.chunk, rows, size)

    def _write(
        self, task: ChunkTask, connection: Connection, point: Position | None, structure: str | None
    ) -> ChunkResult:
        known = (self.dump_id, task.table)
        query = None
        if task.plain is not None and known not in _unproven:
            query = task.plain.asking_by_paths(connection, self._where(task.condition, self.where))
        if query is not None:
            pairs = [(document, types) for _, document, types in _typed(task.columns)]
            answer = read_batches(connection, query, row_groups())
            batches = proven(answer, pairs)
            try:
                return self._written(task, demanded_whole(batches, task.columns, task.table), point, structure)
            except Unproven:
                _unproven.add(known)
                for batch in answer:  # it is on its way through the session, which has a snapshot to keep
                    self._keep_pace(batch)
        return self._written(task, self._batches(task, connection, row_groups()), point, structure)

    def _keep_pace(self, batch: ColumnBatch) -> None:
        if self.pace is not None:
            self.pace.ask(batch.rows, batch.size)

    def _written(
        self, task: ChunkTask, batches: Iterator[ColumnBatch], point: Position | None, structure: str | None
    ) -> ChunkResult:
        rows = size = 0
        with self.storage.writing(), self.storage.create(task.file) as file:
            hashed = HashedFile(file)
            with open_chunk_file(hashed, task.columns, task.sql) as chunk:
                for batch in batches:
                    self._keep_pace(batch)
                    chunk.add(batch)
                    rows += batch.rows
                    size += batch.size
                    self._report(task, rows, size)
                chunk.end(
                    ChunkFooter(self.dump_id, task.table, task.generation, task.chunk, rows, size, point, structure)
                )
            # Where another worker was first, its file may have other bytes.
            if file.publish():
                self._report(task, rows, size, hashed.sha256)
        return ChunkResult(task.table, task.generation, task.chunk, rows, size, point=point)


def demanded_whole(batches: Iterable[ColumnBatch], columns: Sequence[str], table: TableName) -> Iterator[ColumnBatch]:
    """The batches, with no types (NULL) for documents whose text says everything. Raises DMError where one was cut."""
    typed = _typed(columns)
    for batch in batches:
        for name, document, types in typed:
            texts, listed = batch.columns[document], batch.columns[types]
            if listed.null_count or compute.any(compute.equal(texts, b"")).as_py():
                raise DMError("dump-json-cut", table=table, column=name)
            batch.columns[types] = _without_nothing(listed)
        yield batch


def _typed(columns: Sequence[str]) -> list[tuple[str, int, int]]:
    """The documents whose types are among the columns, with the places of both."""
    places = {name: at for at, name in enumerate(columns)}
    return [(name, places[name], places[types_column(name)]) for name in columns if types_column(name) in places]


def _without_nothing(listed: pyarrow.Array) -> pyarrow.Array:
    nothing = compute.equal(listed, NOTHING)
    if compute.all(nothing).as_py():
        return pyarrow.nulls(len(listed), listed.type)
    return compute.if_else(nothing, None, listed)
