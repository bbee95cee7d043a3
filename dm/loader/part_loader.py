"""The work of the Spark tasks of a load: parts of chunk files into their tables, each in a transaction of its own.

A part of the usual size is a task alone, small ones share one and its session (`dm.spark.job`). Runs on
executors; the target's endpoint, and with it the password, is inside the function that Spark pickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow
from pyarrow import parquet

from dm import faults
from dm.config.endpoint import Endpoint
from dm.downstream.apply import Attempts
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.storage import DumpStorage
from dm.errors import DMError
from dm.loader.part_writer import PartWriter
from dm.loader.tally import OnDuplicate
from dm.progress.load_parts import (
    NO_DUPLICATES,
    Duplicates,
    LoadRun,
    PartKey,
    claim_part,
    note_duplicates,
    take_slot,
)


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
    """Loads parts, each once."""

    endpoint: Endpoint
    storage: DumpStorage
    run: LoadRun
    source: Endpoint  # to be asked where rows meet by a key that the target compares in its own way
    on_duplicate: OnDuplicate = "replace"

    def __call__(self, tasks: tuple[PartTask, ...]) -> tuple[PartResult, ...]:
        """Put the parts into the target, one after the other; when this returns, each is there exactly once."""
        results: list[PartResult] = []
        connection = TargetConnection(self.endpoint, local_data=any(task.destination.local_data for task in tasks))
        try:
            take_slot(connection, self.run.key)
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

        writer = PartWriter(connection, self.run, self.on_duplicate, task.part.table, task.destination, self.source)
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
