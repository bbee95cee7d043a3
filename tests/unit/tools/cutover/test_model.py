"""Every way that a cut-over can go: the real steps, with a kill at each call, aborts, restarts of a source, writes.

The state of the model is the stored row and the world around it. A driver does one step by calling the world; it may
be killed before any of the calls, and before the next state is stored. Meanwhile a source may be started again, which
ends its read-only mode, applications write where they can, and a person aborts. A target that dies is a kill before the
store: the row stays as it was.

Three more things may happen, each in explorations of its own, since together they are too many states: a driver is
frozen at a statement or before its store, and thaws when another one has gone on; the hook stops the writes, in place
of a read-only mode, and may fail; a comparison precedes the fence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pytest

from dm.errors import DMError
from dm.tools.cutover import machine
from dm.tools.cutover.machine import UNDOABLE, CutOverState, NotYet, WayBackTask, advance
from dm.unit import JSON
from tests.testbed.exploration import Violation, Wrong, explore

_WRITES: Final = 3
_LIMIT: Final = 200_000
_BEFORE: Final = {"one": {"read_only": "OFF"}}
_FREEZES: Final = "freezes"
_HOOK: Final = "hook"


@dataclass(frozen=True, slots=True)
class World:
    """A source, a target, and a task between them."""

    row: str
    written: int = 0  # transactions at the source
    applied: int = 0
    closed: bool = False
    open_transaction: bool = False  # it commits if the source is not closed
    rests: bool = False  # the task
    moved: bool = False  # applications write at the target
    reopened: bool = False  # by an abort
    restarts: int = 0
    privileged: bool = False  # an account that the mode does not bind has written
    compared: int = -1  # what the source had then
    asked_abort: bool = False
    comes_back: bool = False  # the task of the way back runs
    strictly: bool = False  # closed for dm's account, too
    in_flight: bool = True  # a commit that was under way when the source was closed
    may: str = ""  # what else may happen
    asleep: str = ""  # the statement at the source, or the row, that a frozen driver is about to send
    by_hook: bool = False  # closed by the hook: a restart of the source does not matter
    broken: int = 0  # 1: the hook fails, 2: it was mended


class Killed(Exception):
    """The driver is gone."""


class Calls:
    """The servers as a driver meets them, until it is killed at a call."""

    def __init__(self, world: World, calls: int, removed: str) -> None:
        self.world = world
        self._left = calls
        self._removed = removed
        self._paused = False
        self.frozen_at = ""  # the statement before which it was killed

    def _hold(self, statement: str) -> None:
        """The lock at the source ends the session of the driver that was frozen with it."""
        if self.world.asleep in ("close", "open") and self._removed != "lock":
            self.world = replace(self.world, asleep="")
        self._call()
        self.frozen_at = statement if self._left == 0 else ""

    def _hook(self) -> None:
        self._call()
        if self.world.broken == 1:
            raise DMError("cut-over-hook", hook="hook", word="word", how="it ended with 7")

    def _call(self) -> None:
        if self._left == 0:
            raise Killed
        self._left -= 1

    def get_ready(self, found: CutOverState) -> None:
        self._call()

    def stop_writes(self) -> bool:
        self._hook()
        if self.world.may != _HOOK:
            return False
        self.world = replace(self.world, closed=True, by_hook=True, open_transaction=False)
        return True

    def close(self, *, by_hook: bool) -> None:
        if by_hook:
            return
        self._hold("close")
        self._call()
        self.world = closed_by(self.world)

    def closed(self, *, strictly: bool) -> bool:
        self._call()
        return (self.world.strictly if strictly else self.world.closed) or self._removed == "look at the mode"

    def ends(self) -> Mapping[str, JSON]:
        self._call()
        return {"one": str(self.world.written)}

    def written(self, since: Mapping[str, JSON]) -> list[str]:
        self._call()
        blind = self._removed == ("second look" if self._paused else "look at the end")
        return [] if blind or since == {"one": str(self.world.written)} else ["one"]

    def pause(self) -> None:
        self._call()
        self._paused = True
        if self.world.in_flight:
            self.world = replace(self.world, written=self.world.written + 1, in_flight=False)

    def demand_applied(self) -> None:
        self._call()
        if self.world.applied < self.world.written and self._removed != "drain":
            raise NotYet("behind")

    def compare_ahead(self) -> None:
        self._call()

    def prove(self, how: str) -> Mapping[str, JSON]:
        self._call()
        if self.world.applied < self.world.written and self._removed != "drain":
            raise DMError("cut-over-unequal", task="t", what="rows")
        self.world = replace(self.world, compared=self.world.written)
        return {}

    def working(self) -> Sequence[str]:
        self._call()
        return [] if self.world.rests else ["one"]

    def rest(self) -> None:
        self._call()
        self.world = replace(self.world, rests=True)
        if self.world.applied < self.world.written and self._removed not in ("drain", "look at the end"):
            raise NotYet("behind")

    def target_end(self) -> tuple[str, JSON]:
        self._call()
        return "R", "R"

    def begin_way_back(self, found: CutOverState) -> int:
        self._call()
        if found.start != "R":
            raise Wrong("nobody knows where the way back begins")
        self.world = replace(self.world, strictly=False)
        self._call()
        if not self.world.rests:
            raise Wrong("both tasks run at the switch")
        self.world = replace(self.world, comes_back=True)
        return 0

    def demand_untouched(self, found: CutOverState) -> None:
        self._call()
        if found.ends["one"] != str(self.world.written) and self._removed != "look at the source's transactions":
            raise DMError("cut-over-fence-lost", how="rows")

    def end_way_back(self, found: CutOverState) -> None:
        self._call()
        self.world = replace(self.world, comes_back=self._removed == "the end of the way back")

    def create_acting(self, found: CutOverState) -> None:
        pass

    def enable_events(self, found: CutOverState) -> None:
        pass

    def open_target(self, found: CutOverState) -> None:
        self._call()

    def switch(self) -> None:
        self._hook()
        if self.world.reopened:
            raise Wrong("applications move to the target after the source was opened again")
        if CutOverState.from_json(self.world.row).moved:
            raise Wrong("a hook is called again that was stored as having succeeded")
        self.world = replace(self.world, moved=True)

    def reopen(self, before: Mapping[str, Mapping[str, str]]) -> None:
        self._hold("open")
        self._call()
        if self._removed == "the mode is stored before the fence":
            before = {"one": {"read_only": "ON" if self.world.closed else "OFF"}}
        self.world = opened(self.world, closed=before["one"]["read_only"] == "ON")

    def go_on(self, paused: Sequence[str]) -> None:
        self._call()
        self.world = replace(self.world, rests=self.world.rests and "one" not in paused)

    def start_writes(self) -> None:
        self._hook()
        if self.world.by_hook:
            self.world = replace(opened(self.world), by_hook=False)
        self.world = replace(self.world, reopened=True)


def closed_by(world: World) -> World:
    """In read-only mode an open transaction's COMMIT is refused."""
    return replace(world, closed=True, strictly=True, open_transaction=False)


def opened(world: World, *, closed: bool = False) -> World:
    if world.moved:
        raise Wrong("both sides are writable")
    return replace(world, closed=closed, strictly=closed, reopened=True)


def by_driver(world: World, removed: str) -> Iterator[World]:
    """One step, killed at each of its calls and before the store, and whole."""
    found = CutOverState.from_json(world.row)
    if found.rests:
        return
    undoable = found.state in UNDOABLE or (removed == "no way back from the switch" and found.state == "switching")
    if world.asked_abort and undoable:
        yield replace(world, row=found.undone("").to_json())
        return
    freezes = world.may == _FREEZES and not world.asleep
    for calls in range(14):
        on = Calls(world, calls, removed)
        try:
            following = advance(found, on)
        except Killed:
            yield on.world
            if freezes and on.frozen_at:
                yield replace(on.world, asleep=on.frozen_at)
            continue
        except NotYet:
            yield on.world
        except DMError as error:
            yield on.world
            if not error.retryable and found.state in UNDOABLE:
                yield replace(on.world, row=found.undone("").to_json())
            elif error.name == "cut-over-hook":
                yield replace(on.world, row=replace(found, failed="7").to_json())
        else:
            if following.state == "switching" != found.state:
                demand_whole(on.world, following)
            yield on.world
            yield replace(on.world, row=following.to_json())
            if freezes:
                yield replace(on.world, asleep=following.to_json())
        return


def by_others(world: World, removed: str) -> Iterator[World]:
    """A frozen driver thaws, and sends its statement over a session that has the lock, or its row; a hook fails."""
    if world.asleep == "close":
        yield replace(closed_by(world), asleep="")
    elif world.asleep == "open":
        yield replace(opened(world), asleep="")
    elif world.asleep:
        yield replace(world, asleep="", row=world.asleep if removed == "epoch" else world.row)
    if world.may == _HOOK and not world.broken:
        yield replace(world, broken=1)
    if world.broken == 1:
        found = CutOverState.from_json(world.row)
        yield replace(world, broken=2, row=replace(found, failed="").to_json())  # mended, and called again


def demand_whole(world: World, following: CutOverState) -> None:
    """From here on applications may move."""
    if not world.closed:
        raise Wrong("a source takes writes at the switch")
    if world.applied < world.written:
        raise Wrong("the target lacks rows at the switch")
    if following.prove != "none" and world.written != world.compared:
        raise Wrong("what was compared is not what the source has")
    if following.target_end != "R":
        raise Wrong("nobody knows where the way back begins")
    if following.way_back is not None and not world.comes_back:
        raise Wrong("what applications write does not come back")


def steps(world: World, removed: str) -> Iterator[World]:
    yield from by_driver(world, removed)
    yield from by_others(world, removed)
    if not world.closed and world.written < _WRITES and not world.moved:
        yield replace(world, written=world.written + 1)
    if world.open_transaction and not world.closed:
        yield replace(world, written=world.written + 1, open_transaction=False)
    if world.in_flight:
        yield replace(world, written=world.written + 1, in_flight=False)
    if world.applied < world.written and not world.rests:
        yield replace(world, applied=world.applied + 1)
    if world.closed and not world.by_hook and not world.restarts:
        yield replace(world, closed=False, strictly=False, restarts=1)
    if world.closed and not world.privileged:
        yield replace(world, written=world.written + 1, privileged=True)
    if not world.asked_abort:
        yield replace(world, asked_abort=True)


def judge(world: World, stuck: bool) -> None:
    found = CutOverState.from_json(world.row)
    if found.state == "aborted" and (world.rests or (found.asked and not world.reopened) or world.moved):
        raise Wrong("an abort leaves something behind")
    if found.state == "aborted" and not (world.restarts or world.privileged or world.asked_abort or world.broken):
        raise Wrong("it is aborted without a reason")
    if found.state == "aborted" and not world.restarts and world.closed:
        raise Wrong("a source stays closed after an abort")
    if found.state == "aborted" and world.comes_back:
        raise Wrong("the way back runs after an abort")
    if found.state == "switched" and not world.moved:
        raise Wrong("nobody has moved")
    if stuck and not found.rests:
        raise Wrong("it does not get on")


def begin(way_back: WayBackTask | None, prove: str, may: str) -> World:
    first = CutOverState("comparing", prove, "", 0.0, _BEFORE, way_back=way_back)
    return World(first.to_json(), written=1, open_transaction=True, may=may)


def explored(
    removed: str = "", *, way_back: bool = False, prove: str = "full", may: str = ""
) -> tuple[int, Violation[World] | None]:
    first = begin(WayBackTask("back", "there") if way_back else None, prove, may)
    return explore(first, lambda world: steps(world, removed), judge, _LIMIT)


@pytest.mark.parametrize(("way_back", "prove", "may"), [
    (True, "full", ""), (False, "none", ""), (True, "recent", ""), (False, "full", _FREEZES), (False, "full", _HOOK),
])  # fmt: skip
def test_nothing_goes_wrong_in_any_order(way_back: bool, prove: str, may: str) -> None:
    states, violation = explored(way_back=way_back, prove=prove, may=may)
    assert violation is None, violation
    assert states > 500


@pytest.mark.parametrize(("removed", "may"), [
    ("no way back from the switch", ""), ("drain", ""), ("look at the mode", ""), ("look at the end", ""),
    ("second look", ""), ("the mode is stored before the fence", ""), ("epoch", _FREEZES), ("lock", _FREEZES),
])  # fmt: skip
def test_each_safeguard_is_needed(removed: str, may: str) -> None:
    _, violation = explored(removed, may=may)
    assert violation is not None, removed


@pytest.mark.parametrize("removed", ["look at the source's transactions", "the end of the way back"])
def test_each_safeguard_is_needed_once_the_way_back_writes_to_the_source(removed: str) -> None:
    _, violation = explored(removed, way_back=True)
    assert violation is not None, removed


@pytest.mark.parametrize("prove", ["full", "none"])
def test_the_last_look_at_the_fence_is_needed(prove: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "demand_fence", lambda found, on: None)
    _, violation = explored(prove=prove)
    assert violation is not None
