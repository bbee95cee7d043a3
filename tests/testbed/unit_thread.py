"""A unit in a thread of the test's process."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from dm.unit import Unit


class UnitThread:
    """It runs at once; as a context it is stopped in the end, and its error is raised."""

    def __init__(self, unit: Unit, name: str = "unit") -> None:
        self.error: BaseException | None = None
        self._runs = unit
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        if kind is None and self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self._runs.run(self._stop)
        except BaseException as error:
            self.error = error

    @property
    def ended(self) -> bool:
        """Whether it is finished, or gave up."""
        return not self._thread.is_alive()

    def wait_ended(self, seconds: float = 60) -> BaseException | None:
        """Wait until the unit is finished or gave up; gives its error."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"the unit still runs: {self._runs.status()}"
        return self.error

    def stop(self, seconds: float = 20) -> None:
        """Pause it."""
        self._stop.set()
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"the unit did not stop within {seconds} s"
