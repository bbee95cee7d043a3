"""The process that Spark forks its Python workers from, with the workers' modules in it already.

Problem: Spark has one daemon for all workers of a host, and each worker that it forks imports for itself what its tasks
need: pyarrow, the configuration's types, our own code. That is most of a second of CPU for every worker, at the moment
at which a task is to begin.

Here the daemon imports it once, before the first fork, and the workers share its pages. Spark's own daemon does the
rest (`spark.python.daemon.module` names the module to run). It imports late because libraries may start threads, and a
fork takes none along. What we name starts none but jemalloc's, which knows what to do at a fork; a test looks.

On this machine only: executors of a cluster have no such module before a task brings it.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Final

from dm.private_process import keep_to_itself

_MODULES: Final = "DM_WORKER_MODULES"
_OF_SPARK: Final = "pyspark.worker"


def preloading(modules: Sequence[str]) -> Mapping[str, str]:
    """The settings of a session on this machine whose workers have these modules when they begin."""
    return {
        "spark.python.daemon.module": __name__,
        f"spark.executorEnv.{_MODULES}": ",".join((_OF_SPARK, *modules)),
    }


def main() -> None:
    """Import what the workers need, and be Spark's daemon."""
    keep_to_itself()
    for module in filter(None, os.environ.get(_MODULES, "").split(",")):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a collector that looks at what is shared would make copies of it
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
