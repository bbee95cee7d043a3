"""A syncer and a validator that die again and again, beside a test that goes on."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.progress.checkpoint import read_position_of
from tests.live.relay.relaying import end_of
from tests.testbed.crash_loop import BATCH_POINTS
from tests.testbed.sync import SyncProcess, UnitProcess, wait_until
from tests.testbed.validation import ValidatorProcess, key_of

SYNCER: Final = dict.fromkeys(BATCH_POINTS, 30) | {
    "syncer.before_checkpoint": 3, "syncer.after_checkpoint": 3, "syncer.bound_persisted": 1,
}  # fmt: skip
"""Where the syncer dies, and at which passage at most."""
VALIDATOR: Final = ("validator.before_checkpoint=kill@3", "validator.after_checkpoint=kill@2", "")
ANY_TIME: Final = "any time"
_FAULT_SECONDS: Final = 15.0


def checkpoint_of(subtask: SubtaskConfig) -> tuple[str, int]:
    """File and offset up to which everything is applied."""
    with closing(TargetConnection(subtask.target)) as connection:
        found = read_position_of(connection, key_of(subtask))
    assert found is not None
    return found.file, found.offset


def end_life(process: UnitProcess) -> bool:
    """SIGKILL, if nothing has killed it before; says whether that was so. An end of its own is a failure."""
    struck = process.ended
    process.process.kill()
    code = process.process.wait(60)
    process.close()
    assert code == -signal.SIGKILL, f"it ended with {code}: {process.errors()[-2000:]}"
    return struck


class DyingSync:
    """A syncer's lives, one after the other, as long as the context lasts.

    Every second one dies at a drawn point. The others are left alone until they have caught up, so that all moves on.
    """

    def __init__(self, subtask: SubtaskConfig, upstream: ThrowawayServer, seed: int) -> None:
        self.deaths = Counter[str]()
        self._subtask = subtask
        self._upstream = upstream
        self._draw = random.Random(seed)
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raise what went wrong."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            for number in itertools.count():
                if self._over.is_set():
                    return
                self._life("" if number % 2 else self._draw.choice([*SYNCER]))
        except BaseException as error:
            self._error = error

    def _life(self, point: str) -> None:
        fault = point and f"{point}=kill@{self._draw.randint(1, SYNCER[point])}"
        process = SyncProcess(self._subtask, faults=fault)
        try:
            if point:
                self._until_struck(process)
            else:
                end = end_of(self._upstream)
                wait_until(lambda: self._over.is_set() or checkpoint_of(self._subtask) >= end, "it catches up", 120)
                self._over.wait(self._draw.uniform(0.0, 1.5))
            self.deaths[point if end_life(process) else ANY_TIME] += 1
        finally:
            process.close(kill=True)

    def _until_struck(self, process: SyncProcess) -> None:
        with suppress(subprocess.TimeoutExpired):  # the point was not passed so often: it is killed all the same
            process.process.wait(_FAULT_SECONDS)


class DyingValidator:
    """A validator's lives: it is held again and again, and dies at a fault point, or when it is held."""

    def __init__(self, subtask: SubtaskConfig, work: Path, draw: random.Random) -> None:
        self.deaths = Counter[str]()
        self.freezes = 0
        self._subtask = subtask
        self._work = work
        self._draw = draw
        self._points = itertools.cycle(VALIDATOR)
        self._point = ""
        self._process: ValidatorProcess | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """It is dead, or frozen: what is written during the block it reads after it."""
        process = self._process
        if process is not None and not process.ended and self._draw.random() < 0.5:
            process.freeze()
            self.freezes += 1
            yield
            process.thaw()
        else:
            self.die()
            yield
            self._point = next(self._points)
            self._process = ValidatorProcess(self._subtask, self._work, self._point)

    def die(self) -> None:
        """The end of the present life."""
        if self._process is not None:
            process, self._process = self._process, None
            self.deaths[self._point if end_life(process) else ANY_TIME] += 1
