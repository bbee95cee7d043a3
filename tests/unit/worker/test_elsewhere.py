"""What a member shows of the others: what they say, or what is stored of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm.errors import DMError
from dm.verbs.declaration import Verb
from dm.verbs.status import ShowHeard
from dm.worker.elsewhere import Elsewhere
from dm.worker.registry import Registry, SubtaskRecord
from dm.worker.verb_work import OtherHosts
from tests.testbed.fake_clock import FakeClock

OWNERS = {"mine": "a", "one": "b", "two": "c"}  # nobody has `three`


class Others:
    """Members that are asked by `a`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.silent = {"c"}
        self.clock = FakeClock()
        subtasks = {("t", source): SubtaskRecord("running", "Running", "Sync", None) for source in (*OWNERS, "three")}
        subtasks["u", "one"] = SubtaskRecord("running", "Running", "Load", None)
        members = SimpleNamespace(known=lambda: {"c": SimpleNamespace(address="c:8262")})
        others = SimpleNamespace(
            membership=SimpleNamespace(
                name="a", members=members, ownership=SimpleNamespace(owners=lambda kind: OWNERS)
            ),
            forwarding=SimpleNamespace(ask=self._ask, heard_of=lambda member: f"{member} was heard"),
        )
        registry = SimpleNamespace(subtasks=lambda: subtasks)
        self.elsewhere = Elsewhere(cast(OtherHosts, others), cast(Registry, registry), self.clock)

    def _ask(self, member: str, verb: Verb, seconds: float) -> dict[str, Any]:
        assert verb == ShowHeard()
        assert seconds < 5
        self.asked.append(member)
        if member in self.silent:
            raise DMError("member-unreachable", member=member, address="c:8262", problem="timed out")
        source = next(source for source, owner in OWNERS.items() if owner == member)
        return {"subtasks": [{"source": {"source": source}, "subtask": {"name": "t", "stage": "Paused"}}]}


@pytest.fixture
def others() -> Others:
    return Others()


def test_members_that_answer_are_live_and_the_rest_is_as_stored(others: Others) -> None:
    pairs, stored = others.elsewhere.look()
    assert [(source["source"], subtask["stage"]) for source, subtask in pairs] == [("one", "Paused")]
    assert [(one.task, one.source, one.stage, one.unit, one.member, one.address, one.heard) for one in stored] == [
        ("t", "three", "Running", "Sync", "", "", ""),
        ("t", "two", "Running", "Sync", "c", "c:8262", "c was heard"),
        ("u", "one", "Running", "Load", "b", "", "b was heard"),  # it has not begun there yet
    ]
    pairs, stored = others.elsewhere.look("u")
    assert (pairs, [one.source for one in stored]) == ([], ["one"])


def test_a_silent_member_does_not_slow_each_look_down(others: Others) -> None:
    for _ in range(3):
        others.elsewhere.look()
    assert sorted(others.asked) == ["b", "b", "b", "c"]
    others.silent.clear()
    others.clock.now += 60
    pairs, _ = others.elsewhere.look()
    assert [source["source"] for source, _ in pairs] == ["one", "two"]
