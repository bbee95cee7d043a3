"""The work of the Spark tasks of a load: one part of a chunk file into one table, in one transaction.

Runs on executors; the target's endpoint, and with it the password, is inside the function that Spark pickles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow
from pyarrow import parquet

from dm import faults
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.schema.table import Column
from dm.spark.literals import error_values, row_literals, statements
from dm.target.connection import TargetConnection
from dm.target.progress.chunks import LoadRun, PartKey, claim_part, take_slot

OnDuplicate = Literal["replace", "ignore", "error"]

_STATEMENT_BYTES = 1 << 18  # the fastest of 64 KiB, 256 KiB and 1 MiB
_PACKET_MARGIN = 1 << 10
# What the source holds was accepted by some server under some mode; here it must be stored as it is or not at all.
_STRICT = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,STRICT_ALL_TABLES"
# An ENUM's error value (what a lenient session once made of a wrong text) is refused by a strict session, so a part
# that has some is loaded by a lenient one, in which nothing else may be complained of.
_LENIENT = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"


@dataclass(frozen=True, slots=True)
class PartTask:
    """One part to load."""

    part: PartKey
    file: str
    first_group: int  # row groups of the file
    last_group: int
    target: TableName
    columns: tuple[Column, ...]
    keyed: bool
    rows: int
    size: int
    constants: tuple[tuple[Column, bytes], ...] = ()  # what routes extract, as literals


@dataclass(frozen=True, slots=True)
class PartResult:
    """A part that is in the target."""

    part: PartKey
    rows: int
    size: int


def statement_frame(
    target: TableName, columns: tuple[Column, ...], on_duplicate: OnDuplicate, *, keyed: bool
) -> tuple[bytes, bytes]:
    """What stands before and behind the rows of a statement."""
    names = [Ident(column.name).sql for column in columns]
    verb = "REPLACE" if keyed and on_duplicate == "replace" else "INSERT"
    tail = ""
    if keyed and on_duplicate == "ignore":
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
        connection = TargetConnection(self.endpoint)
        try:
            take_slot(connection, self.run.key)
            connection.execute("SET SESSION foreign_key_checks = 0")
            packet = int(connection.query("SELECT @@max_allowed_packet")[0][0])
            connection.begin()
            if claim_part(connection, self.run, task.part, task.rows, task.size):
                self._insert(connection, task, min(_STATEMENT_BYTES, packet - _PACKET_MARGIN))
                faults.hit("loader.chunk_inserted")
                connection.commit()
                faults.hit("loader.chunk_committed")
        finally:
            # Also what rolls back: the server does it when the session ends, whatever went wrong with it.
            connection.close()
        return PartResult(task.part, task.rows, task.size)

    def _insert(self, connection: TargetConnection, task: PartTask, largest: int) -> None:
        expected = self._error_values(task)
        connection.execute(f"SET SESSION sql_mode = '{_LENIENT if expected else _STRICT}'")
        connection.execute("SET NAMES binary")
        columns = (*task.columns, *(column for column, _ in task.constants))
        head, tail = statement_frame(task.target, columns, self.on_duplicate, keyed=task.keyed)
        inserted = warnings = 0
        for statement, rows in statements(head, self._rows(task), tail, largest):
            warnings += connection.run(statement).warnings
            inserted += rows
        if expected and warnings > expected:
            raise DMError("load-values-changed", table=task.target, warnings=warnings, expected=expected)
        if inserted != task.rows:
            raise DMError("dump-file-damaged", file=task.file, why=f"{inserted} rows instead of {task.rows}")

    def _error_values(self, task: PartTask) -> int:
        enums = tuple(column for column in task.columns if column.base == "enum")
        return sum(error_values(batch, enums) for batch in self._batches(task, enums)) if enums else 0

    def _rows(self, task: PartTask) -> Iterator[bytes]:
        for batch in self._batches(task, task.columns):
            yield from row_literals(batch, task.columns, [literal for _, literal in task.constants])

    def _batches(self, task: PartTask, columns: tuple[Column, ...]) -> Iterator[pyarrow.RecordBatch]:
        path = self.directory / task.file
        names = [column.name for column in columns]
        try:
            with parquet.ParquetFile(path, page_checksum_verification=True) as file:
                for group in range(task.first_group, task.last_group + 1):
                    yield from file.read_row_group(group, columns=names, use_threads=False).to_batches()
        except (OSError, pyarrow.ArrowException) as error:
            raise DMError("dump-file-damaged", file=path, why=str(error)) from error
