"""When the driver of a cut-over waits: where something is not so yet, never between two steps."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dm.errors import DMError
from dm.tools.cutover.driver import Driver
from dm.tools.cutover.machine import CutOverState, NotYet
from dm.unit import JSON
from tests.testbed.fake_clock import FakeClock


class _Row:
    """The row, of one driver."""

    def __init__(self, first: CutOverState) -> None:
        self.state = first

    def take_over(self) -> int:
        return 1

    def owned(self, epoch: int) -> CutOverState:
        return self.state

    def write(self, epoch: int, state: CutOverState) -> None:
        self.state = state


class _Servers:
    """Servers that do at once what they are asked, but for the drain: it takes so many looks, or fails."""

    def __init__(self, looks: int, error: DMError | None) -> None:
        self.looks = looks
        self._error = error

    def close(self) -> bool:
        return False

    def closed(self) -> bool:
        return True

    def ends(self) -> Mapping[str, str]:
        return {"one": "1"}

    def pause(self) -> None:
        pass

    def demand_applied(self) -> None:
        self.looks -= 1
        if self.looks >= 0:
            raise self._error or NotYet("behind")

    def prove(self) -> Mapping[str, JSON]:
        return {}

    def rest(self) -> None:
        pass

    def target_end(self) -> str:
        return "R"

    def switch(self) -> None:
        pass

    def reopen(self, before: Mapping[str, Mapping[str, str]]) -> None:
        pass

    def go_on(self) -> None:
        pass


RETRYABLE = DMError("connection-lost", role="source", address="there")


@pytest.mark.parametrize("error", [None, RETRYABLE])
@pytest.mark.parametrize(("looks", "state", "seconds"), [(0, "switched", 0), (3, "switched", 1.5), (99, "aborted", 10)])
def test_it_waits_once_for_each_look_and_never_between_steps(
    looks: int, state: str, seconds: float, error: DMError | None
) -> None:
    clock = FakeClock()
    row = _Row(CutOverState("fencing", "full", "", clock.now + 10, {"one": {"read_only": "OFF"}}))
    Driver("t", lambda: row, _Servers(looks, error), clock).run()
    assert row.state.state == state
    assert seconds <= clock.now - 1000 <= seconds + (0.5 if state == "aborted" else 0)
    assert row.state.why == ("" if state == "switched" else f"the time is over: {error.message if error else 'behind'}")
