"""What CPU each kind of process below another one took, also of those that have ended meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.measure import descendants, process_seconds

_LOOK_SECONDS = 0.1
# What a command line has in it, and what the process is called; the first that fits.
_KINDS: Mapping[str, str] = {
    "launcher.Main": "Spark's launcher",
    "SparkSubmit": "Spark's JVM",
    "worker_daemon": "Spark's workers and what they are forked from",
    "pyspark.daemon": "Spark's workers and what they are forked from",
    "dm.task.host": "host of the units",
    "dm.worker.daemon": "daemon",
}


class ProcessWatch:
    """Looks at the processes inside the block; what one takes between the last look and its end is lost."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: dict[int, tuple[str, float, float]] = {}  # kind, CPU seconds at the first look and at the last
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="process-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def seconds(self) -> Mapping[str, float]:
        """CPU seconds by kind, the most first."""
        found: dict[str, float] = {}
        for kind, first, last in self._seen.values():
            found[kind] = found.get(kind, 0.0) + last - first
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def _look(self) -> None:
        began = True
        while not self._over.wait(0.0 if began else _LOOK_SECONDS):
            for pid in descendants(self._pid):
                try:
                    spent = process_seconds(pid)
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                except (FileNotFoundError, ProcessLookupError):
                    continue  # it has ended
                # What was there at first has a past; what began since has none. An ended process has no command line.
                kind, first, _ = self._seen.get(pid, ("", spent if began else 0.0, 0.0))
                named = next((name for part, name in _KINDS.items() if part in words), "others")
                self._seen[pid] = (named if words or not kind else kind, first, spent)
            began = False
