"""A unit in a process of its own: `python -m tests.testbed.unit_program` waits for a line that says which one it is.

Then each line asks for its status, which it answers with one; `stop` or the end of the lines has it rest.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from dm import faults
from dm.config.source import SourceConfig
from dm.config.subtask import SubtaskConfig
from dm.relay.unit import RelayUnit
from dm.sourcelog.stream.until import until_from_json
from dm.syncer.joined_sync import JoinedSync
from dm.syncer.shards.sharded import ShardedSync, sync_unit
from dm.task import host
from dm.unit import Unit

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    """The process."""
    # Also a stopped process dies with its test.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    host.settle()
    answers = os.dup(1)
    os.dup2(2, 1)  # as in a host: what a unit logs is no answer
    line = sys.stdin.readline()
    if not line:
        return
    order = json.loads(line)
    exec(order["patch"], {**globals()})
    os.environ.update(order["environment"])
    faults.arm(order["faults"])
    unit = _unit(order)
    stop = threading.Event()
    threading.Thread(target=_serve, args=(unit, stop, answers), daemon=True).start()
    unit.run(stop)


def _unit(order: dict[str, Any]) -> Unit:
    directory = Path(order["directory"]) if order["directory"] else None
    if order["unit"] == "relay":
        assert directory is not None
        return RelayUnit(SourceConfig.from_wire(order["config"]), directory)
    config, work = SubtaskConfig.from_wire(order["config"]), Path(order["work_directory"])
    if order["unit"] == "validator":
        from dm.tools.validator.unit import ValidatorUnit  # the others' memory is measured

        return ValidatorUnit(config, relay_directory=directory, work_directory=work)
    return sync_unit(config, relay_directory=directory, work_directory=work, until=until_from_json(order["until"]))


def _serve(unit: Unit, stop: threading.Event, answers: int) -> None:
    while True:
        line = sys.stdin.readline()
        if not line or line == "stop\n":
            stop.set()
            return
        if isinstance(unit, JoinedSync | ShardedSync):
            unit.refresh(5)
        # At once: who is stopped between a line and its end leaves its reader waiting.
        os.write(answers, (json.dumps(unit.status()) + "\n").encode())


if __name__ == "__main__":
    main()
