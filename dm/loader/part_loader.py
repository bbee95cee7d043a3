"""The work of the Spark tasks of a load: one part of a chunk file into one table, in one transaction.

Runs on executors; the target's endpoint, and with it the password, is inside the function that Spark pickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow
from pyarrow import parquet

from dm import faults
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.loader.local_data import load_statement, packets
from dm.loader.tally import MOST_WARNINGS, OnDuplicate, Tally
from dm.schema.table import Column
from dm.spark.json_types import types_column
from dm.spark.literals import TypedDocuments, error_values, row_literals, statements
from dm.spark.sql_file import LENIENT_MODE, STRICT_MODE
from dm.target.connection import TargetConnection
from dm.target.progress.chunks import (
    NO_DUPLICATES,
    Duplicates,
    LoadRun,
    PartKey,
    claim_part,
    note_duplicates,
    take_slot,
)

_STATEMENT_BYTES = 1 << 18  # the fastest of 64 KiB, 256 KiB and 1 MiB
_PACKET_MARGIN = 1 << 10
# By the server's setting, by its way of being built, or by MariaDB's words for the first.
_LOCAL_REFUSED: Final = ("1148 ", "3948 ", "4166 ")


@dataclass(frozen=True, slots=True)
class PartTask:
    """One part to load."""

    part: PartKey
    file: str
    first_group: int  # row groups of the file
    last_group: int
    target: TableName
    columns: tuple[Column, ...]
    unique: bool  # the target admits some key once only
    rows: int
    size: int
    constants: tuple[tuple[Column, bytes], ...] = ()  # what routes extract, as literals
    key: tuple[str, ...] = ()  # columns that name a row to a person
    typed: bool = False  # the file says which types JSON documents hold
    local_data: bool = False  # the target takes LOAD DATA LOCAL for this table


@dataclass(frozen=True, slots=True)
class PartResult:
    """A part that is in the target."""

    part: PartKey
    rows: int
    size: int
    duplicates: Duplicates = NO_DUPLICATES


def statement_frame(
    target: TableName, columns: tuple[Column, ...], on_duplicate: OnDuplicate, *, unique: bool
) -> tuple[bytes, bytes]:
    """What stands before and behind the rows of a statement."""
    names = [Ident(column.name).sql for column in columns]
    verb = "REPLACE" if unique and on_duplicate == "replace" else "INSERT"
    tail = ""
    if unique and names and on_duplicate == "ignore":
        # Not INSERT IGNORE: that turns errors into warnings and stores what it made of the value.
        tail = f" ON DUPLICATE KEY UPDATE {names[0]} = {names[0]}"
    return f"{verb} INTO {target.sql} ({', '.join(names)}) VALUES ".encode(), tail.encode()


@dataclass(frozen=True)
class PartLoader:
    """Loads a part, once."""

    endpoint: Endpoint
    directory: Path
    run: LoadRun
    on_duplicate: OnDuplicate = "replace"

    def __call__(self, task: PartTask) -> PartResult:
        """Put the part into the target; when this returns, it is there exactly once."""
        connection = TargetConnection(self.endpoint, local_data=task.local_data)
        duplicates = NO_DUPLICATES
        try:
            take_slot(connection, self.run.key)
            connection.execute("SET SESSION foreign_key_checks = 0")
            packet = int(connection.query("SELECT @@max_allowed_packet")[0][0])
            connection.begin()
            if claim_part(connection, self.run, task.part, task.rows, task.size, task.target):
                duplicates = self._write(connection, task, min(_STATEMENT_BYTES, packet - _PACKET_MARGIN))
                note_duplicates(connection, self.run, task.part, duplicates)
                faults.hit("loader.chunk_inserted")
                connection.commit()
                faults.hit("loader.chunk_committed")
        finally:
            # Also what rolls back: the server does it when the session ends, whatever went wrong with it.
            connection.close()
        return PartResult(task.part, task.rows, task.size, duplicates)

    def _write(self, connection: TargetConnection, task: PartTask, largest: int) -> Duplicates:
        """Write the rows in the way that takes them all exactly, the quicker one where both do."""
        enums = tuple(column for column in task.columns if column.base == "enum")
        errors = self._error_values(task, enums)
        # Where documents are texts (MariaDB), their text is all there is.
        typed = None
        if task.typed and connection.flavor == "mysql" and self._has_types(task):
            typed = TypedDocuments(task.part.table, task.key)
        connection.execute(f"SET SESSION sql_mode = '{LENIENT_MODE if errors else STRICT_MODE}'")
        connection.execute(f"SET NAMES {'binary' if typed is None else 'utf8mb4'}")
        names = tuple(column.name for column in enums)
        tally = Tally(connection, self.run, task.part.table, task.target, task.unique, self.on_duplicate, errors, names)
        local_data = task.local_data and typed is None and errors < MOST_WARNINGS and self.on_duplicate != "ignore"
        if not (local_data and self._send(connection, task, tally)):
            columns = (*task.columns, *(column for column, _ in task.constants))
            head, tail = statement_frame(task.target, columns, self.on_duplicate, unique=task.unique)
            for statement, rows in statements(head, self._rows(task, typed), tail, largest):
                tally.insert(statement, rows)
        if tally.rows != task.rows:
            raise DMError("dump-file-damaged", file=task.file, why=f"{tally.rows} rows instead of {task.rows}")
        return tally.duplicates

    def _send(self, connection: TargetConnection, task: PartTask, tally: Tally) -> bool:
        """Write by LOAD DATA; False when the way there does not let it pass, whatever the server says."""
        replace = task.unique and self.on_duplicate == "replace"
        statement = load_statement(task.target, task.columns, task.constants, replace=replace)
        rows = 0

        def pieces() -> Iterator[bytes]:
            nonlocal rows
            for batch in self._batches(task, [column.name for column in task.columns]):
                rows += batch.num_rows
                yield from packets(batch, task.columns)

        try:
            outcome = connection.send_data(statement, pieces())
        except DMError as error:
            if error.cause.startswith(_LOCAL_REFUSED):
                return False
            raise
        tally.sent(outcome, rows)
        return True

    def _error_values(self, task: PartTask, enums: tuple[Column, ...]) -> int:
        names = [column.name for column in enums]
        return sum(error_values(batch, enums) for batch in self._batches(task, names)) if enums else 0

    def _has_types(self, task: PartTask) -> bool:
        names = [types_column(column.name) for column in task.columns if column.base == "json"]
        return any(column.null_count < len(column) for batch in self._batches(task, names) for column in batch.columns)

    def _rows(self, task: PartTask, typed: TypedDocuments | None) -> Iterator[bytes]:
        names = [column.name for column in task.columns]
        if typed is not None:
            names += [types_column(column.name) for column in task.columns if column.base == "json"]
        for batch in self._batches(task, names):
            yield from row_literals(batch, task.columns, [literal for _, literal in task.constants], typed=typed)

    def _batches(self, task: PartTask, names: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
        path = self.directory / task.file
        try:
            with parquet.ParquetFile(path, page_checksum_verification=True) as file:
                for group in range(task.first_group, task.last_group + 1):
                    yield from file.read_row_group(group, columns=list(names) or None, use_threads=False).to_batches()
        except (OSError, pyarrow.ArrowException) as error:
            raise DMError("dump-file-damaged", file=path, why=str(error)) from error
