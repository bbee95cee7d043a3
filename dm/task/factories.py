"""How each unit is made from its payload; the modules are imported only when a unit of the kind is to run.

A host that runs a relay has no use for Spark, and starts in a fraction of the time without it.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dm.config import SubtaskConfig
from dm.task.payload import (
    DiffPayload,
    FlashbackPayload,
    HealPayload,
    RelayPayload,
    ReplayPayload,
    UnitPayload,
    ValidatorPayload,
)
from dm.unit import JSON, Factory, StopSignal, Unit, UnitName

if TYPE_CHECKING:
    from dm.spark.daemon_ahead import DaemonAhead
    from dm.spark.session import SparkProvider

# What Spark's workers do; a host has dumps and loads or a comparison.
_COPYING = ("dm.dumper.chunk_group", "dm.loader.part_writer")
_COMPARING = ("dm.tools.diff.chunk",)
# What a process loads ahead, for a unit that is started while applications wait.
LOADED_AHEAD: Mapping[UnitName, str] = {"Diff": "dm.tools.diff.unit", "Sync": "dm.syncer.shards.sharded"}


SPARK_HOST: Final = "spark:"  # how the names of hosts begin whose units are to have a session


class Factories:
    """Makes the units of one host process, which share a Spark session."""

    def __init__(self, workers: DaemonAhead | None = None) -> None:
        self._lock = threading.Lock()
        self._workers = workers  # what Spark's workers are forked from, if this process has begun it
        self._spark: SparkProvider | None = None
        self._settings: tuple[object, ...] = ()  # what the session was made with
        self._taken = StopSignal()  # a unit has the session

    def parts(self) -> tuple[Mapping[str, Factory], Callable[[], None]]:
        """The factories by the unit's name, and what is to be done when all units rest."""
        return {
            "Relay": self.relay, "Dump": self.dump, "Load": self.load, "Sync": self.sync, "Diff": self.diff,
            "Flashback": self.flashback, "Replay": self.replay, "Heal": self.heal, "Spark": self.head_start,
            "Validator": self.validator, "Join": self.join,
        }, self.close  # fmt: skip

    def relay(self, wire: Mapping[str, JSON]) -> Unit:
        """The relay of a source."""
        from dm.relay.unit import RelayUnit

        payload = RelayPayload.from_wire(wire)
        return RelayUnit(payload.source, payload.directory)

    def dump(self, wire: Mapping[str, JSON]) -> Unit:
        """The dump of a subtask."""
        return self._dump(UnitPayload.from_wire(wire))

    def _dump(self, payload: UnitPayload) -> Unit:
        from dm.dumper.unit import DumpUnit
        from dm.loader.own_tables import LostDump
        from dm.loader.stream import TargetStream
        from dm.task.pace import bulk_pace

        config, session = payload.config, self._session(payload)
        unit = DumpUnit(config, payload.dump_storage, session, hold=payload.hold, stream=TargetStream.of(config))
        return unit.when_anew(LostDump(config).give_up).keep_pace(
            bulk_pace([config], payload.work_directory, reads=True)
        )

    def load(self, wire: Mapping[str, JSON]) -> Unit:
        """The load of a subtask."""
        return self._load(UnitPayload.from_wire(wire))

    def _load(self, payload: UnitPayload) -> Unit:
        from dm.loader.unit import LoadUnit
        from dm.task.pace import bulk_pace

        unit = LoadUnit(payload.config, payload.dump_storage, self._session(payload))
        return unit.keep_pace(bulk_pace([payload.config], payload.work_directory, reads=False))

    def head_start(self, wire: Mapping[str, JSON]) -> Unit:
        """What has Spark's session ready when a dump or a load comes for it."""
        from dm.spark.session import HeadStart

        payload = UnitPayload.from_wire(wire)
        provider = self._provider(payload.config, payload.scratch, ahead=True)
        return HeadStart(provider, self._taken)

    def sync(self, wire: Mapping[str, JSON]) -> Unit:
        """The syncer of a subtask."""
        from dm.syncer.shards.sharded import sync_unit
        from dm.task.pace import task_governor

        payload = UnitPayload.from_wire(wire)
        return sync_unit(
            payload.config,
            relay_directory=payload.relay_directory,
            work_directory=payload.sync_directory,
            hold=payload.hold,
            until=payload.until,
            pace=partial(task_governor, payload.config, payload.work_directory),
        )

    def validator(self, wire: Mapping[str, JSON]) -> Unit:
        """The validator of a subtask."""
        from dm.task.pace import task_governor
        from dm.tools.validator.throttle import NICENESS
        from dm.tools.validator.unit import Start, ValidatorUnit

        payload = ValidatorPayload.from_wire(wire)
        os.nice(max(0, NICENESS - os.nice(0)))  # the host has no other unit
        unit = ValidatorUnit(
            payload.config,
            relay_directory=payload.relay_directory,
            work_directory=payload.work_directory,
            hold=payload.hold,
            start=Start(payload.start),
        )
        return unit.keep_pace(task_governor(payload.config, payload.work_directory.parent.parent))

    def join(self, wire: Mapping[str, JSON]) -> Unit:
        """Tables that are loaded beside the syncer of a subtask, until they join it."""
        from dm.task.share_unit import JoinUnit

        def copy(name: UnitName, payload: UnitPayload) -> Unit:
            return self._dump(payload) if name == "Dump" else self._load(payload)

        return JoinUnit(UnitPayload.from_wire(wire), copy)

    def diff(self, wire: Mapping[str, JSON]) -> Unit:
        """The comparison of a task."""
        from dm.task.pace import bulk_pace
        from dm.tools.diff.unit import DiffUnit

        payload = DiffPayload.from_wire(wire)
        config = payload.subtasks[0]
        spark = self._provider(config, payload.scratch, _COMPARING)
        unit = DiffUnit(payload.subtasks, payload.options, spark, directory=payload.directory, relays=payload.relays)
        return unit.among(payload.others).keep_pace(bulk_pace(payload.subtasks, payload.scratch.parent, reads=True))

    def flashback(self, wire: Mapping[str, JSON]) -> Unit:
        """The statements that take back a stretch of a task's relays."""
        from dm.task.start_and_end import place_of_text
        from dm.tools.flashback.unit import FlashbackUnit

        payload = FlashbackPayload.from_wire(wire)
        return FlashbackUnit(payload.sources, payload.request, place_of_text, payload.scratch)

    def replay(self, wire: Mapping[str, JSON]) -> Unit:
        """The backlog of a paused subtask."""
        from dm.task.pace import bulk_pace
        from dm.task.start_and_end import place_of_text
        from dm.tools.replay.unit import ReplayUnit

        payload = ReplayPayload.from_wire(wire)
        spark = self._provider(payload.request.subtask, payload.scratch)
        unit = ReplayUnit(payload.request, place_of_text, spark)
        return unit.keep_pace(bulk_pace([payload.request.subtask], payload.scratch.parent, reads=False))

    def heal(self, wire: Mapping[str, JSON]) -> Unit:
        """The comparison that brings the rows of subtasks, and their places, to their sources."""
        from dm.task.pace import bulk_pace
        from dm.tools.heal.unit import HealUnit

        payload = HealPayload.from_wire(wire)
        subtasks = [each.subtask for each in payload.request.healed]
        unit = HealUnit(payload.request, self._provider(subtasks[0], payload.scratch, _COMPARING))
        return unit.keep_pace(bulk_pace(subtasks, payload.scratch.parent, reads=True))

    def close(self) -> None:
        """End Spark, if it ever began."""
        if self._spark is not None:
            self._spark.close()

    def _session(self, payload: UnitPayload) -> SparkProvider:
        return self._provider(payload.config, payload.scratch)

    def _provider(
        self, config: SubtaskConfig, scratch: Path, modules: Sequence[str] = _COPYING, *, ahead: bool = False
    ) -> SparkProvider:
        from dm.spark.session import SparkProvider
        from dm.spark.worker_daemon import preloading

        spark, master = config.spark, config.spark.master_for(config.dumper.threads)
        conf = {**(preloading(modules) if master.startswith("local") else {}), **spark.settings}
        settings = (master, conf, spark.driver_memory, spark.java_home, spark.python)
        with self._lock:
            if self._spark is not None and settings != self._settings and not self._taken.is_set():
                # Nobody came for it, and the task is started again with other settings.
                self._spark.close()
                self._spark = None
            if self._spark is None:
                shutil.rmtree(scratch, ignore_errors=True)  # what a killed process left; of no use to anybody
                self._settings = settings
                self._spark = SparkProvider(
                    master,
                    conf,
                    scratch,
                    driver_memory=spark.driver_memory,
                    java_home=spark.java_home,
                    python=spark.python,
                ).fork_workers_from(self._workers)
            if not ahead:
                self._taken.set()
            return self._spark
