"""`python -m benchmarks.catch_up_ours`: one run of the sync unit over a relay; stdout says how long it took.

It also says what CPU the start took, until the sessions are open and what is stored is read, and what CPU each kind of
thread took by the end; threads that have ended (logins) are not among them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.thread_seconds import by_thread
from benchmarks.unit_thread import run_until
from dm.config.subtask import SubtaskConfig
from dm.syncer.unit import SyncUnit

_SECONDS = 900.0


def main() -> None:
    """Run until as many rows are committed as the workload has."""
    order = json.load(sys.stdin)
    subtask = SubtaskConfig.from_wire(order["subtask"])
    unit = SyncUnit(subtask, relay_directory=Path(order["relay"]), work_directory=Path(order["work"]))
    began = started = time.process_time()
    before = by_thread()
    threads: Mapping[str, float] = {}

    def applied() -> bool:
        nonlocal started, threads
        rows = unit.status().get("totalRows")
        if not isinstance(rows, int):
            started = time.process_time()
            return False
        if rows < order["rows"]:
            return False
        threads = {name: spent - before.get(name, 0.0) for name, spent in by_thread().items()}
        return True

    seconds, spent = run_until(unit, applied, _SECONDS)
    status = unit.status()
    sent, as_events = int(str(status["totalRows"])) - int(str(status["compactedRows"])), int(str(status["eventRows"]))
    answer = {
        "seconds": seconds,
        "cpu": spent,
        "start": started - began,
        "threads": threads,
        "forms": status["tables"],
        "as events": as_events / sent,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
