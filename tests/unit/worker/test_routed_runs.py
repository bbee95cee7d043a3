"""A run of another member has a number here; only the last ones are kept."""

from __future__ import annotations

from itertools import count
from typing import Any, cast

from dm.unit import JSON
from dm.verbs.declaration import Verb
from dm.verbs.errands import Diff, RunStatus
from dm.worker.routing import KEPT_RUNS, Routing


class Others:
    """One other member, which has every source."""

    def __init__(self) -> None:
        self.membership = self
        self.ownership = self
        self.forwarding = self
        self.name = "here"
        self._numbers = count(1)

    def owner(self, _kind: str, _name: str) -> str:
        return "there"

    def ask(self, member: str, verb: Verb) -> dict[str, JSON]:
        if isinstance(verb, RunStatus):
            return {"result": True, "asked": verb.number}
        return {"result": True, "number": next(self._numbers)}


class Means:
    """Of a member that knows one task."""

    def __init__(self) -> None:
        self.others, self.supervisor, self.registry, self.loop = Others(), self, self, self

    def subtasks(self) -> dict[tuple[str, str], None]:
        return {("t", "one"): None}

    def sources(self) -> dict[str, None]:
        return {"one": None}

    def wait_until(self, holds: Any, _seconds: float) -> bool:
        return bool(holds())


def here(_verb: Verb) -> dict[str, JSON]:
    return {"result": True, "here": True}


def test_the_last_runs_are_known_by_their_numbers() -> None:
    routing = Routing(cast(Any, Means()))
    work = routing.routed({Diff: here, RunStatus: here})
    given = [cast(int, work[Diff](Diff(task="t"))["number"]) for _ in range(2 * KEPT_RUNS)]
    assert len(set(given)) == 2 * KEPT_RUNS
    assert work[RunStatus](RunStatus(number=given[-1])) == {"result": True, "asked": 2 * KEPT_RUNS}
    assert work[RunStatus](RunStatus(number=given[KEPT_RUNS])) == {"result": True, "asked": KEPT_RUNS + 1}
    assert "here" in work[RunStatus](RunStatus(number=given[KEPT_RUNS - 1]))
    assert len(routing._runs) == KEPT_RUNS
