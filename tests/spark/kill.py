"""Runs one unit of a full load in a process of its own, to be killed there: configuration on standard input."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from dm.config.subtask import SubtaskConfig
from dm.dumper.unit import DumpUnit
from dm.loader.unit import LoadUnit
from dm.spark.session import SparkProvider


def main() -> None:
    """`kill.py Dump|Load DIRECTORY`."""
    config = SubtaskConfig.from_wire(json.load(sys.stdin))
    directory = Path(sys.argv[2])
    spark = SparkProvider("local[2]", scratch=directory.parent / "spark")
    unit = DumpUnit(config, directory, spark) if sys.argv[1] == "Dump" else LoadUnit(config, directory, spark)
    unit.run(threading.Event())
    spark.close()


if __name__ == "__main__":
    main()
