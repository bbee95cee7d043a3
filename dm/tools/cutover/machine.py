"""The states of a cut-over, and the one step that leads on from each.

The state is a row at the target (`record.py`). Whoever drives the cut-over reads the row, does one step, stores the
next state, and begins again. It may be killed anywhere, so each step can be done again. Four rules make that safe:

- What a fence replaces is stored before the fence: an abort gives each source back what it had.
- The row decides between the two ends before either has any effect outside. `switching` is stored before the first
  application moves, `aborting` before a fence is lifted. No step leads from the one to the other. So no source is
  opened by us once applications may write at the target.
- A fence is looked at again after all that took time: after the comparison, and last before `switching`. A source that
  was started again has lost its read-only mode. Then it takes writes that nobody compared, and the cut-over is aborted.
- Whoever drives it may be frozen anywhere, and thaw when another driver has long gone on. So what changes a server or
  calls the hook asks last whether the cut-over is still its own (`source.py` says how that holds at a server).

Where an end that can't be left (`switching`, `aborting`) does not get on by itself, the reason is stored in `failed`,
and the cut-over rests until a person has it go on (`driver.py` says when). A daemon that starts anew does not call a
hook again that has failed. What is done of `switching` is stored piece by piece (`prepared`, `moved`): a hook that has
moved the applications is not called again because events are refused after it.

The way back writes to the source, so its start moves the binlog's end. From there on the fence is what its binlog has
of others: no transaction that the task wants, and that has no mark of the way back. For that the source goes from
MySQL's super_read_only to read_only, which lets dm's account write.

What a person has paused stays so at an abort: the sources where the task is to be paused are stored before it is.

While applications still write, all is done that can be: processes are started, and with `--prove recent` all that is
there is compared. Then the proof compares what was written since, which is little. Nothing is closed yet, so an abort
has nothing to undo.

    comparing -> fencing -> fenced -> drained -> proved (-> way-back) -> switching -> switched -> complete
       comparing -> aborted, any from fencing to way-back -> aborting -> aborted

The return is the same machine for the task of the way back. Then the first task is the way back: it is there, rests
with its checkpoint, and goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal, Protocol

from dm.errors import DMError
from dm.unit import JSON

State = Literal[
    "comparing", "fencing", "fenced", "drained", "proved", "way-back", "switching", "switched", "complete", "aborting",
    "aborted",
]  # fmt: skip
STATES: Final[tuple[State, ...]] = State.__args__  # type: ignore[attr-defined]
UNDOABLE: Final[frozenset[State]] = frozenset({"comparing", "fencing", "fenced", "drained", "proved", "way-back"})
RESTING: Final[frozenset[State]] = frozenset({"switched", "complete", "aborted"})  # nothing is left to do
OVER: Final[frozenset[State]] = frozenset({"complete", "aborted"})
HOLDS_TASK: Final[frozenset[State]] = frozenset(
    {"proved", "way-back", "switching", "switched"}
)  # it is not to apply anything


@dataclass(frozen=True, slots=True)
class WayBackTask:
    """The task in the other direction."""

    task: str
    source: str = ""  # how the target is called as its source; empty where the cut-over has not made the two
    kept: bool = False  # it is there and rests: it goes on from its checkpoint


def given(task: str, way_back: WayBackTask | None, opens: Mapping[str, str]) -> str:
    """What a person gives `dmctl cut-over` for this one: a return, which `opens` a server, is one of the first task."""
    return f"{way_back.task} --back" if way_back is not None and opens else task


@dataclass(frozen=True, slots=True)
class CutOverState:
    """What the row says."""

    state: State
    prove: str  # full, recent or none
    hook: str  # a program; empty for none
    deadline: float  # seconds since the epoch: without `switching` by then it is aborted
    before: Mapping[str, Mapping[str, str]]  # by source, the read-only variables as they were
    ends: Mapping[str, JSON] = field(default_factory=dict)  # E by source: the end of its binlog after the fence
    asked: bool = False  # the hook was told to stop the writes, and has answered
    by_hook: bool = False  # it has stopped them, so no read-only mode is to be seen
    proof: Mapping[str, JSON] = field(default_factory=dict)
    target_end: str = ""  # R: what applications write at the target stands after it
    why: str = ""  # of an abort
    failed: str = ""  # why it rests before its end, until a person has it go on
    prepared: bool = False  # of `switching`: the target is open, and has its triggers
    moved: bool = False  # of `switching`: the hook has succeeded
    times: Mapping[str, float] = field(default_factory=dict)  # when each state was stored first
    number: int = 1  # of a pair of tasks that are cut over in turn, the highest is the last
    way_back: WayBackTask | None = None
    opens: Mapping[str, str] = field(default_factory=dict)  # read-only variables that the target gets at the switch
    since: JSON = None  # the target's place at the fence
    start: JSON = None  # R as a place, where the way back begins
    others: int = 0  # transactions of others at the target between the two
    acts: bool = False  # triggers or events come with the switch
    waived: Sequence[str] = ()  # objects that the target may lack
    acts_twice: Sequence[str] = ()  # triggers and events that may act on what comes back, too
    definers: Sequence[str] = ()  # what becomes of their DEFINER
    paused: Sequence[str] = ()  # sources on which the cut-over lets the task rest: these run again after an abort
    patience: float = 0.0  # seconds from the fence to the deadline, where the fence is yet to come

    def undone(self, why: str) -> CutOverState:
        """What follows where it is given up."""
        return replace(self, state="aborted" if self.state == "comparing" else "aborting", why=why)

    def again(
        self, *, hook: str, waive: Sequence[str] = (), acts_twice: Sequence[str] = (), definers: Sequence[str] = ()
    ) -> CutOverState:
        """Where a person has it go on: what is given takes the place of what was, but waived objects are added."""
        return replace(
            self, failed="", hook=hook or self.hook, waived=(*self.waived, *waive), definers=definers or self.definers,
            acts_twice=(*self.acts_twice, *acts_twice),
            moved=self.moved and bool(self.hook),  # without one nothing was called: one that is given now has to be
        )  # fmt: skip

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
        stored = json.loads(text)
        way_back = stored.pop("way_back", None)
        stored.setdefault("acts_twice", stored.get("waived", ()))  # one word meant both in what 0.1.0 has stored
        found = cls(**stored, way_back=None if way_back is None else WayBackTask(**way_back))
        if found.state not in STATES:
            raise ValueError(f"{found.state!r} is no state")
        return found


class NotYet(Exception):
    """The step is to be tried again; says what it waits for."""


class CutOverServers(Protocol):
    """What the steps do and ask; each can be repeated. Raise DMError and NotYet."""

    def get_ready(self, found: CutOverState) -> None:
        """Begin what takes time and changes nothing, while applications still write."""

    def stop_writes(self) -> bool:
        """Have the hook stop the writes; False where that is left to dm."""

    def close(self, *, by_hook: bool) -> None:
        """Have the sources take no more writes, if the hook has not; raises NotYet while some still can."""

    def closed(self, *, strictly: bool) -> bool:
        """Whether all sources are in read-only mode; `strictly`: in the one that binds even dm, if there is one."""

    def ends(self) -> Mapping[str, JSON]:
        """Where the binlog of each source ends, as places."""

    def written(self, since: Mapping[str, JSON]) -> list[str]:
        """What the sources have written after these ends, in words; empty if nothing."""

    def pause(self) -> None:
        """Let a moment pass."""

    def demand_applied(self) -> None:
        """Raise NotYet unless the task has applied all that the sources have now."""

    def compare_ahead(self) -> None:
        """Compare while applications write; raises DMError where rows are different."""

    def prove(self, how: str) -> Mapping[str, JSON]:
        """Compare all rows, or recent ones; raises DMError unless they are equal."""

    def working(self) -> Sequence[str]:
        """The sources on which the task would apply more if it were not paused."""

    def rest(self) -> None:
        """Pause the task; raises DMError unless its stored checkpoints cover the ends of the sources."""

    def target_end(self) -> tuple[str, JSON]:
        """Where the target's binlog ends, in words and as a place; empty and None where that is not to be known."""

    def begin_way_back(self, found: CutOverState) -> int:
        """Have the other task follow the target; gives how many transactions of others came to it since the fence.

        Raises NotYet until it does, and DMError where it can't.
        """

    def demand_untouched(self, found: CutOverState) -> None:
        """Raise DMError where a source has transactions after its end that are not of the way back."""

    def end_way_back(self, found: CutOverState) -> None:
        """Take the other task away, or let it rest as before."""

    def open_target(self, found: CutOverState) -> None:
        """Give the target the mode that applications need, where the cut-over before has closed it."""

    def create_acting(self, found: CutOverState) -> None:
        """Create triggers at the target, and events that do not run yet."""

    def enable_events(self, found: CutOverState) -> None:
        """Have the events run."""

    def switch(self) -> None:
        """Have the hook move the applications."""

    def reopen(self, before: Mapping[str, Mapping[str, str]]) -> None:
        """Give the sources the mode that they had."""

    def go_on(self, paused: Sequence[str]) -> None:
        """Have the task run again on these sources; raises NotYet while it is coming to rest there."""

    def start_writes(self) -> None:
        """Have the hook let the applications write to the sources again."""


def advance(found: CutOverState, on: CutOverServers) -> CutOverState:
    """Do one step; gives the next state, which is to be stored before another step is done."""
    if found.state == "comparing":
        if found.prove == "recent":
            on.compare_ahead()
        on.get_ready(found)
        return replace(found, state="fencing")
    if found.state == "fencing":
        if not found.asked:
            return replace(found, asked=True, by_hook=on.stop_writes())
        on.close(by_hook=found.by_hook)
        ends = on.ends()
        on.pause()
        if on.written(ends):
            raise NotYet("the binlog of a source still moves")
        return replace(found, state="fenced", ends=ends, since=on.target_end()[1])
    if found.state == "fenced":
        _after_fence(found, on, on.demand_applied)
        return replace(found, state="drained")
    if found.state == "drained":
        proof = {} if found.prove == "none" else on.prove(found.prove)
        demand_fence(found, on)
        return replace(found, state="proved", proof=proof, paused=on.working())
    if found.state == "proved":
        _after_fence(found, on, on.rest)
        end, start = on.target_end()
        demand_fence(found, on)
        following: State = "switching" if found.way_back is None else "way-back"
        return replace(found, state=following, target_end=end, start=start)
    if found.state == "way-back":
        others = on.begin_way_back(found)
        if not found.by_hook and not on.closed(strictly=False):
            raise DMError("cut-over-fence-lost", how="a source is not in read-only mode any more")
        on.demand_untouched(found)
        return replace(found, state="switching", others=others)
    if found.state == "switching":
        return _switched(found, on)
    if found.state == "aborting":
        on.end_way_back(found)
        if not found.by_hook:
            on.reopen(found.before)
        on.go_on(found.paused)
        on.start_writes()  # last: applications that come back find the servers open
        return replace(found, state="aborted")
    return found


def _switched(found: CutOverState, on: CutOverServers) -> CutOverState:
    if not found.prepared:
        on.open_target(found)
        if found.acts:
            on.create_acting(found)
        return replace(found, prepared=True)
    if not found.moved:
        on.switch()
        return replace(found, moved=True)
    if found.acts:
        on.enable_events(found)
    return replace(found, state="switched")


def _after_fence(found: CutOverState, on: CutOverServers, wait: Callable[[], None]) -> None:
    """Look at the fence also while there is something to wait for: what came over it may never be applied."""
    try:
        wait()
    finally:
        demand_fence(found, on)


def demand_fence(found: CutOverState, on: CutOverServers) -> None:
    """Raise DMError unless the sources have taken nothing since the fence, and still take nothing."""
    if not found.by_hook and not on.closed(strictly=True):
        raise DMError("cut-over-fence-lost", how="a source is not in read-only mode any more")
    written = on.written(found.ends)
    if written:
        raise DMError("cut-over-fence-lost", how=f"a source's binlog goes on after the fence: {'; '.join(written)}")
