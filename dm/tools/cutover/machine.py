"""The states of a cut-over, and the one step that leads on from each.

The state is a row at the target (`record.py`). Whoever drives the cut-over reads the row, does one step, stores the
next state, and begins again. It may be killed anywhere, so each step can be done again. Three rules make that safe:

- What a fence replaces is stored before the fence: an abort gives each source back what it had.
- The row decides between the two ends before either has any effect outside. `switching` is stored before the first
  application moves, `aborting` before a fence is lifted. No step leads from the one to the other. So no source is
  opened by us once applications may write at the target.
- A fence is looked at again after all that took time: after the comparison, and last before `switching`. A source that
  was started again has lost its read-only mode. Then it takes writes that nobody compared, and the cut-over is aborted.
- Whoever drives it may be frozen anywhere, and thaw when another driver has long gone on. So what changes a server or
  calls the hook asks last whether the cut-over is still its own (`source.py` says how that holds at a server).

Where the hook fails at an end that can't be left (`switching`, `aborting`), the reason is stored in `failed`, and the
cut-over rests until a person has it go on. A daemon that starts anew does not call that hook again.

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
    asked: bool = False  # the hook was told to stop the writes, and has answered
    by_hook: bool = False  # it has stopped them, so no read-only mode is to be seen
    proof: Mapping[str, JSON] = field(default_factory=dict)
    target_end: str = ""  # R: what applications write at the target stands after it
    why: str = ""  # of an abort
    failed: str = ""  # why it rests before its end, until a person has it go on
    times: Mapping[str, float] = field(default_factory=dict)  # when each state was stored first

    @property
    def rests(self) -> bool:
        """Whether nothing is to be done unless a person asks for it."""
        return self.state in RESTING or bool(self.failed)

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

    def stop_writes(self) -> bool:
        """Have the hook stop the writes; False where that is left to dm."""

    def close(self, *, by_hook: bool) -> None:
        """Have the sources take no more writes, if the hook has not; raises NotYet while some still can."""

    def closed(self) -> bool:
        """Whether all sources are in read-only mode."""

    def ends(self) -> Mapping[str, str]:
        """Where the binlog of each source ends."""

    def written(self, since: Mapping[str, str]) -> list[str]:
        """What the sources have written after these ends, in words; empty if nothing."""

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
        """Give the sources the mode that they had."""

    def go_on(self) -> None:
        """Have the task run again."""

    def start_writes(self) -> None:
        """Have the hook let the applications write to the sources again."""


def advance(found: CutOverState, on: CutOverServers) -> CutOverState:
    """Do one step; gives the next state, which is to be stored before another step is done."""
    if found.state == "fencing":
        if not found.asked:
            return replace(found, asked=True, by_hook=on.stop_writes())
        on.close(by_hook=found.by_hook)
        ends = on.ends()
        on.pause()
        if on.written(ends):
            raise NotYet("the binlog of a source still moves")
        return replace(found, state="fenced", ends=ends)
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
        if not found.by_hook:
            on.reopen(found.before)
        on.go_on()
        on.start_writes()  # last: applications that come back find the servers open
        return replace(found, state="aborted")
    return found


def demand_fence(found: CutOverState, on: CutOverServers) -> None:
    """Raise DMError unless the sources have taken nothing since the fence, and still take nothing."""
    if not found.by_hook and not on.closed():
        raise DMError("cut-over-fence-lost", how="a source is not in read-only mode any more")
    written = on.written(found.ends)
    if written:
        raise DMError("cut-over-fence-lost", how=f"a source's binlog goes on behind the fence: {'; '.join(written)}")
