"""What a person asks of a replay, and where it works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dm.config.subtask import SubtaskConfig
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
