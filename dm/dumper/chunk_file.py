"""Where the rows of a chunk go: into a file, Parquet with the server's own bytes or SQL as dumpling writes it, or none.

Both files are written as a stream through a file that computes its checksum on the way, so that the manifest costs no
second reading.

SQL files hold the same values as Parquet ones, made literals by the encoder that the load uses, with more characters
escaped: the `mysql` client stops at a NUL byte and rewrites line ends, and TiDB Lightning does not know introducers of
bytes (`_binary`), which the header's character set makes needless.

Without files (`dump-files: none` and `auto`) chunks of keyed tables go to a `ChunkSink`. The dump knows what to read
and when; who writes it into the target is the load's affair, which the dump does not know. So it is given one of these.
A chunk that was written is recorded at the target, in the transaction of its rows; that record is what a file is
otherwise.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow
from pyarrow import parquet

from dm.dumpfiles.destination import Destination
from dm.dumpfiles.dump_files import FOOTER_KEY, ChunkFooter, DumpedTable, DumpPlan
from dm.dumpfiles.literals import HEADER, LENIENT, SqlTrailer, error_values, row_literals, shown_row
from dm.dumpfiles.storage import NewFile
from dm.dumpfiles.text_rows import ColumnBatch
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.schema.table import Column
from dm.mysql.sql.literal import statements
from dm.pace.handle import PaceHandle


@dataclass(frozen=True, slots=True)
class SqlForm:
    """What an SQL chunk file needs to know of its table."""

    table: TableName
    columns: tuple[Column, ...]
    statement_size: int  # bytes of an INSERT
    key: tuple[str, ...] = ()  # columns that name a row to a person


class HashedFile(io.RawIOBase):
    """Passes bytes on to a file and knows their SHA-256."""

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._length = 0

    def writable(self) -> bool:
        """Always: it is for nothing else."""
        return True

    def tell(self) -> int:
        """Bytes so far."""
        return self._length

    def write(self, data: object) -> int:
        """Write all of it."""
        view = memoryview(data)  # type: ignore[arg-type]  # any buffer, as io.RawIOBase has it
        self._digest.update(view)
        self._length += self._file.write(view)
        return view.nbytes

    @property
    def sha256(self) -> str:
        """Of what was written."""
        return self._digest.hexdigest()


class ChunkFile(Protocol):
    """A chunk that is being written."""

    def add(self, batch: ColumnBatch) -> None:
        """Append rows."""
        ...

    def end(self, footer: ChunkFooter) -> None:
        """Say what the chunk is; nothing comes after it."""
        ...


def open_chunk_file(file: HashedFile, columns: Sequence[str], sql: SqlForm | None) -> AbstractContextManager[ChunkFile]:
    """A chunk file in the form asked for: SQL where `sql` is given, else Parquet."""
    return _parquet_file(file, columns) if sql is None else _sql_file(file, sql)


@contextmanager
def _parquet_file(file: HashedFile, columns: Sequence[str]) -> Iterator[ChunkFile]:
    schema = pyarrow.schema([pyarrow.field(name, pyarrow.binary()) for name in columns])
    # Lengths apart from the bytes: smaller than the plain encoding, and less work for the compressor. Level 1 is the
    # quickest that still codes digits by their entropy; below it, and with LZ4 or Snappy, files are twice as large.
    encodings = dict.fromkeys(columns, "DELTA_LENGTH_BYTE_ARRAY")
    with parquet.ParquetWriter(
        file, schema, compression="zstd", compression_level=1, use_dictionary=False, column_encoding=encodings,
        write_statistics=False, write_page_checksum=True,
    ) as writer:  # fmt: skip
        yield _ParquetFile(writer, schema)


@dataclass
class _ParquetFile:
    writer: parquet.ParquetWriter
    schema: pyarrow.Schema

    def add(self, batch: ColumnBatch) -> None:
        self.writer.write_table(pyarrow.Table.from_arrays(batch.columns[: len(self.schema)], schema=self.schema))

    def end(self, footer: ChunkFooter) -> None:
        self.writer.add_key_value_metadata({FOOTER_KEY: footer.to_text().encode()})


@contextmanager
def _sql_file(file: HashedFile, form: SqlForm) -> Iterator[ChunkFile]:
    yield _SqlFile(file, form)


@dataclass
class _SqlFile:
    file: HashedFile
    form: SqlForm
    wrong: int = 0  # error values of ENUM columns so far

    def __post_init__(self) -> None:
        self.file.write(HEADER)

    def add(self, batch: ColumnBatch) -> None:
        columns = self.form.columns
        rows = pyarrow.record_batch(batch.columns[: len(columns)], names=[column.name for column in columns])
        self._demand_plain_documents(batch, rows)
        wrong = error_values(rows, columns)
        if wrong and not self.wrong:
            self.file.write(LENIENT)
        self.wrong += wrong
        listed = ",".join(Ident(column.name).sql for column in columns)
        head = f"INSERT INTO {Ident(self.form.table.table).sql} ({listed}) VALUES\n".encode()
        # A table of generated columns only has rows, but no value of them.
        values = row_literals(rows, columns, text=True) if columns else iter([b"()"] * batch.rows)
        for statement, _ in statements(head, values, b";\n", self.form.statement_size, separator=b",\n"):
            self.file.write(statement)

    def _demand_plain_documents(self, batch: ColumnBatch, rows: pyarrow.RecordBatch) -> None:
        """Refuse JSON documents whose text does not say everything: other tools read nothing but text."""
        columns = self.form.columns
        documents = [column.name for column in columns if column.type.is_document]
        # After the columns the batch has what the text of each document leaves out. A constant stands in for the
        # columns of a table that stores none.
        left_out = batch.columns[len(columns) :] if columns else []
        for name, values in zip(documents, left_out, strict=False):  # none of them with `json-types: text`
            if values.null_count < len(values):
                shown = shown_row(rows, values.is_valid().index(True).as_py(), self.form.key)
                raise DMError("dump-sql-inexact", table=self.form.table, column=name, row=shown)

    def end(self, footer: ChunkFooter) -> None:
        trailer = SqlTrailer(self.file.tell(), self.file.sha256, self.wrong, footer.to_text())
        self.file.write(trailer.line())


class ChunkSink(Protocol):
    """Writes chunks on an executor, one after the other; it is pickled with everything it needs."""

    def write(
        self, table: TableName, generation: int, chunk: int, destination: Destination, batches: Iterable[ColumnBatch]
    ) -> tuple[int, int]:
        """Put the rows into the target, once; rows and bytes. `batches` are read only if the chunk is not there."""
        ...

    def close(self) -> None:
        """End the session that the chunks went through; another chunk would open the next."""
        ...


class Stream(Protocol):
    """The way into the target, in the driver."""

    def begin(self, plan: DumpPlan, stop: threading.Event) -> None:
        """Take over from an earlier run, take back what the plan has given up, and learn what is written."""
        ...

    def ended_by_newer(self, error: DMError, stop: threading.Event) -> DMError | None:
        """What to say of a run that has failed so, where a newer one has ended its sessions at the target."""
        ...

    def finished(self, table: DumpedTable, chunk: int) -> tuple[int, int] | None:
        """Rows and bytes of a chunk that is at the target."""
        ...

    def prepare(self, plan: DumpPlan, tables: Sequence[DumpedTable]) -> Mapping[TableName, Destination]:
        """Make the tables at the target; those that have to go through files are left out."""
        ...

    def revocable(self, table: DumpedTable) -> bool:
        """Whether what is written of the table goes when the plan gives it up and the stream begins again."""
        ...

    def wrote(self, table: TableName, generation: int, chunk: int, rows: int, size: int) -> None:
        """A chunk is there."""
        ...

    def sink(self, pace: PaceHandle | None) -> ChunkSink:
        """What writes chunks, as fast as it may."""
        ...

    @property
    def writers(self) -> int:
        """How many sessions may write at a time."""
        ...
