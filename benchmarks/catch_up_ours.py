"""`python -m benchmarks.catch_up_ours`: one run of the sync unit over a relay; stdout says how long it took."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from dm.config.subtask import SubtaskConfig
from dm.syncer.unit import SyncUnit

_SECONDS = 900.0


def main() -> None:
    """Run until as many rows are committed as the workload has."""
    order = json.load(sys.stdin)
    subtask = SubtaskConfig.from_wire(order["subtask"])
    unit = SyncUnit(subtask, relay_directory=Path(order["relay"]), work_directory=Path(order["work"]))
    stop = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            unit.run(stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    cpu, began = time.process_time(), time.monotonic()
    thread.start()
    pause = threading.Event()
    while not failed:
        rows = unit.status().get("totalRows", 0)
        if isinstance(rows, int) and rows >= order["rows"]:
            break
        if time.monotonic() - began > _SECONDS:
            raise RuntimeError(f"{rows} of {order['rows']} rows after {_SECONDS} s")
        pause.wait(0.01)
    seconds, spent = time.monotonic() - began, time.process_time() - cpu
    status = unit.status()
    stop.set()
    thread.join()
    if failed:
        raise failed[0]
    print(json.dumps({"seconds": seconds, "cpu": spent, "status": status}))


if __name__ == "__main__":
    main()
