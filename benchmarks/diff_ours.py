"""`python -m benchmarks.diff_ours`: compares in one Spark session, as stdin orders; stdout says in how long, in JSON.

The session is there when its Python workers are, which is what its first job starts.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.measure import descendants
from dm.config.dumper import DumperConfig
from dm.config.subtask import SubtaskConfig
from dm.config.units import SparkConfig
from dm.spark.session import SparkProvider
from dm.tools.diff.unit import DiffUnit
from dm.tools.errands import DiffRequest
from tests.testbed.memory import NoMemory, memory_of


def _begin(_: int) -> None:
    """What a worker does once in its life."""
    import dm.tools.diff.chunk  # noqa: F401


def _peak() -> int:
    """The sum of the most that each process held which has not ended; a worker that has nothing to do does."""
    held = 0
    for pid in descendants(os.getpid()):
        with suppress(FileNotFoundError, ProcessLookupError, NoMemory):
            held += memory_of(pid, "VmHWM")
    return held


def main() -> None:
    """Serve until stdin ends; the first line says that the session is there."""
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as scratch:
        spark = SparkProvider(SparkConfig().master_for(DumperConfig().threads), scratch=Path(scratch))
        workers = spark.context().defaultParallelism
        spark.context().parallelize(range(workers), workers).foreach(_begin)
        print("ready", flush=True)
        for line in sys.stdin:
            unit = DiffUnit([SubtaskConfig.from_wire(json.loads(line))], DiffRequest(), spark)
            began = time.monotonic()
            unit.run(threading.Event())
            seconds = time.monotonic() - began
            rows = sum(table.source_rows for table in unit.report.tables)
            answer = {"seconds": seconds, "memory": _peak(), "verdict": unit.report.verdict, "rows": rows}
            print(json.dumps(answer), flush=True)
        spark.close()


if __name__ == "__main__":
    main()
