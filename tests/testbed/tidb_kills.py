"""A TiDB that is killed while a process stands at a fault point, and starts again before the process goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dm.errors import DMError
from dm.errors.catalogue import CATALOGUE
from tests.testbed.convergence import codes_of
from tests.testbed.crash_loop import POINT_SECONDS
from tests.testbed.sync import UnitProcess, wait_until
from tests.testbed.tidb import TidbServer

RETRYABLE = {kind.code for kind in CATALOGUE.values() if kind.retryable}


@dataclass(frozen=True)
class TidbKill:
    """One kill at one passage of a point; `directory` is for what is written of it."""

    server: TidbServer
    point: str
    directory: Path
    passage: int = 1

    @property
    def faults(self) -> str:
        """What arms the point."""
        return f"{self.point}=hang:{self._go}@{self.passage}"

    @property
    def log(self) -> Path:
        """Where the strike is told."""
        return self.directory / f"{self.point}.{self.passage}.struck"

    @property
    def _go(self) -> Path:
        return self.directory / f"{self.point}.{self.passage}.go"

    def strike(self, ended: Callable[[], bool] = lambda: False) -> None:
        """Wait until somebody is at the point, kill the TiDB, start it, and let them go on."""
        try:
            wait_until(lambda: self.log.exists() or ended(), self.point, POINT_SECONDS)
            assert self.log.exists(), f"it ended before {self.point}"
            self.server.kill()
            self.server.start()
        finally:
            self._go.touch()

    def strike_process(self, process: UnitProcess) -> None:
        """The same to a unit in a process, which has to end by an error that auto-resume tries again."""
        self.strike(lambda: process.ended)
        demand_tried_again(process, self.point)


def demand_tried_again(process: UnitProcess, what: str) -> None:
    """The process ends by itself, and by such an error."""
    code = process.process.wait(POINT_SECONDS)
    codes = codes_of(process.errors())
    assert code not in (0, -signal.SIGKILL), what
    assert codes, f"{what}: {process.errors()[-3000:]}"
    assert codes[-1] in RETRYABLE, f"{what}: {process.errors()[-3000:]}"


def demand_retryable(error: BaseException | None) -> None:
    """What a unit in a thread ended with is an error that auto-resume tries again."""
    assert isinstance(error, DMError), repr(error)
    assert error.retryable, error
