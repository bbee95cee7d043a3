"""The states of a cut-over, and the one step that leads on from each.

The state is a row at the target (`record.py`). Whoever drives the cut-over reads the row, does one step, stores the
next state, and begins again. It may be killed anywhere, so each step can be done again. Three rules make that safe:

- What a fence replaces is stored before the fence: an abort gives each source back what it had.
- The row decides between the two ends before either has any effect outside. `switching` is stored before the first
  application moves, `aborting` before a fence is lifted. No step leads from the one to the other. So no source is
  opened by us once applications may write at the target.
- A fence is looked at again after all that took time: after the comparison, and last before `switching`. A source that
  was started again has lost its read-only mode. Then it takes writes that nobody compared, and the cut-over is aborted.

    fencing -> fenced -> drained -> proved -> switching -> switched -> complete
       any of the first four -> aborting -> aborted
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal, Protocol

from dm.errors import DMError
from dm.unit import JSON

State = Literal[
    "fencing", "fenced", "drained", "proved", "switching", "switched", "complete", "aborting", "aborted",
]  # fmt: skip
STATES: Final[tuple[State, ...]] = State.__args__  # type: ignore[attr-defined]
UNDOABLE: Final[frozenset[State]] = frozenset({"fencing", "fenced", "drained", "proved"})
RESTING: Final[frozenset[State]] = frozenset({"switched", "complete", "aborted"})  # nothing is left to do
OVER: Final[frozenset[State]] = frozenset({"complete", "aborted"})
HOLDS_TASK: Final[frozenset[State]] = frozenset({"proved", "switching", "switched"})  # it is not to apply anything


@dataclass(frozen=True, slots=True)
class CutOverState:
    """What the row says."""

    state: State
    prove: str  # full or none
    hook: str  # a program; empty for none
    deadline: float  # seconds since the epoch: without `switching` by then it is aborted
    before: Mapping[str, Mapping[str, str]]  # by source, the read-only variables as they were
    ends: Mapping[str, str] = field(default_factory=dict)  # E by source: the end of its binlog behind the fence
    by_hook: bool = False  # the hook has stopped the writes, so no read-only mode is to be seen
    proof: Mapping[str, JSON] = field(default_factory=dict)
    target_end: str = ""  # R: what applications write at the target stands after it
    why: str = ""  # of an abort, or what is waited for
    times: Mapping[str, float] = field(default_factory=dict)  # when each state was stored

    def to_json(self) -> str:
        """As it is stored."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> CutOverState:
        """From what is stored; raises ValueError, TypeError."""
        found = cls(**json.loads(text))
        if found.state not in STATES:
            raise ValueError(f"{found.state!r} is no state")
        return found


class NotYet(Exception):
    """The step is to be tried again; says what it waits for."""


class CutOverServers(Protocol):
    """What the steps do and ask; each can be repeated. Raise DMError and NotYet."""

    def close(self) -> bool:
        """Have the sources take no more writes; True if the hook has done it."""

    def closed(self) -> bool:
        """Whether all sources are in read-only mode."""

    def ends(self) -> Mapping[str, str]:
        """Where the binlog of each source ends."""

    def pause(self) -> None:
        """Let a moment pass."""

    def demand_applied(self) -> None:
        """Raise NotYet unless the task has applied all that the sources have now."""

    def prove(self) -> Mapping[str, JSON]:
        """Compare all rows; raises DMError unless they are equal."""

    def rest(self) -> None:
        """Pause the task; raises DMError unless its stored checkpoints cover the ends of the sources."""

    def target_end(self) -> str:
        """Where the target's binlog ends; empty where that is not to be known."""

    def switch(self) -> None:
        """Have the hook move the applications."""

    def reopen(self, before: Mapping[str, Mapping[str, str]]) -> None:
        """Give the sources the mode that they had, and have the hook let the writes begin."""

    def go_on(self) -> None:
        """Have the task run again."""


def advance(found: CutOverState, on: CutOverServers) -> CutOverState:
    """Do one step; gives the next state, which is to be stored before another step is done."""
    if found.state == "fencing":
        by_hook = on.close()
        ends = on.ends()
        on.pause()
        if on.ends() != ends:
            raise NotYet("the binlog of a source still moves")
        return replace(found, state="fenced", by_hook=by_hook, ends=ends)
    if found.state == "fenced":
        on.demand_applied()
        demand_fence(found, on)
        return replace(found, state="drained")
    if found.state == "drained":
        proof = on.prove() if found.prove == "full" else {}
        demand_fence(found, on)
        return replace(found, state="proved", proof=proof)
    if found.state == "proved":
        on.rest()
        end = on.target_end()
        demand_fence(found, on)
        return replace(found, state="switching", target_end=end)
    if found.state == "switching":
        on.switch()
        return replace(found, state="switched")
    if found.state == "aborting":
        on.reopen(found.before)
        on.go_on()
        return replace(found, state="aborted")
    return found


def demand_fence(found: CutOverState, on: CutOverServers) -> None:
    """Raise DMError unless the sources have taken nothing since the fence, and still take nothing."""
    if not found.by_hook and not on.closed():
        raise DMError("cut-over-fence-lost", how="a source is not in read-only mode any more")
    ends = on.ends()
    moved = [f"{name}: {ends.get(name)} after {end}" for name, end in found.ends.items() if ends.get(name) != end]
    if moved:
        raise DMError("cut-over-fence-lost", how=f"a source's binlog goes on behind the fence: {'; '.join(moved)}")
