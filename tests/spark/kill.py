"""Runs one unit of a full load in a process of its own, to be killed there: configuration on standard input.

An error goes to standard error; the exit status says whether the task would try again by itself.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from dm.config.subtask import SubtaskConfig
from dm.errors import DMError
from dm.loader.unit import LoadUnit
from dm.spark.session import SparkProvider
from tests.spark.full_load import dump_unit, storage_at

TRIED_AGAIN = 3


def main() -> None:
    """`kill.py Dump|Load DIRECTORY`."""
    config = SubtaskConfig.from_wire(json.load(sys.stdin))
    directory = Path(sys.argv[2])
    spark = SparkProvider("local[2]", scratch=directory.parent / "spark")
    storage = storage_at(config, directory)
    unit = dump_unit(config, storage, spark) if sys.argv[1] == "Dump" else LoadUnit(config, storage, spark)
    try:
        unit.run(threading.Event())
    except DMError as error:
        print(error, file=sys.stderr)
        sys.exit(TRIED_AGAIN if error.retryable else 1)
    finally:
        spark.close()


if __name__ == "__main__":
    main()
