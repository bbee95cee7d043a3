"""`python -m benchmarks.validator_cost`: what a validator costs the syncer beside it.

The syncer catches up with a workload that is in the relay already, alone and with a validator, in turn. The validator
is a process of low priority, as the daemon has it, reads the same relay, and begins when the syncer has its first
checkpoint. The ratio of the rates is what the syncer keeps; how many rows the validator had read at the end says
whether it kept up.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, cast

from benchmarks.catch_up import run_ours, target_server
from benchmarks.measure import Series, in_turn, run_python
from benchmarks.pull import pull_ours
from benchmarks.recording import SOURCE_OPTIONS, record
from benchmarks.workload import WORKLOADS
from dm.config.subtask import SubtaskConfig
from dm.config.validator import ValidatorConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.progress.checkpoint import has_checkpoint
from dm.progress.tables import SubtaskKey
from dm.unit import JSON
from tests.testbed.sync import FreshProcess
from tests.testbed.validation import ValidatorProcess

_LOW_PRIORITY: Final = 10
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
        os.setpriority(os.PRIO_PROCESS, ready.pid, os.getpriority(os.PRIO_PROCESS, 0) + _LOW_PRIORITY)
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validator_cost", description="what a validator costs")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="A")
    parser.add_argument("--scale", type=float, default=3.0, help="of the workload (default 3)")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    without, beside = Series("alone", "rows per second"), Series("with a validator", "rows per second")
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as name,
        ThrowawayServer("mysql", Path(name) / "source", server_id=71, options=SOURCE_OPTIONS) as source,
        target_server(Path(name)) as target,
    ):
        recording = record(source, WORKLOADS[given.workload], given.scale)
        relay = Path(name) / "relay"
        pull_ours(source, recording, relay)
        for number in range(given.rounds):
            for series in in_turn((without, beside), number):
                work = Path(name) / f"{series.name}-{number}"
                validator = BesideValidator(relay, work / "validator")
                run = alone if series is without else validator
                seconds, _ = run_ours(source, target, recording, work, relay, run=run)
                series.values.append(recording.rows / seconds)
                read = f", read {validator.processed}" if series is beside else ""
                print(f"{series.name}: {series.values[-1]:.0f} rows per second{read}", flush=True)
    print(f"\nof {recording.rows} rows; the syncer keeps {100 * beside.median / without.median:.0f} % of its rate")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
