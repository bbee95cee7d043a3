"""As of which moment the servers are read (`dmctl diff --snapshot`).

`now` makes all queries of a chunk see one moment of a server: its checksum, the checksums of its buckets, and the rows
that are shown. MySQL and MariaDB have snapshots of a session only, and none of the past; a new one is taken before each
chunk, the target's first. A TiDB keeps its history: all sessions read it as of one timestamp, taken when the comparison
begins to look, or named by a person.

Decision 080 says why there is nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dm.errors import DMError
from dm.upstream.connection import Connection, fetch

NOW: Final = "now"
TARGET_WORD: Final = "target"

_TSO: Final = re.compile(r"\d{15,20}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:?\d\d)?")
_LOGICAL_BITS: Final = 18  # of a TSO, below its milliseconds
_OF_A_SESSION: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT"


@dataclass(frozen=True, slots=True)
class Reading:
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

    def reading(self, place: int, connection: Connection, *, tidb: bool) -> Reading:
        """What sessions of a server say before they read; raises DMError where it does not have the moment."""
        moment = self.asked.get(place, "")
        if not moment:
            return Reading()
        if not tidb:
            if moment != NOW:
                raise DMError("diff-snapshot-refused", address=f"{connection.host}:{connection.port}", moment=moment)
            return Reading(each_time=_OF_A_SESSION)
        return Reading(once=f"SET SESSION tidb_snapshot = '{_timestamp(connection, moment)}'")


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
