"""`python -m tests.live.heal.killed`: a heal in a process of its own, which an armed fault point kills."""

from __future__ import annotations

import json
import sys
import threading

from dm.spark.session import SparkProvider
from dm.task.payload import HealPayload
from dm.tools.heal.unit import HealUnit


def main() -> None:
    """The payload comes on stdin; so few rows need no session of Spark, and none begins."""
    payload = HealPayload.from_wire(json.load(sys.stdin))
    HealUnit(payload.request, SparkProvider("local[1]", {}, scratch=payload.scratch)).run(threading.Event())


if __name__ == "__main__":
    main()
