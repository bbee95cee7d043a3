"""The CPU time of the threads of this process, from the scheduler's own books (/proc/PID/task/TID/schedstat).

No profiler takes part, so nothing is dearer than without it. Like all CPU time it is nearly the same on a loaded
machine as on an idle one; what the load adds are colder caches.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

_NANOSECONDS = 1_000_000_000


def by_thread() -> Mapping[str, float]:
    """CPU seconds so far of the threads that Python runs, by the first word of their names."""
    found: dict[str, float] = {}
    for thread in threading.enumerate():
        try:
            book = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text(encoding="ascii")
        except FileNotFoundError:
            continue  # it has ended meanwhile
        name = thread.name.partition("-")[0].partition(" ")[0]
        found[name] = found.get(name, 0.0) + int(book.split()[0]) / _NANOSECONDS
    return found
