"""Spark's session before there is work for it.

A JVM and its Python workers take some seconds to start, and so do the checks of a task before its first unit runs. This
unit lets both happen at once. It has no work of its own: it starts the session that the process's other units share,
and ends when one of them takes it, when it is stopped, or when nobody came for it. What it could not start, the unit
that needs it tries again, and says why.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

import structlog

from dm.spark.session import SparkProvider
from dm.stop_signal import StopSignal, told
from dm.unit import JSON, UnitName

_UNUSED_SECONDS: Final = 60.0


def _nothing(_: int) -> None:
    """What a worker does to be there."""


class HeadStart:
    """Starts the session; `taken` is set when another unit of the process has it."""

    name: UnitName = "Spark"

    def __init__(self, spark: SparkProvider, taken: StopSignal, unused_seconds: float = _UNUSED_SECONDS) -> None:
        self._spark = spark
        self._taken = taken
        self._unused_seconds = unused_seconds
        self._over = threading.Event()
        self._failure: BaseException | None = None

    def status(self) -> Mapping[str, JSON]:
        """Nothing: nobody asks for it."""
        return {}

    def run(self, stop: threading.Event) -> None:
        """Start the session; raises what kept it from starting, if nobody has come for it yet."""
        # A start can't be interrupted, only ended with the session, by whoever closes the provider. So it is not waited
        # for where the unit has to come to rest.
        threading.Thread(target=self._start, name="spark head start", daemon=True).start()
        with told(stop, self._over.set), told(self._taken, self._over.set):
            self._over.wait()
        if self._failure is not None and not self._taken.is_set() and not stop.is_set():
            raise self._failure

    def _start(self) -> None:
        try:
            context = self._spark.context()
            workers = context.defaultParallelism
            context.parallelize(range(workers), workers).foreach(_nothing)
            self._over.wait(self._unused_seconds)
        except BaseException as error:  # carried to the unit's thread
            structlog.get_logger().info("no head start of Spark", error=repr(error))
            self._failure = error
        self._over.set()
