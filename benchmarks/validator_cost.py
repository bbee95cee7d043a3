"""What a validator costs the syncer beside it.

The syncer catches up with a workload that is in the relay already, alone and with a validator, in turn. The validator
is a process of the lowest priority, as the daemon has it, reads the same relay, and begins when the syncer has its
first checkpoint. The ratio of the rates is what the syncer keeps; how many rows the validator had read at the end says
whether it kept up.
"""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Final, cast

from benchmarks.catch_up import run_ours
from benchmarks.measure import Comparison, Series, in_turn, run_python
from benchmarks.pull import pull_ours
from benchmarks.recording import Recording
from dm.config.subtask import SubtaskConfig
from dm.config.units import ValidatorConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.progress.checkpoint import has_checkpoint
from dm.progress.tables import SubtaskKey
from dm.tools.validator.throttle import NICENESS
from dm.unit import JSON
from tests.testbed.sync import FreshProcess
from tests.testbed.validation import ValidatorProcess

WORKLOAD: Final = "A"
GOAL: Final = 0.9
_LOOK_SECONDS: Final = 0.2


class BesideValidator:
    """Runs the syncer's program with a validator beside it."""

    def __init__(self, relay: Path, work: Path) -> None:
        self._relay, self._work = relay, work
        self.processed = ""

    def __call__(self, module: str, order: JSON) -> JSON:
        """As `run_python`."""
        told, subtask = _ordered(order)
        settings = ValidatorConfig.model_validate({"mode": "full", "validate_interval": 1.0, "check_interval": 1.0})
        subtask = subtask.model_copy(update={"validator": settings})
        ready = FreshProcess()
        os.setpriority(os.PRIO_PROCESS, ready.pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        over = threading.Event()
        beside = threading.Thread(target=self._validate, args=(subtask, ready, over), daemon=True)
        beside.start()
        try:
            return run_python(module, {**told, "subtask": subtask.to_wire()})
        finally:
            over.set()
            beside.join()

    def _validate(self, subtask: SubtaskConfig, ready: FreshProcess, over: threading.Event) -> None:
        key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)
        with closing(TargetConnection(subtask.target)) as connection:
            while not has_checkpoint(connection, key):
                if over.wait(_LOOK_SECONDS):
                    ready.kill()
                    ready.wait()
                    ready.close()
                    return
        process = ValidatorProcess(subtask, self._work, relay=self._relay, ready=ready)
        over.wait()
        self.processed = str((process.status() or {}).get("processedRowsStatus", "nothing"))
        process.close(kill=True)


def alone(module: str, order: JSON) -> JSON:
    """As `run_python`."""
    told, subtask = _ordered(order)
    return run_python(module, {**told, "subtask": subtask.to_wire()})


def _ordered(order: JSON) -> tuple[dict[str, Any], SubtaskConfig]:
    """An order, and its subtask, which stores its checkpoint each second, with and without a validator."""
    told = dict(cast("dict[str, Any]", order))
    subtask = SubtaskConfig.from_wire(told["subtask"])
    syncer = subtask.syncer.model_copy(update={"checkpoint_flush_interval": 1})
    return told, subtask.model_copy(update={"syncer": syncer})


def measure(source: ThrowawayServer, target: ThrowawayServer, recording: Recording, rounds: int) -> Comparison:
    """With and without one, in each round, in turn."""
    rate = "rows per second"
    beside, without = Series("dm with a validator", rate), Series("dm alone", rate)
    read: list[JSON] = []
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as name:
        relay = Path(name) / "relay"
        pull_ours(source, recording, relay)
        for number in range(rounds):
            for series in in_turn((beside, without), number):
                work = Path(name) / f"{number}-{series is beside}"
                validator = BesideValidator(relay, work / "validator")
                run = alone if series is without else validator
                seconds, _ = run_ours(source, target, recording, work, relay, run=run)
                series.values.append(recording.rows / seconds)
                if series is beside:
                    read.append(validator.processed)
    notes: dict[str, JSON] = {"rows": recording.rows, "the validator had read": read}
    what = f"catch-up {recording.workload.name} with a validator"
    return Comparison("validator", what, beside, without, GOAL, notes=notes)
