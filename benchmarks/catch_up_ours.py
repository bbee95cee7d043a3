"""`python -m benchmarks.catch_up_ours`: one run of the sync unit over a relay; stdout says how long it took."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.unit_thread import run_until
from dm.config.subtask import SubtaskConfig
from dm.syncer.unit import SyncUnit

_SECONDS = 900.0


def main() -> None:
    """Run until as many rows are committed as the workload has."""
    order = json.load(sys.stdin)
    subtask = SubtaskConfig.from_wire(order["subtask"])
    unit = SyncUnit(subtask, relay_directory=Path(order["relay"]), work_directory=Path(order["work"]))

    def applied() -> bool:
        rows = unit.status().get("totalRows", 0)
        return isinstance(rows, int) and rows >= order["rows"]

    seconds, spent = run_until(unit, applied, _SECONDS)
    status = unit.status()
    sent, as_events = int(str(status["totalRows"])) - int(str(status["compactedRows"])), int(str(status["eventRows"]))
    print(json.dumps({"seconds": seconds, "cpu": spent, "forms": status["tables"], "as events": as_events / sent}))


if __name__ == "__main__":
    main()
