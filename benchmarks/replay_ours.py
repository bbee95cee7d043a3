"""`python -m benchmarks.replay_ours`: one replay of a backlog; stdout says how long it took, and in which steps."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.measure import tree_seconds
from dm.config.subtask import SubtaskConfig
from dm.spark.session import SparkProvider
from dm.task.start_and_end import place_of_text
from dm.tools.errands import ReplayRequest
from dm.tools.replay.unit import ReplayUnit


def main() -> None:
    """Replay all that the relay has, from the start of Spark to the stored end."""
    order = json.load(sys.stdin)
    subtask, work = SubtaskConfig.from_wire(order["subtask"]), Path(order["work"])
    request = ReplayRequest(subtask, Path(order["relay"]), work, work / "replay")
    with tempfile.TemporaryDirectory(prefix="dm-spark-") as scratch:
        began = time.monotonic()
        spark = SparkProvider(order["master"], order["conf"], Path(scratch), python=sys.executable)
        try:
            spark.context()
            started = time.monotonic() - began
            unit = ReplayUnit(request, place_of_text, spark)
            unit.run(threading.Event())
            seconds, cpu = time.monotonic() - began, tree_seconds(os.getpid())
        finally:
            spark.close()
    status = unit.status()
    told = {name: status[name] for name in ("changes", "applied", "asEvents", "seconds", "endsBefore", "left")}
    print(json.dumps({"wall": seconds, "spark": started, "cpu": cpu, **told}))


if __name__ == "__main__":
    main()
