"""The process that Spark forks its Python workers from, with the workers' modules in it already.

Problem: Spark has one daemon for all workers of a host, and each worker that it forks imports for itself what its tasks
need: pyarrow, the configuration's types, our own code. That is most of a second of CPU for every worker, at the moment
at which a task is to begin.

Here the daemon imports it once, before the first fork, and the workers share its pages. Spark's own daemon does the
rest (`spark.python.daemon.module` names the module to run). It imports late because libraries may start threads, and a
fork takes none along. What we name starts none but jemalloc's, which knows what to do at a fork; a test looks.

On this machine only: executors of a cluster have no such module before a task brings it.

Where a unit host has begun the daemon before the JVM (`daemon_ahead`), Spark's process leaves it the work.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dm.private_process import keep_to_itself
from dm.spark.daemon_ahead import DaemonAhead, hand_over

_MODULES: Final = "DM_WORKER_MODULES"
_AHEAD: Final = "DM_WORKER_DAEMON"
_OF_SPARK: Final = "pyspark.worker"

COMMAND: Final = (sys.executable, "-m", __name__, _OF_SPARK)  # as Spark starts it


def preloading(modules: Sequence[str]) -> Mapping[str, str]:
    """The settings of a session on this machine whose workers have these modules when they begin."""
    return {
        "spark.python.daemon.module": __name__,
        f"spark.executorEnv.{_MODULES}": ",".join((_OF_SPARK, *modules)),
    }


def begun(settings: Mapping[str, str], ahead: DaemonAhead, directory: Path) -> Mapping[str, str]:
    """Have the daemon of a session with these settings begin; what its settings need besides."""
    if settings.get("spark.python.daemon.module") != __name__:
        return {}
    modules = settings.get(f"spark.executorEnv.{_MODULES}", "").split(",")
    path = ahead.prepare([*filter(None, modules)], directory)
    return {f"spark.executorEnv.{_AHEAD}": path} if path else {}


def main() -> None:
    """Import what the workers need, and be Spark's daemon."""
    keep_to_itself()
    path = os.environ.pop(_AHEAD, "")
    if path and hand_over(path):
        return
    for module in filter(None, os.environ.get(_MODULES, "").split(",")):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a collector that looks at what is shared would make copies of it
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
