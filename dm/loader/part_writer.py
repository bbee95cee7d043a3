"""Loading one part: Spark tasks write its rows into a table of the target, a transaction per part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow
from pyarrow import parquet

from dm import faults
from dm.changes.computing import PLAIN
from dm.config.endpoint import Endpoint
from dm.downstream.apply import Attempts
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.literals import TypedDocuments, error_values, row_literals, types_column
from dm.dumpfiles.storage import DumpStorage
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.loader.local_data import load_statement, packets
from dm.loader.replaced_rows import EqualKeys, ReplacedRows
from dm.loader.tally import MOST_WARNINGS, OnDuplicate, Tally
from dm.mysql.dialect.pair import both_skip_checks
from dm.mysql.schema.parse import check_conditions
from dm.mysql.schema.table import Column
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.json_literal import CHECK_FAILED_AT_MARIADB, DEEPEST_AT_MARIADB, depth_of
from dm.mysql.sql.literal import statements
from dm.pace.handle import PaceHandle
from dm.progress.load_parts import (
    NO_DUPLICATES,
    Duplicates,
    LoadRun,
    PartKey,
    claim_part,
    join_run,
    note_duplicates,
)
from dm.session.answers import reads_answers, understood
from dm.session.state import lenient as lenient_mode

# Gives the rows with the columns of these names, again each time it is called.
Rows = Callable[[Sequence[str]], Iterable[pyarrow.RecordBatch]]

_STATEMENT_BYTES = 1 << 18  # the fastest of 64 KiB, 256 KiB and 1 MiB
_PACKET_MARGIN = 1 << 10
_IN_UTF8: Final = ("latin1",)  # where texts are kept so
_ROW_BYTES = 4  # of the shortest row, with what is between it and the next: (1),
# By the server's setting, by its way of being built, or by MariaDB's words for the first.
_LOCAL_REFUSED: Final = (1148, 3948, 4166)


def statement_frame(
    target: TableName, columns: tuple[Column, ...], on_duplicate: OnDuplicate, *, unique: bool
) -> tuple[bytes, bytes]:
    """What stands before and after the rows of a statement."""
    names = [Ident(column.name).sql for column in columns]
    verb = "REPLACE" if unique and on_duplicate == "replace" else "INSERT"
    tail = ""
    if unique and names and on_duplicate == "ignore":
        # Not INSERT IGNORE: that turns errors into warnings and stores what it made of the value.
        tail = f" ON DUPLICATE KEY UPDATE {names[0]} = {names[0]}"
    return f"{verb} INTO {target.sql} ({', '.join(names)}) VALUES ".encode(), tail.encode()


@dataclass(frozen=True)
class PartWriter:
    """Writes through one session."""

    connection: TargetConnection
    run: LoadRun
    on_duplicate: OnDuplicate
    source_table: TableName
    destination: Destination
    source: Endpoint
    pace: PaceHandle | None = None

    def write(self, rows: Rows, *, typed: bool) -> Tally:
        """`_write_exactly`, without a look at CHECKs where these are the source's own."""
        with without_checks(self.connection) if self.destination.unjudged else nullcontext():
            return self._write_exactly(rows, typed=typed)

    def _write_exactly(self, rows: Rows, *, typed: bool) -> Tally:
        """Write the rows in the way that takes them all exactly, the quicker one where both do.

        `typed` where the rows come with the types inside their JSON documents. Raises DMError where a row would go for
        one that the source does not take as equal.
        """
        settings, mode = self.destination.settings, self.connection.has("sql_mode")
        if settings == PLAIN:
            return self._write_all(rows, typed=typed)
        zone = settings.zone or self.connection.has("time_zone")
        with self.connection.as_set({"time_zone": zone, "sql_mode": settings.mode(mode)}):
            return self._write_all(rows, typed=typed)

    def _write_all(self, rows: Rows, *, typed: bool) -> Tally:
        connection, into = self.connection, self.destination
        if not (into.mapped_keys or into.own_keys):
            return self._write(rows, typed=typed)
        connection.execute("SAVEPOINT dm_rows")
        tally = self._write(rows, typed=typed)
        if tally.duplicates == NO_DUPLICATES:
            return tally
        connection.execute("ROLLBACK TO SAVEPOINT dm_rows")
        head, tail = self._frame()
        if into.mapped_keys:
            EqualKeys(connection, self.source, self.source_table, into).refuse(rows, head, tail)
            connection.execute("ROLLBACK TO SAVEPOINT dm_rows")
        if into.own_keys:
            ReplacedRows(connection, self.source, self.source_table, into, self.run).refuse(rows, head, tail)
            connection.execute("ROLLBACK TO SAVEPOINT dm_rows")
        return self._write(rows, typed=typed)

    def _write(self, rows: Rows, *, typed: bool) -> Tally:
        connection, destination = self.connection, self.destination
        enums = tuple(column for column in destination.columns if column.type.is_enum)
        names = tuple(column.name for column in enums)
        errors = sum(error_values(batch, enums) for batch in rows(names)) if enums else 0
        # Where documents are texts (MariaDB), their text is all there is.
        documents = None
        documents_tell = connection.dialect.takes_json_types
        if typed and destination.typed and documents_tell and self._has_types(rows):
            documents = TypedDocuments(self.source_table, destination.key)
        connection.execute(f"SET NAMES {'binary' if documents is None else 'utf8mb4'}")
        tally = Tally(
            connection,
            self.run,
            self.source_table,
            destination.target,
            destination.unique,
            self.on_duplicate,
            errors,
            names,
            (*(column.name for column in destination.columns), *(column.name for column, _ in destination.same)),
            destination.computed,
        )
        mode = connection.has("sql_mode")
        with connection.as_set({"sql_mode": lenient_mode(mode) if errors else mode}):
            self._fill(rows, documents, tally)
        return tally

    def _fill(self, rows: Rows, documents: TypedDocuments | None, tally: Tally) -> None:
        destination, errors, most = self.destination, tally.error_values, tally.most_rows
        local = destination.local_data and documents is None and errors < MOST_WARNINGS and (most is None or most > 0)
        try:
            if not (local and self.on_duplicate != "ignore" and self._send(rows, tally, most)):
                self._insert(rows, documents, tally, most)
        except DMError as error:
            too_deep = self._too_deep(rows, error)
            if too_deep is None:
                raise
            raise too_deep from error

    def _too_deep(self, rows: Rows, error: DMError) -> DMError | None:
        """The row with a JSON document that a MariaDB's check refuses; None if it refused another thing."""
        if error.server_errno != CHECK_FAILED_AT_MARIADB:
            return None
        documents = [column.name for column in self.destination.columns if column.type.is_document]
        named = list(self.destination.key)
        for batch in rows([*documents, *named]) if documents else ():
            for column, values in zip(documents, batch.columns, strict=False):
                for at, value in enumerate(values):
                    depth = depth_of(value.as_py() or b"")
                    if depth > DEEPEST_AT_MARIADB:
                        key = ", ".join(f"{name} = {batch.column(name)[at].as_py().decode()}" for name in named)
                        return DMError(
                            "json-too-deep",
                            table=self.destination.target,
                            key=key or "no key",
                            column=column,
                            depth=depth,
                            most=DEEPEST_AT_MARIADB,
                            cause=error.cause,
                        )
        return None

    def _send(self, rows: Rows, tally: Tally, most: int | None) -> bool:
        """Write by LOAD DATA, `most` rows by each; False when the way there does not let it pass."""
        destination = self.destination
        replace = destination.unique and self.on_duplicate == "replace"
        statement = load_statement(destination.target, destination.columns, destination.same, replace=replace)
        for batches in _together(rows([column.name for column in destination.columns]), most):
            pieces = self._pieces(batches)
            held = next(pieces, None)
            while held is not None:
                if self.pace is not None:
                    self.pace.ask(held.rows.num_rows, held.size)
                data = _PacedData(self, held, pieces)
                try:
                    outcome = self.connection.send_data(statement, data)
                except DMError as error:
                    if error.server_errno in _LOCAL_REFUSED and not tally.rows:
                        return False
                    raise
                tally.sent(outcome, data.sent)
                held = data.held
        return True

    def _pieces(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[_Piece]:
        """The batches, in small pieces where rows are limited."""
        most = None if self.pace is None else self.pace.rows_at_once()
        for batch in batches:
            size = batch.get_total_buffer_size()
            for at in range(0, batch.num_rows, most or max(1, batch.num_rows)):
                rows = batch.slice(at, most)
                yield _Piece(rows, size * rows.num_rows // batch.num_rows)

    @reads_answers
    def _insert(self, rows: Rows, documents: TypedDocuments | None, tally: Tally, most: int | None) -> None:
        packet = int(self.connection.query("SELECT @@max_allowed_packet")[0][0])
        head, tail = self._frame()
        largest = min(_STATEMENT_BYTES, packet - _PACKET_MARGIN)
        if most is not None:
            largest = min(largest, _ROW_BYTES * max(1, most))
        for statement, count in statements(head, self._literals(rows, documents), tail, largest):
            if self.pace is not None:
                self.pace.ask(count, len(statement))
            tally.insert(statement, count)

    def _frame(self) -> tuple[bytes, bytes]:
        destination = self.destination
        columns = (*destination.columns, *(column for column, _ in destination.same))
        return statement_frame(destination.target, columns, self.on_duplicate, unique=destination.unique)

    def _literals(self, rows: Rows, documents: TypedDocuments | None) -> Iterator[bytes]:
        names = [column.name for column in self.destination.columns]
        if documents is not None:
            names += self._types_columns()
        constants = [literal for _, literal in self.destination.same]
        for batch in rows(names):
            in_utf8 = _IN_UTF8 if self.connection.dialect.stores_texts_in_utf8 else ()
            into = self.destination
            yield from row_literals(
                batch, into.columns, constants, typed=documents, in_utf8=in_utf8, moments=into.moments
            )

    def _has_types(self, rows: Rows) -> bool:
        return any(column.null_count < len(column) for batch in rows(self._types_columns()) for column in batch.columns)

    def _types_columns(self) -> list[str]:
        return [types_column(column.name) for column in self.destination.columns if column.type.is_document]


class _Piece(NamedTuple):
    """Rows that are asked for together, and their bytes."""

    rows: pyarrow.RecordBatch
    size: int


class _PacedData:
    """The data of one LOAD DATA: a piece, and those that may follow it at once.

    A server that waits for the next packet of a statement ends the session after `net_read_timeout`, and a pace may
    hold for hours. So what has to wait is `held`, and the statement ends. The transaction stays.
    """

    def __init__(self, writer: PartWriter, first: _Piece, others: Iterator[_Piece]) -> None:
        self._writer = writer
        self._others = others
        self.held: _Piece | None = first
        self.sent = 0  # rows

    def __iter__(self) -> Iterator[bytes]:
        writer, pace = self._writer, self._writer.pace
        while self.held is not None:
            rows = self.held.rows
            self.sent += rows.num_rows
            yield from packets(rows, writer.destination.columns, writer.connection.data_bytes)
            self.held = next(self._others, None)
            if self.held is not None and pace is not None and not pace.take(self.held.rows.num_rows, self.held.size):
                return


def _together(batches: Iterable[pyarrow.RecordBatch], most: int | None) -> Iterator[Iterable[pyarrow.RecordBatch]]:
    """What goes to the target by one statement: everything, or a piece of a batch with `most` rows at most."""
    if most is None:
        yield batches
        return
    for batch in batches:
        for at in range(0, batch.num_rows, most):
            yield (batch.slice(at, most),)


def unjudged(structure: str, source: SourceContext, made: str, target: SourceContext) -> bool:
    """Whether rows are loaded without a look at CHECKs: the target's table, as it shows it, has just the source's.

    A session of the source with `check_constraint_checks=0` writes what the table's CHECKs forbid, and an ALTER TABLE
    of such a session adds a CHECK that rows break. The dump can't tell these rows from others, and a target that looks
    at the same CHECKs refuses them. So the load looks at no CHECK where the target has those of the source and no
    others.

    A CHECK that only the target has is a person's, and judges all rows. If the two servers print a condition in
    different words, it counts as another one. A MySQL can't leave CHECKs out, neither as a source nor as a target.
    """
    if not both_skip_checks(source.flavor, target.flavor):
        return False
    conditions = check_conditions(made, target)
    return bool(conditions) and conditions <= check_conditions(structure, source)


@contextmanager
def without_checks(connection: TargetConnection) -> Iterator[None]:
    """Meanwhile the session looks at no CHECK; a session that broke is not put back."""
    with understood():
        before = connection.query("SELECT @@SESSION.check_constraint_checks")[0][0]
    connection.execute("SET SESSION check_constraint_checks = 0")
    try:
        yield
    finally:
        if connection.alive:
            connection.execute("SET SESSION check_constraint_checks = %s", (before,))


@dataclass(frozen=True, slots=True)
class PartTask:
    """One part to load."""

    part: PartKey
    file: str
    first_group: int  # row groups of the file
    last_group: int
    destination: Destination
    rows: int
    size: int
    typed: bool = False  # the file says which types JSON documents hold

    def __str__(self) -> str:
        return f"part {self.part.part} of chunk {self.part.chunk} of {self.part.table}"


@dataclass(frozen=True, slots=True)
class PartResult:
    """A part that is in the target."""

    part: PartKey
    rows: int
    size: int
    duplicates: Duplicates = NO_DUPLICATES


@dataclass(frozen=True)
class PartLoader:
    """Loads parts, each once.

    A part of the usual size is a task alone, small ones share one and its session (`dm.spark.job`). Runs on executors;
    the target's endpoint, and with it the password, is inside the function that Spark pickles.
    """

    endpoint: Endpoint
    storage: DumpStorage
    run: LoadRun
    source: Endpoint  # to be asked where rows meet by a key that the target compares in its own way
    on_duplicate: OnDuplicate = "replace"
    pace: PaceHandle | None = None

    def __call__(self, tasks: tuple[PartTask, ...]) -> tuple[PartResult, ...]:
        """Put the parts into the target, one after the other; when this returns, each is there exactly once."""
        results: list[PartResult] = []
        connection = TargetConnection(self.endpoint, local_data=any(task.destination.local_data for task in tasks))
        try:
            join_run(connection, self.run)
            connection.execute("SET SESSION foreign_key_checks = 0")
            for task in tasks:
                results.append(self._load_whole(connection, task))
        except DMError as error:
            failed = tasks[len(results)]
            raise error.restated(cause=f"{error.cause} [{failed}]".lstrip()) from error
        finally:
            # Also what rolls back: the server does it when the session ends, whatever went wrong with it.
            connection.close()
        return tuple(results)

    def _load_whole(self, connection: TargetConnection, task: PartTask) -> PartResult:
        """Load the part, again where it gave way: parts of a merge meet in the keys that their rows share."""
        attempts = Attempts()
        while True:
            if self.pace is not None:
                self.pace.ask(0, 0)  # a part that has to wait long holds no transaction open meanwhile
            try:
                return self._load(connection, task)
            except DMError as error:
                if not attempts.again(error):
                    raise
                connection.rollback()

    def _load(self, connection: TargetConnection, task: PartTask) -> PartResult:
        duplicates = NO_DUPLICATES
        connection.begin()
        if claim_part(connection, self.run, task.part, task.rows, task.size, task.destination.target):
            duplicates = self._write(connection, task)
            note_duplicates(connection, self.run, task.part, duplicates)
            faults.hit("loader.chunk_inserted")
        connection.commit()
        faults.hit("loader.chunk_committed")
        return PartResult(task.part, task.rows, task.size, duplicates)

    def _write(self, connection: TargetConnection, task: PartTask) -> Duplicates:
        def rows(names: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
            return self._batches(task, names)

        into, source = task.destination, self.source
        writer = PartWriter(connection, self.run, self.on_duplicate, task.part.table, into, source, self.pace)
        tally = writer.write(rows, typed=task.typed)
        if tally.rows != task.rows:
            raise DMError("dump-file-damaged", file=task.file, why=f"{tally.rows} rows instead of {task.rows}")
        return tally.duplicates

    def _batches(self, task: PartTask, names: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
        # From a store the columns of a group are asked for at once.
        options = {"page_checksum_verification": True, "pre_buffer": self.storage.everywhere}
        try:
            with parquet.ParquetFile(self.storage.arrow_source(task.file), **options) as file:
                for group in range(task.first_group, task.last_group + 1):
                    yield from file.read_row_group(group, columns=list(names) or None, use_threads=False).to_batches()
        except (OSError, pyarrow.ArrowException) as error:
            raise DMError("dump-file-damaged", file=self.storage.shown(task.file), why=str(error)) from error
