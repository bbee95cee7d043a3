"""The rows of a merge order, read and written in the control lane's session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dm.downstream.connection import TargetConnection
from dm.progress.merge_order import SourceProgress, read_order, write_left, write_order
from dm.progress.tables import SubtaskKey
from dm.syncer.apply.completion import Mark
from dm.syncer.apply.progress_writer import ProgressWriter


class OrderRows:
    """What `MergeTurn` publishes with."""

    def __init__(self, progress: ProgressWriter, key: SubtaskKey) -> None:
        self._progress = progress
        self._key = key

    def read(self) -> Mapping[str, SourceProgress]:
        """The rows of all sources; raises DMError."""
        return self._progress.ask(lambda connection: read_order(connection, self._key))

    def leave(self, sources: Sequence[str]) -> None:
        """Store that nobody waits for these any more; raises DMError."""
        self._progress.beside(lambda connection: write_left(connection, self._key, sources))

    def publish(self, made: Callable[[Mark], SourceProgress]) -> SourceProgress:
        """Store the checkpoint, and the row that is made of its mark, in one transaction; raises DMError."""
        rows: list[SourceProgress] = []

        def store(connection: TargetConnection, mark: Mark) -> None:
            rows.append(made(mark))
            write_order(connection, self._key, rows[-1])

        self._progress.publish(store)
        return rows[-1]
