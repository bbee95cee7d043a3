"""The moment as of which the servers are read (`dmctl diff --snapshot`).

With `now`, all queries of a chunk see one moment of a server: its checksum, the checksums of its buckets, and the rows
that are shown. MySQL and MariaDB only have snapshots of a session, and none of the past, so a new one is taken before
each chunk, the target's first. A TiDB keeps its history: all sessions read it as of one timestamp, which is taken when
the comparison begins or named by a person. Decision 080 has the reasons.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.mysql.dialect import Dialect
from dm.position import Position
from dm.progress.checkpoint import read_checkpoint
from dm.progress.tables import SubtaskKey
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, fetch
from dm.sourcelog.upstream.facts import question_session, read_facts
from dm.sourcelog.upstream.snapshot import upper_bound

NOW: Final = "now"
TARGET_WORD: Final = "target"

_TSO: Final = re.compile(r"\d{15,20}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:?\d\d)?")
_LOGICAL_BITS: Final = 18  # of a TSO, below its milliseconds
_OF_A_SESSION: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT"


@dataclass(frozen=True, slots=True)
class SnapshotStatements:
    """What a session says before it reads."""

    once: str = ""
    each_time: str = ""  # before each chunk


@dataclass(frozen=True, slots=True)
class Snapshots:
    """What a person has asked for, by the server's place."""

    asked: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, words: Sequence[str], places: Mapping[str, int]) -> Snapshots:
        """`MOMENT` for all servers, `target=MOMENT`, `SOURCE=MOMENT`; raises DMError."""
        asked: dict[int, str] = {}
        for word in sorted(words, key=lambda each: "=" in each):
            name, equals, moment = word.rpartition("=")
            readable = moment == NOW or _TSO.fullmatch(moment) or _TIME.fullmatch(moment)
            if not readable or (equals and name not in places):
                raise _unknown(word)
            asked.update(dict.fromkeys([places[name]] if equals else places.values(), moment))
        return cls(asked)

    @property
    def past(self) -> bool:
        """Whether a server is read as of a moment that stays: what differs then differs."""
        return any(moment != NOW for moment in self.asked.values())

    def reading(self, place: int, connection: Connection, server: Dialect) -> SnapshotStatements:
        """What sessions of a server say before they read; raises DMError where it does not have the moment."""
        moment = self.asked.get(place, "")
        if not moment:
            return SnapshotStatements()
        if not server.has_snapshots:
            if moment != NOW:
                raise DMError("diff-snapshot-refused", address=f"{connection.host}:{connection.port}", moment=moment)
            return SnapshotStatements(each_time=_OF_A_SESSION)
        return SnapshotStatements(once=f"SET SESSION tidb_snapshot = '{_timestamp(connection, moment)}'")


@reads_answers
def _timestamp(connection: Connection, moment: str) -> int:
    """The TSO of a moment."""
    if _TSO.fullmatch(moment):
        return int(moment)
    if moment == NOW:
        fetch(connection, "BEGIN")
        found = fetch(connection, "SELECT @@tidb_current_ts")[0][0]
        fetch(connection, "ROLLBACK")
        return int(str(found))
    return _milliseconds(connection, moment) << _LOGICAL_BITS


@reads_answers
def _milliseconds(connection: Connection, moment: str) -> int:
    """Since the epoch; a time without a zone is in the server's. Raises DMError."""
    try:
        read = datetime.fromisoformat(moment)
    except ValueError:
        raise _unknown(moment) from None
    if read.tzinfo is not None:
        return round(read.timestamp() * 1000)
    fetch(connection, "SET time_zone = @@global.time_zone")
    told = fetch(connection, "SELECT UNIX_TIMESTAMP(%s)", (read.isoformat(" "),))[0][0]
    fetch(connection, "SET time_zone = '+00:00'")
    if not told:
        raise _unknown(moment)
    return round(float(str(told)) * 1000)


def _unknown(word: str) -> DMError:
    return DMError("diff-snapshot-unknown", snapshot=repr(word[:60]))


# How far the target is, against where the sources are.

_SECONDS = 180.0  # a checkpoint is stored every 30 s by default
_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Lag:
    """A target that did not get as far as it was waited for."""

    task: str
    source: str
    wanted: Position
    there: Position | None  # None: nothing is stored

    def __str__(self) -> str:
        """What a person reads."""
        there = "nothing is stored of where it is" if self.there is None else f"its checkpoint is at {self.there}"
        return (
            f"the target did not come past {self.wanted} of source {self.source} in {_SECONDS:.0f} s, {there}:"
            f" compare again when `dmctl query-status {self.task}` shows no lag"
        )


class TargetProgress:
    """Knows of some subtasks whose changes are being applied."""

    def __init__(self, subtasks: Sequence[SubtaskConfig], clock: Clock) -> None:
        self._subtasks = subtasks
        self._clock = clock
        self._target = TargetConnection(subtasks[0].target)
        self._wanted = dict[str, Position]()
        self.lag: Lag | None = None  # if the last wait was too long

    def wait_past(self, stop: threading.Event) -> bool:
        """Wait until the target has all that the sources have now; False when stopped, or when it takes too long."""
        self._wanted, self.lag = self._ends(), None
        deadline = self._clock.monotonic() + _SECONDS
        while (lag := self._first_lag()) is not None:
            if self._clock.monotonic() >= deadline:
                self.lag = lag
                return False
            if self._clock.wait(stop, _PAUSE):
                return False
        return True

    def rests(self) -> bool:
        """Whether the sources have written nothing since the target was waited for. Raises DMError."""
        return self._ends() == self._wanted

    def _ends(self) -> dict[str, Position]:
        return {subtask.source_id: _end(subtask) for subtask in self._subtasks}

    def _first_lag(self) -> Lag | None:
        for subtask in self._subtasks:
            wanted = self._wanted[subtask.source_id]
            stored = read_checkpoint(self._target, SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id))
            if stored is None or not stored.position.covers(wanted):
                return Lag(subtask.task, subtask.source_id, wanted, None if stored is None else stored.position)
        return None

    def close(self) -> None:
        """End the session."""
        with suppress(DMError):
            self._target.close()


def _end(subtask: SubtaskConfig) -> Position:
    session = question_session(subtask.source.endpoint)
    try:
        return upper_bound(session, read_facts(session))
    finally:
        session.close()


def end_of(subtask: SubtaskConfig) -> Position | None:
    """The end of the source's binlog; None where it has none, or where the account may not know it. Raises DMError."""
    session = question_session(subtask.source.endpoint)
    try:
        facts = read_facts(session)
        return upper_bound(session, facts) if facts.log_bin else None
    except DMError as error:
        if error.retryable:
            raise
        return None
    finally:
        session.close()
