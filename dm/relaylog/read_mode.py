"""Where a reader of the relay reads, and how often that changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dm.unit import JSON

Mode = Literal["memory", "file"]


class ReadMode:
    """Counts the changes between the ring and the files; one thread enters, any thread asks."""

    def __init__(self) -> None:
        self.now: Mode = "file"
        self.switches = 0

    def enter(self, mode: Mode) -> bool:
        """Read there from now on; whether that is a change."""
        if mode == self.now:
            return False
        self.now = mode
        self.switches += 1
        return True

    def report(self) -> Mapping[str, JSON]:
        """The fields of `query-status`."""
        return {"readMode": self.now, "readModeSwitches": self.switches}
