"""The contract between a subtask and the work it runs: one `Unit` per dump, load, sync or relay run.

Who calls what: the host process creates a unit and calls `run` once, in a thread of its own; any thread may call
`status` at any time. `run` returns when the work is finished (dump, load) or when `stop` was set and the unit has
brought everything it owns to a resumable rest; it raises `DMError` when it can't go on. A pause is `stop`; a resume
is a new unit object, which finds its place from what is stored (progress tables, chunk records, relay files). So
nothing in memory is ever needed to go on: a SIGKILL is just a stop that nobody announced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

UnitName = Literal["Dump", "Load", "Sync", "Relay", "Validator", "Diff", "Flashback", "Replay", "Spark", "Join"]
JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]


class Unit(Protocol):
    """One run of one unit."""

    name: UnitName

    def run(self, stop: threading.Event) -> None:
        """Work until finished or stopped; raises DMError. Must return within 10 s of `stop`."""
        ...

    def status(self) -> Mapping[str, JSON]:
        """DM's status fields of the unit, from memory, never blocking on a server."""
        ...


Factory = Callable[[Mapping[str, JSON]], Unit]
"""Makes a unit from its payload, as it comes over the pipe."""
