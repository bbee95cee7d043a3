"""The syncers of a shard workload: one per source, stopped, killed at drawn points and begun again in a drawn disorder.

Why one ended decides: a death and an error that `auto-resume` tries again are usual, a pause that the workload expects
ends the seed, anything else is a problem.
"""

from __future__ import annotations

import random
import re
import signal
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from dm.config.subtask import SubtaskConfig
from dm.errors.catalogue import CATALOGUE
from dm.faults import POINTS
from dm.syncer.shards import optimistic_gate
from dm.syncer.shards import pessimistic_gate as shard_gate
from tests.testbed.sync import RunningSync, SyncProcess

SHARD_POINTS = tuple(sorted(point for point in POINTS if point.startswith("shard.")))
SYNC_SECONDS = 240.0
_POINTS = (*SHARD_POINTS, "syncer.after_lane_row", "syncer.before_commit", "syncer.before_ddl", "syncer.after_ddl")
WAIT_SECONDS = 0.3  # for other sources before a table is held: nothing else depends on it, and seeds are many
_IN_PROCESSES = f"""
from dm.syncer.shards import optimistic_gate
from dm.syncer.shards import pessimistic_gate as shard_gate
optimistic_gate.WAIT_SECONDS = shard_gate.WAIT_SECONDS = {WAIT_SECONDS}
"""
_CODE = re.compile(r"\[code=(\d+):")
_RETRYABLE = {kind.code for kind in CATALOGUE.values() if kind.retryable}


@contextmanager
def short_waits() -> Iterator[None]:
    """Syncers in threads hold a table soon where other sources have not come to its DDL."""
    with (
        patch.object(shard_gate, "WAIT_SECONDS", WAIT_SECONDS),
        patch.object(optimistic_gate, "WAIT_SECONDS", WAIT_SECONDS),
    ):
        yield


@dataclass
class ShardResult:
    """What happened in a seed; `problem` is empty where all was as it must be."""

    seed: int
    flavor: str
    counts: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    paused: int = 0  # the code, where the task had to pause
    problem: str = ""


@dataclass
class _Life:
    """A syncer in a thread, or in a process that is to die at a fault point."""

    running: RunningSync | None = None
    process: SyncProcess | None = None
    point: str = ""

    def end(self) -> None:
        """Stop it."""
        if self.running is not None:
            self.running.stop()
        if self.process is not None:
            self.process.close()


class ShardLives:
    """The syncers of one seed.

    `expected` are the codes of pauses that the workload has a reason for, `passing` those of pauses that are over when
    the other shards have come, and a new start finds them gone.
    """

    def __init__(
        self,
        subtasks: Sequence[SubtaskConfig],
        directory: Path,
        result: ShardResult,
        expected: Collection[int],
        passing: Collection[int] = (),
    ) -> None:
        self._subtasks = subtasks
        self._directory = directory
        self._result = result
        self.expected = expected
        self.passing = {*_RETRYABLE, *passing}
        self._chance = random.Random(result.seed ^ 0x5EED)  # of lives, so that the workload depends on nothing else
        self._lives = list[_Life | None]([None] * len(subtasks))

    def first_checkpoint(self, source: int) -> None:
        """A task begins where its source is when it starts: before the first row."""
        running = RunningSync(self._subtasks[source], None, self._work(source))
        try:
            running.wait_synced(SYNC_SECONDS)
        finally:
            running.stop()

    def _work(self, source: int) -> Path:
        return self._directory / f"{self._subtasks[source].task}_{source}"

    # -- In disorder

    def end_one_perhaps(self) -> None:
        """Some syncer ends, sometimes."""
        if self._chance.random() < 0.3:
            self._end(self._chance.randrange(len(self._lives)))

    def moment(self) -> float:
        """How long to let them work, sometimes."""
        return self._chance.random() * 0.2 if self._chance.random() < 0.5 else 0.0

    def begin_some(self) -> None:
        """Whoever has ended is looked at, and some that do not run begin."""
        for source in range(len(self._lives)):
            self._look(source)
            if self._lives[source] is None and self._chance.random() < 0.5:
                self._begin(source)

    # -- In order

    def undisturbed(self) -> None:
        """Nobody is to die any more."""
        for source, life in enumerate(self._lives):
            if life is not None and life.process is not None:
                self._end(source)

    def all_synced(self) -> bool:
        """Whether all run and have applied what their sources have; those that do not run begin."""
        synced = True
        for source in range(len(self._lives)):
            self._look(source)
            life = self._lives[source]
            if life is None:
                self._lives[source] = _Life(RunningSync(self._subtasks[source], None, self._work(source)))
                synced = False
            elif life.running is not None:
                life.running.unit.refresh(5)
                synced = synced and life.running.unit.status()["synced"] is True
        return synced

    def end(self) -> None:
        """Stop all."""
        for life in self._lives:
            if life is not None:
                life.end()

    # -- One

    def _begin(self, source: int) -> None:
        subtask, work = self._subtasks[source], self._work(source)
        if self._chance.random() < 0.4:
            point, passages = self._chance.choice(_POINTS), self._chance.choice((1, 1, 1, 2, 3))
            faults = f"{point}=kill@{passages}"
            process = SyncProcess(subtask, work_directory=work, faults=faults, patch=_IN_PROCESSES)
            self._lives[source] = _Life(process=process, point=point)
            self._result.counts["processes"] += 1
        else:
            self._lives[source] = _Life(RunningSync(subtask, None, work))
            self._result.counts["threads"] += 1

    def _end(self, source: int) -> None:
        life, self._lives[source] = self._lives[source], None
        if life is None:
            return
        if life.process is not None and self._chance.random() < 0.7:
            life.process.process.kill()
            self._result.counts["killed at any time"] += 1
        life.end()
        self._result.counts["ended"] += 1
        self._judge(life)

    def _look(self, source: int) -> None:
        """Whether the source's syncer is still there."""
        life = self._lives[source]
        if life is None:
            return
        thread_ended = life.running is not None and life.running.error is not None
        if thread_ended or (life.process is not None and life.process.ended):
            self._lives[source] = None
            life.end()
            self._judge(life)

    def _judge(self, life: _Life) -> None:
        """Why it has ended."""
        if life.running is not None:
            text = "" if life.running.error is None else str(life.running.error)
        else:
            assert life.process is not None
            code = life.process.process.returncode
            if code == -signal.SIGKILL:
                self._result.fired[life.point] += 1
            text = "" if code in (0, -signal.SIGKILL) else life.process.errors()[-3000:]
        if not text:
            return
        codes = [int(found) for found in _CODE.findall(text)]
        if codes and codes[-1] in self.expected:
            self._result.paused = codes[-1]
        elif codes and codes[-1] in self.passing:
            self._result.counts[f"tried again after {codes[-1]}"] += 1
        else:
            self._result.problem = f"a syncer ended by itself: {text}"
