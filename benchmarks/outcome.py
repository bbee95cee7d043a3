"""What a run of several parts came to: their figures, how long each took, and which of them failed.

A part that fails has no line in the table. The others go on, since a run takes twenty minutes.
"""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from benchmarks import report
from benchmarks.measure import Comparison

_T = TypeVar("_T")


class Outcome:
    """Collects what is measured, and prints each line as soon as it is known."""

    def __init__(self) -> None:
        self.comparisons: list[Comparison] = []
        self.failed: dict[str, str] = {}
        """By part, why."""
        self.seconds: dict[str, float] = {}
        """By the first word of a part's name, each without what another part took within it."""

    def measure(self, part: str, measuring: Callable[[], Comparison | Iterable[Comparison]]) -> None:
        """Measure a part of the run; what it had found before it failed stays."""

        def collect() -> None:
            found = measuring()
            for comparison in [found] if isinstance(found, Comparison) else found:
                print("\n".join(report.table([comparison])[2:]), flush=True)
                self.comparisons.append(comparison)

        self.attempt(part, collect)

    def attempt(self, part: str, act: Callable[[], _T]) -> _T | None:
        """Do something that parts need; None where it failed, which is told."""
        began, within = time.monotonic(), sum(self.seconds.values())
        try:
            return act()
        except Exception as error:
            print(f"{part} failed:", file=sys.stderr)
            traceback.print_exception(error)
            sys.stderr.flush()
            self.failed[part] = _in_one_line(error)
            return None
        finally:
            kind, within = part.partition(" ")[0], sum(self.seconds.values()) - within
            self.seconds[kind] = self.seconds.get(kind, 0.0) + time.monotonic() - began - within


def _in_one_line(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):  # its arguments are this machine's paths
        return f"{Path(error.cmd[0]).name} ended with {error.returncode}"
    first, _, _ = str(error).strip().partition("\n")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
