"""`python -m benchmarks.full_ours`: dumps and loads in one Spark session, as stdin orders; stdout says in how long.

The session is there when its Python workers are, which is what its first job starts.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from pathlib import Path

from dm.config.dumper import DumperConfig
from dm.config.subtask import SubtaskConfig
from dm.config.units import SparkConfig
from dm.dumper.unit import DumpUnit
from dm.dumpfiles.storage import LocalStorage
from dm.loader.unit import LoadUnit
from dm.spark.session import SparkProvider


def _begin(_: int) -> None:
    """What a worker does once in its life, however many dumps and loads it sees."""
    import dm.dumper.chunk_group
    import dm.loader.part_writer  # noqa: F401


def main() -> None:
    """Serve until stdin ends; the first line says that the session is there."""
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as scratch:
        spark = SparkProvider(SparkConfig().master_for(DumperConfig().threads), scratch=Path(scratch))
        workers = spark.context().defaultParallelism
        spark.context().parallelize(range(workers), workers).foreach(_begin)
        print("ready", flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            make = DumpUnit if order["unit"] == "Dump" else LoadUnit
            unit = make(SubtaskConfig.from_wire(order["subtask"]), LocalStorage(Path(order["directory"])), spark)
            began = time.monotonic()
            unit.run(threading.Event())
            print(time.monotonic() - began, flush=True)
        spark.close()


if __name__ == "__main__":
    main()
