"""Chunks and walks of many small tables in one Spark item (`dm.spark.job`), over one session of each server.

What a chunk weighs is told by estimated rows, against the rows that a chunk of that table may have, which bounds bytes
too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from dm import faults
from dm.config.endpoint import Endpoint
from dm.downstream.apply import Attempts
from dm.dumper.chunk_reader import ChunkReader, ChunkResult, ChunkTask, is_changed
from dm.dumpfiles.chunk_plan import KeyWalk, WalkResult, find_bounds
from dm.errors import DMError
from dm.sourcelog.upstream.connection import Connection
from dm.sourcelog.upstream.facts import ServerFacts, question_session, row_session
from dm.sourcelog.upstream.snapshot import table_snapshot

_STOP_SECONDS = 0.1  # between looks at whether to stop


@dataclass
class SourceSessions:
    """The sessions of one Spark item, opened when first needed and used for all its members."""

    endpoint: Endpoint
    facts: ServerFacts | None = None  # of the server that it must be
    _open: dict[str, Connection] = field(default_factory=dict)

    @property
    def rows(self) -> Connection:
        """The one that reads rows."""
        if "rows" not in self._open:
            self._open["rows"] = row_session(self.endpoint, self.facts)
        return self._open["rows"]

    @property
    def questions(self) -> Connection:
        """The one for questions and locks."""
        if "questions" not in self._open:
            self._open["questions"] = question_session(self.endpoint, self.facts)
        return self._open["questions"]

    def close(self) -> None:
        """End them; whoever needs one afterwards gets a new one."""
        while self._open:
            self._open.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class GroupWalker:
    """Finds the chunk bounds of some tables."""

    endpoint: Endpoint
    facts: ServerFacts | None = None

    def __call__(
        self, walks: tuple[KeyWalk, ...], stopped: Callable[[], bool] = lambda: False
    ) -> tuple[WalkResult, ...]:
        """Walk one key after the other; when stopped, what is found so far is of no use."""
        results = []
        with SourceSessions(self.endpoint, self.facts) as sessions:
            for walk in walks:
                try:
                    results.append(find_bounds(sessions.rows, walk, stopped))
                except DMError as error:
                    if not is_changed(error):
                        raise
                    results.append(WalkResult(walk.table, None, words=error.cause))
                    sessions.close()
        return tuple(results)


def walk_here(walker: GroupWalker, walks: tuple[KeyWalk, ...], stop: threading.Event) -> tuple[WalkResult, ...] | None:
    """Walk in this process, which a single item is done in before a Spark job has begun; None when stopped.

    A server that does not answer holds up a thread that nobody waits for any more.
    """
    found: list[tuple[WalkResult, ...] | BaseException] = []

    def walked() -> None:
        try:
            found.append(walker(walks, stop.is_set))
        except BaseException as error:  # carried to the caller's thread
            found.append(error)

    thread = threading.Thread(target=walked, name="plan-chunks", daemon=True)
    thread.start()
    while thread.is_alive() and not stop.is_set():
        thread.join(_STOP_SECONDS)
    if stop.is_set():
        return None
    (result,) = found
    if isinstance(result, BaseException):
        raise result
    return result


@dataclass(frozen=True)
class GroupReader:
    """Reads some chunks, one after the other."""

    reader: ChunkReader

    def __call__(self, tasks: tuple[ChunkTask, ...]) -> tuple[ChunkResult, ...]:
        """Read the chunks; each file is there when this returns, unless its table has changed."""
        self.reader.demand_reach()
        results = []
        with SourceSessions(self.reader.endpoint, self.reader.facts) as sessions, closing(self.reader):
            for task in tasks:
                results.append(self.reader.finished(task) or self._read(task, sessions))
                faults.hit("dumper.chunk_written")
        return tuple(results)

    def _read(self, task: ChunkTask, sessions: SourceSessions) -> ChunkResult:
        attempts = Attempts()
        while True:
            try:
                return self._read_once(task, sessions)
            except DMError as error:
                if task.destination is None or not attempts.again(error):
                    raise
                sessions.close()  # the rows that were not taken any more are still on their way through it

    def _read_once(self, task: ChunkTask, sessions: SourceSessions) -> ChunkResult:
        try:
            if not task.keyless:
                return self.reader.read(sessions.rows, task)
            with table_snapshot(
                sessions.questions, sessions.rows, self.reader.facts, task.table, transactional=task.transactional
            ) as snapshot:
                return self.reader.read_snapshot(snapshot, task)
        except DMError as error:
            if not is_changed(error):
                raise error.restated(cause=f"{error.cause} [{task}]") from error
            sessions.close()
            return ChunkResult(task.table, task.generation, task.chunk, changed=True, words=error.cause)
