"""A task and what is loaded beside it, each in a thread of the test's process, as a daemon would run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.dumper.unit import DumpUnit
from dm.errors import DMError
from dm.loader.own_tables import LostDump
from dm.loader.stream import TargetStream
from dm.loader.unit import LoadUnit
from dm.progress.joining.table_joining import Joining, find_joining
from dm.spark.session import SparkProvider
from dm.task.payload import UnitPayload
from dm.task.progress import key_of
from dm.task.share_unit import JoinUnit
from dm.unit import Unit, UnitName
from tests.testbed.sync import RunningSync, running_sync
from tests.testbed.unit_thread import UnitThread


def joining_of(subtask: SubtaskConfig) -> Joining | None:
    """What the target says of tables that are loaded beside the task."""
    with closing(TargetConnection(subtask.target)) as connection:
        return find_joining(connection, key_of(subtask))


def join_unit(subtask: SubtaskConfig, directory: Path, spark: SparkProvider | None, branch: str = "") -> JoinUnit:
    """The unit as a host makes it; without Spark there must be nothing to load."""

    def copy(name: UnitName, payload: UnitPayload) -> Unit:
        assert spark is not None
        if name == "Load":
            return LoadUnit(payload.config, payload.dump_storage, spark)
        stream = TargetStream.of(payload.config)
        unit = DumpUnit(payload.config, payload.dump_storage, spark, hold=payload.hold, stream=stream)
        return unit.when_anew(LostDump(payload.config).give_up)

    return JoinUnit(UnitPayload(subtask, None, directory, branch=branch), copy)


@dataclass
class Task:
    """Main's configuration, and its places."""

    subtask: SubtaskConfig
    directory: Path
    spark: SparkProvider | None = None

    @contextmanager
    def following(self, subtask: SubtaskConfig | None = None) -> Iterator[RunningSync]:
        """Main runs."""
        with running_sync(subtask or self.subtask, work_directory=self.directory / "main") as sync:
            yield sync

    @contextmanager
    def joining(self, subtask: SubtaskConfig | None = None, *, ends: bool = True) -> Iterator[JoinUnit]:
        """What is loaded beside it runs; if it `ends`, it has to come to its end by itself."""
        unit = join_unit(subtask or self.subtask, self.directory / "join", self.spark)
        with UnitThread(unit, "join-unit") as running:
            yield unit
            if ends:
                running.wait_ended(300)

    def phase(self) -> str:
        """What the row says; empty where there is none."""
        found = joining_of(self.subtask)
        return "" if found is None else found.phase


def join_process(
    subtask: SubtaskConfig, directory: Path, fault: str, log: Path, branch: str = ""
) -> subprocess.Popen[str]:
    """A join unit in a process of its own, with a fault armed there; `log` hears of the strike."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.testbed.joining", str(directory), *([branch] if branch else [])],
        stdin=subprocess.PIPE,
        env=os.environ | {"DM_FAULTS": fault, "DM_FAULTS_LOG": str(log)},
        text=True,
    )
    assert process.stdin is not None
    with process.stdin:
        json.dump(subtask.to_wire(), process.stdin)
    return process


def main() -> None:
    """`joining.py DIRECTORY [BRANCH]`, the configuration on standard input."""
    config, directory, branch = SubtaskConfig.from_wire(json.load(sys.stdin)), Path(sys.argv[1]), "".join(sys.argv[2:])
    spark = SparkProvider("local[2]", scratch=directory / "spark")
    try:
        join_unit(config, directory, spark, branch).run(threading.Event())
    except DMError as error:
        print(error, file=sys.stderr)
        sys.exit(3 if error.retryable else 1)
    finally:
        spark.close()


if __name__ == "__main__":
    main()
