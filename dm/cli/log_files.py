"""`dmctl logs`: what a task's processes logged, in the order of time, and what they log from now on.

The daemon says which files those are, and they are read here: it runs on this machine and for this user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dm.cli import output as printer
from dm.worker.log_lines import LEVELS, Line, LogReader

_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Showing:
    """Which lines are shown, and how."""

    lowest: int
    as_they_are: bool

    def print(self, lines: Sequence[Line]) -> None:
        """In the order of time; lines of one process keep their order."""
        for line in sorted(lines, key=lambda line: line.time):
            if line.level not in LEVELS or LEVELS.index(line.level) >= self.lowest:
                printer.print_line(line.text if self.as_they_are else line.shown())


def show(readers: Sequence[LogReader], count: int, showing: Showing, wait: Callable[[float], None] | None) -> None:
    """Print the last lines of all logs together, and with `wait` go on until Ctrl-C."""
    try:
        found = sorted((line for reader in readers for line in reader.last(count)), key=lambda line: line.time)
        showing.print(found[len(found) - min(count, len(found)) :])
        while wait is not None:
            wait(_SECONDS)
            showing.print([line for reader in readers for line in reader.new()])
    except KeyboardInterrupt:
        pass  # that is how one leaves
    finally:
        for reader in readers:
            reader.close()
