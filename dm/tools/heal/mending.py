"""Where the statements of a heal go: to the target, in transactions of the heal's lane of a source.

The session computes as the source's server, like one of the syncer. With `dry_run` rows are counted only.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from dm.changes.computing import SourceSettings
from dm.config.subtask import SubtaskConfig
from dm.downstream.apply import Attempts
from dm.downstream.connection import TargetConnection
from dm.downstream.source_session_settings import with_settings
from dm.errors import DMError
from dm.ident import TableName
from dm.pace.handle import BulkPace
from dm.progress.healed import HEAL, begin_writing, write_rows
from dm.progress.lane_rows import LaneClaim
from dm.progress.takeover import Fence
from dm.tools.diff.fix import Fix, in_order

_STATEMENTS: Final = 1000  # of one transaction
_BYTES: Final = 8 << 20
_METADATA_LOCK_SECONDS: Final = 3


@dataclass
class Lane:
    """The heal's lane of one source at the target."""

    subtask: SubtaskConfig
    settings: SourceSettings  # of the source's server
    control: TargetConnection
    claim: LaneClaim  # of the control lane
    fence: Fence
    _connection: TargetConnection | None = None
    _own: LaneClaim | None = None

    def begin(self) -> None:
        """From now on rows are written; raises DMError."""
        target = with_settings(self.subtask.target, self.settings)
        connection = self._connection = TargetConnection(target, several=True)
        # As a lane does: rows yield to a DDL of somebody else.
        connection.execute(f"SET SESSION lock_wait_timeout = {_METADATA_LOCK_SECONDS}")
        self.fence.take(connection, HEAL)
        self._own = begin_writing(self.control, self.claim)

    def write(self, statements: Sequence[bytes]) -> None:
        """In one transaction; raises DMError."""
        assert self._connection is not None
        assert self._own is not None
        attempts = Attempts()
        while True:
            try:
                write_rows(self._connection, self._own, statements)
                return
            except DMError as error:
                if not attempts.again(error):
                    raise

    def close(self) -> None:
        """End its session."""
        if self._connection is not None:
            self._connection.close()


@dataclass
class HealLanes:
    """The lanes of all sources that are healed together, begun by the first write of any of them (H6)."""

    every: Sequence[Lane]
    of: Mapping[TableName, Lane]  # by table of the target
    _begun: bool = False

    def write(self, table: TableName, statements: Sequence[bytes]) -> None:
        """In one transaction; raises DMError."""
        if not self._begun:
            for lane in self.every:
                lane.begin()
            self._begun = True
        self.of[table].write(statements)


@dataclass
class Mending:
    """Takes the statements of a comparison; its `write` is called by one thread."""

    lanes: HealLanes | None  # None: nothing is written
    rows: Counter[str]
    stop: threading.Event
    pace: BulkPace | None = None
    chunks: int = 0  # that differ
    impossible: dict[TableName, str] = field(default_factory=dict)  # tables of which a row has no statement, and why

    def held(self) -> AbstractContextManager[None]:
        """No file is held."""
        return nullcontext()

    def begin(self, tables: Collection[TableName]) -> None:
        """What was written stays: a further comparison finds it."""

    def write(self, table: TableName, fixes: Sequence[Fix]) -> str:
        """Write what differs in a chunk, deletions first; raises DMError."""
        self.chunks += 1
        if self._told(table, fixes):
            for part in parts(in_order(fixes)):
                self._write(table, part)
        return ""

    def write_at_once(self, table: TableName, fixes: Sequence[Fix]) -> bool:
        """The same in one transaction; False, with nothing written, where a row has no statement."""
        self.chunks += 1
        possible = self._told(table, fixes)
        if possible:
            self._write(table, in_order(fixes))
        return possible

    def _told(self, table: TableName, fixes: Sequence[Fix]) -> bool:
        why = next((fix.impossible for fix in fixes if fix.impossible), "")
        if why:
            self.impossible.setdefault(table, why)
        if table in self.impossible:
            return False
        self.rows[str(table)] += len(fixes)
        return True

    def _write(self, table: TableName, statements: Sequence[bytes]) -> None:
        if self.lanes is None or not statements or self.stop.is_set():
            return
        if self.pace is None or self.pace.ask(len(statements), sum(map(len, statements)), self.stop):
            self.lanes.write(table, statements)


def parts(statements: Sequence[bytes]) -> Iterator[list[bytes]]:
    """What fits into one transaction of any target."""
    part, size = list[bytes](), 0
    for statement in statements:
        if part and (len(part) == _STATEMENTS or size + len(statement) > _BYTES):
            yield part
            part, size = [], 0
        part.append(statement)
        size += len(statement)
    if part:
        yield part
