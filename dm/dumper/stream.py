"""Where chunks of keyed tables go when there are no files for them (`dump-files: none` and `auto`).

The dump knows what to read and when; who writes it into the target is the load's affair, which the dump does not know.
So it is given one of these. A chunk that was written is recorded at the target, in the transaction of its rows; that
record is what a file is otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from dm.dumpfiles.destination import Destination
from dm.dumpfiles.dump_files import DumpedTable, DumpPlan
from dm.dumpfiles.text_rows import ColumnBatch
from dm.ident import TableName


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

    def give_up(self, stop: threading.Event) -> None:
        """The dump begins anew: take back what an earlier one has written, unless that can't be told from the rest."""
        ...

    def begin(self, plan: DumpPlan, stop: threading.Event) -> None:
        """Take over from an earlier run, take back what the plan has given up, and learn what is written."""
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

    @property
    def sink(self) -> ChunkSink:
        """What writes chunks."""
        ...

    @property
    def writers(self) -> int:
        """How many sessions may write at a time."""
        ...
