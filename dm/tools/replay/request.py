"""What a person asks of a replay, and where it works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dm.config.subtask import SubtaskConfig
from dm.ident import TableName
from dm.position import Position
from dm.unit import JSON


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A subtask, its places on disk, and the options of `dmctl replay`."""

    subtask: SubtaskConfig
    relay: Path
    sync_directory: Path  # the syncer's: rows of undecided XA transactions are there
    directory: Path  # for what is between reading and applying; where a cluster's executors see it, too
    until: str = ""  # as a person wrote it; empty: the relay's present end
    cancel: bool = False  # nothing is replayed: the record of an earlier replay is removed

    def to_wire(self) -> dict[str, JSON]:
        """With passwords: for the pipe only."""
        return {
            "subtask": self.subtask.to_wire(), "relay": str(self.relay), "sync_directory": str(self.sync_directory),
            "directory": str(self.directory), "until": self.until, "cancel": self.cancel,
        }  # fmt: skip

    @classmethod
    def from_wire(cls, wire: Mapping[str, JSON]) -> ReplayRequest:
        """The inverse."""
        return cls(
            SubtaskConfig.from_wire(wire["subtask"]),
            Path(str(wire["relay"])),
            Path(str(wire["sync_directory"])),
            Path(str(wire["directory"])),
            str(wire["until"]),
            bool(wire["cancel"]),
        )


# How far a replay is, and what came of it.


@dataclass
class ReplayReport:
    """For `query-status` and `dmctl replay`."""

    source: str
    phase: str = "connecting"
    over: bool = False
    goes_on: bool = False  # with what an earlier one has left
    begin: Position | None = None
    end: Position | None = None
    ends_before: str = ""
    pieces: int = 0
    done_pieces: int = 0
    bytes: int = 0
    done_bytes: int = 0
    buckets: int = 0  # of the present job
    done_buckets: int = 0
    changes: int = 0  # that were read
    applied: int = 0
    as_events: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # by phase
    replayed: Mapping[TableName, TableName] = field(default_factory=dict)
    left: Mapping[TableName, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """The fields."""
        return {
            "source": self.source, "phase": self.phase, "over": self.over, "goesOn": self.goes_on,
            "from": "" if self.begin is None else str(self.begin), "to": "" if self.end is None else str(self.end),
            "toGtid": "" if self.end is None else str(self.end.gtid_set), "endsBefore": self.ends_before,
            "pieces": self.pieces, "donePieces": self.done_pieces, "bytes": self.bytes, "doneBytes": self.done_bytes,
            "buckets": self.buckets, "doneBuckets": self.done_buckets, "changes": self.changes,
            "applied": self.applied, "asEvents": self.as_events,
            "seconds": {phase: round(seconds, 2) for phase, seconds in self.seconds.items()},
            "tables": [str(target) for target in sorted(set(self.replayed.values()))],
            "left": {str(table): why for table, why in sorted(self.left.items())},
        }  # fmt: skip
