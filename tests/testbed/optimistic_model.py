"""A small model of shard merge in optimistic mode, explored exhaustively.

Two sources, the first with shards a and b, the second with shard c. Each shard adds and drops one column, NOT NULL and
without a DEFAULT, as often as its history says, and has rows between. The model keeps what
`dm.progress.shards.optimistic_structures` says and nothing else; numbered statements are the business of `shard_model`.

A process may crash at any step, or be frozen before it stores something under the latch, and take that step later. That
its epoch is old does not stop it here, though it does so in truth: the revision is enough. The
session of a statement may outlive its process and execute it, or not. A session may lose its turn unnoticed. The second
source may start at any time. `explore` walks all states and returns the first violation:

- a row has the column and the target has not, or lacks it where the target demands a value;
- a shard adds the column, and the target has it still with the shard's old values;
- a shard pauses for such values, and there are none;
- nothing can be done any more, and the target is not as the shards are.

Each safeguard can be taken away, and then there must be a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeVar

from tests.testbed.exploration import Violation, Wrong, explore

Safeguard = Literal[
    "all sources have joined", "structure with L", "L before the decision", "turn", "turn when deciding", "revision",
    "kept columns", "kept is forgotten", "loose before",
]  # fmt: skip
Scene = tuple[str, str]

# What shows the lack of each: the histories of both sources.
SAFEGUARDS: Final[tuple[tuple[Safeguard, Scene], ...]] = (
    ("all sources have joined", ("+a a", "c +c c")),
    ("structure with L", ("+a a", "+c -c")),
    ("L before the decision", ("+a a -a", "c")),
    ("turn", ("+a a", "+c -c")),
    ("turn when deciding", ("+a +b a -a b -b", "c +c c -c c")),
    ("revision", ("+a a", "+c -c")),
    ("kept columns", ("+a a -a +a a", "+c c")),
    ("kept is forgotten", ("+a -a +a a", "+c -c +c c")),
    ("loose before", ("+a a", "+c c")),
)

_T = TypeVar("_T")
_SHARDS: Final = "abc"


class Event(NamedTuple):
    """A row of a shard, or what it does to its column."""

    shard: int
    does: Literal["row", "+", "-"]


def history(text: str) -> tuple[Event, ...]:
    """Events from words: `a` is a row of shard a, `+a` its ADD COLUMN, `-a` its DROP COLUMN."""
    return tuple(
        Event(_SHARDS.index(word[-1]), "row" if len(word) == 1 else "+" if word[0] == "+" else "-")
        for word in text.split()
    )


class Member(NamedTuple):
    """A shard as stored: whether it has the column, and whether the target has old values of it."""

    has: bool = False
    kept: bool = False
    values: int = 0  # not stored: the making of the target's column in which rows of the shard got values


class Source(NamedTuple):
    """What is stored of one source."""

    joined: bool = False
    at: int = 0  # L
    done: int = 0  # the last event that its lanes committed


Column = Literal["", "demanded", "optional"]


class Target(NamedTuple):
    """What the target has committed."""

    column: Column
    making: int  # how often the column was made
    revision: int
    loose: bool
    members: tuple[Member, ...]
    sources: tuple[Source, ...]


Action = Literal["", "add", "add optional", "drop", "demand", "relax"]
Phase = Literal["", "to turn", "to decide", "decided", "executed", "to learn", "paused"]
_UNDER_LATCH: Final[tuple[Phase, ...]] = ("to decide", "executed", "to learn")
_IN_TURN: Final[tuple[Phase, ...]] = ("to decide", "decided", "executed")


class Run(NamedTuple):
    """The memory of one process that follows a source."""

    at: int
    phase: Phase = ""
    turn: bool = False
    revision: int = 0
    actions: tuple[Action, ...] = ()
    kept: bool = False  # after the event
    loose: bool = False


class State(NamedTuple):
    """Everything at one instant."""

    target: Target
    runs: tuple[Run | None, ...]
    late: tuple[int, Action] | None  # the source and the statement of a session whose process is gone
    frozen: tuple[int, Run] | None
    crashes: int


@dataclass(frozen=True, slots=True)
class OptimisticModel:
    """The protocol, perhaps with a safeguard taken away."""

    histories: tuple[tuple[Event, ...], tuple[Event, ...]]
    crashes: int = 1
    without: Safeguard | None = None

    @classmethod
    def of(cls, scene: Scene, *, crashes: int = 1, without: Safeguard | None = None) -> OptimisticModel:
        """The model of a scene."""
        return cls((history(scene[0]), history(scene[1])), crashes, without)

    def explore(self, limit: int = 1_000_000) -> tuple[int, Violation[State] | None]:
        """Walk all reachable states; gives their number and the first violation."""
        members = (Member(),) * len(self._present)
        target = Target("", 0, 0, False, members, (Source(), Source()))
        return explore(State(target, (None, None), None, None, self.crashes), self._steps, self._judge, limit)

    def _judge(self, state: State, stuck: bool) -> None:
        if stuck:
            self._demand_finished(state)

    @property
    def _present(self) -> list[int]:
        """The shards that there are: each has events."""
        found = {event.shard for events in self.histories for event in events}
        return list(range(max(found) + 1))

    def _there(self, shard: int) -> bool:
        return any(event.shard == shard for events in self.histories for event in events)

    def _demand_finished(self, state: State) -> None:
        if any(run is not None and run.phase == "paused" for run in state.runs):
            return  # `_decide` has looked whether that is right
        target = state.target
        ends = [source.at == len(events) for source, events in zip(target.sources, self.histories, strict=True)]
        if not all(ends):
            raise Wrong("nothing goes on, and something is missing")
        has = [target.members[shard].has for shard in self._present if self._there(shard)]
        wanted = "" if not any(has) else "demanded" if all(has) else "optional"
        if target.column != wanted:
            raise Wrong(f"in the end the column is {target.column!r}, not {wanted!r}")

    # -- What may happen

    def _steps(self, state: State) -> Iterator[State]:
        target = state.target
        for source, run in enumerate(state.runs):
            if run is None:
                if state.late is None or state.late[0] != source:  # the fence waits for it
                    yield self._start(state, source)
                continue
            for after, following in self._run_steps(state, source, run):
                yield state._replace(target=after, runs=_put(state.runs, source, following))
            if state.crashes:
                yield from self._mishaps(state, source, run)
        if state.late is not None:
            yield state._replace(late=None)
            yield state._replace(late=None, target=self._altered(target, state.late[1]))
        if state.frozen is not None:
            source, run = state.frozen
            for after, _ in self._latch_steps(state, source, run):
                yield state._replace(target=after, frozen=None)

    def _mishaps(self, state: State, source: int, run: Run) -> Iterator[State]:
        crashed = state._replace(runs=_put(state.runs, source, None), crashes=state.crashes - 1)
        if run.phase == "paused":
            return
        yield crashed
        if run.phase == "decided" and run.actions and run.turn and state.late is None:
            yield crashed._replace(late=(source, run.actions[0]))
        if run.phase in _UNDER_LATCH and state.frozen is None:
            yield crashed._replace(frozen=(source, run))
        if run.turn:
            lost = state._replace(runs=_put(state.runs, source, run._replace(turn=False)))
            yield lost._replace(crashes=state.crashes - 1)

    def _start(self, state: State, source: int) -> State:
        stored = state.target.sources[source]
        stored = stored._replace(joined=True)
        target = state.target._replace(sources=_put(state.target.sources, source, stored))
        return state._replace(target=target, runs=_put(state.runs, source, Run(stored.at)))

    def _run_steps(self, state: State, source: int, run: Run) -> Iterator[tuple[Target, Run | None]]:
        target = state.target
        events, stored = self.histories[source], target.sources[source]
        if run.phase == "paused":
            return
        if run.phase in _UNDER_LATCH:
            yield from self._latch_steps(state, source, run)
        elif run.phase == "to turn":
            if self.without == "turn" or not self._turn_taken(state, source):
                yield target, run._replace(phase="to decide", turn=True)
        elif run.phase == "decided":
            if not run.actions:
                yield target, run._replace(phase="executed")
            elif run.turn:
                yield self._altered(target, run.actions[0]), run._replace(actions=run.actions[1:])
            else:
                yield target, None  # the session that had the turn is gone
        elif run.at < len(events):
            event = events[run.at]
            if event.does == "row":
                yield self._applied(target, source, run, event.shard), run._replace(at=run.at + 1)
                if stored.at < run.at:
                    yield _at(target, source, run.at), run
            else:
                after = target if self.without == "L before the decision" else _at(target, source, run.at)
                yield after, run._replace(phase="to turn")
        elif stored.at < run.at:
            yield _at(target, source, run.at), run

    @staticmethod
    def _turn_taken(state: State, source: int) -> bool:
        if state.late is not None:
            return True
        others = (run for number, run in enumerate(state.runs) if number != source)
        return any(run is not None and run.turn and run.phase in _IN_TURN for run in others)

    # -- Rows and statements

    def _has(self, source: int, shard: int, at: int) -> bool:
        """Whether the source's rows have the column at a place."""
        found = [event.does for event in self.histories[source][:at] if event.shard == shard and event.does != "row"]
        return bool(found) and found[-1] == "+"

    def _applied(self, target: Target, source: int, run: Run, shard: int) -> Target:
        has, member = self._has(source, shard, run.at), target.members[shard]
        if has and not target.column:
            raise Wrong("a row has the column and the target has not")
        if not has and target.column == "demanded":
            raise Wrong("a row lacks a value that the target demands")
        if has:
            member = member._replace(values=target.making)
        stored = target.sources[source]
        stored = stored._replace(done=max(stored.done, run.at + 1))
        target = target._replace(members=_put(target.members, shard, member))
        return target._replace(sources=_put(target.sources, source, stored))

    @staticmethod
    def _altered(target: Target, action: Action) -> Target:
        if action in ("add", "add optional"):
            if target.column:
                raise Wrong("the column is added twice")
            made: Column = "demanded" if action == "add" else "optional"
            return target._replace(column=made, making=target.making + 1)
        if action == "drop":
            return target._replace(column="")
        return target._replace(column="demanded" if action == "demand" else "optional")

    # -- What is stored under the latch

    def _latch_steps(self, state: State, source: int, run: Run) -> Iterator[tuple[Target, Run | None]]:
        target = state.target
        if run.phase == "to decide":
            yield self._decide(target, source, run)
        elif run.phase == "to learn":
            shard, does = self.histories[source][run.at - 1]
            yield self._stored(target, shard, run, has=does == "+"), run._replace(phase="")
        else:
            yield self._store(target, source, run)

    def _decide(self, target: Target, source: int, run: Run) -> tuple[Target, Run | None]:
        if not run.turn and self.without != "turn when deciding":
            return target, None
        joined = all(each.joined for each in target.sources)
        if not joined and self.without != "all sources have joined":
            return target, run._replace(phase="to turn", turn=False)
        target = target._replace(revision=target.revision + 1)
        shard, does = self.histories[source][run.at]
        if not target.column and self.without != "kept is forgotten":
            members = tuple(member._replace(kept=False) for member in target.members)
            target = target._replace(members=members)
        mine = target.members[shard]
        known = [
            each
            for number, each in enumerate(target.members)
            if number != shard and self._there(number) and target.sources[0 if number < 2 else 1].joined
        ]
        run = run._replace(phase="decided", revision=target.revision, kept=mine.kept, loose=target.loose)
        if does == "+":
            return self._decide_added(target, mine, known, run)
        if not any(each.has for each in known):
            return target, run._replace(actions=("drop",) if target.column else (), kept=False, loose=False)
        relaxed: tuple[Action, ...] = ("relax",) if target.column == "demanded" else ()
        if relaxed and self.without != "loose before":
            target = target._replace(loose=True)
        kept = self.without != "kept columns"
        return target, run._replace(actions=relaxed, kept=kept, loose=bool(relaxed) or target.loose)

    def _decide_added(self, target: Target, mine: Member, known: list[Member], run: Run) -> tuple[Target, Run]:
        lacking = not all(each.has for each in known)
        if not target.column:
            if lacking and self.without != "loose before":
                target = target._replace(loose=True)
            action: Action = "add optional" if lacking else "add"
            return target, run._replace(actions=(action,), kept=False, loose=lacking)
        if mine.kept:
            if mine.values != target.making and self.crashes == 0:
                raise Wrong("a shard pauses, and the target has no old values of it")
            return target, run._replace(phase="paused", turn=False)
        if mine.values == target.making and not mine.has:  # an older run decides once more
            raise Wrong("old values of a shard come back")
        finished = target.loose and not lacking
        return target, run._replace(actions=("demand",) if finished else (), loose=target.loose and lacking)

    def _store(self, target: Target, source: int, run: Run) -> tuple[Target, Run | None]:
        shard, does = self.histories[source][run.at]
        if target.revision != run.revision and self.without != "revision":
            return target, None
        following = run._replace(at=run.at + 1, phase="", turn=False)
        if self.without == "structure with L":
            return _at(target, source, run.at + 1), following._replace(phase="to learn")
        return _at(self._stored(target, shard, run, has=does == "+"), source, run.at + 1), following

    @staticmethod
    def _stored(target: Target, shard: int, run: Run, *, has: bool) -> Target:
        member = target.members[shard]._replace(has=has, kept=run.kept)
        if has:
            member = member._replace(values=target.making)
        return target._replace(members=_put(target.members, shard, member), loose=run.loose)


def _at(target: Target, source: int, at: int) -> Target:
    return target._replace(sources=_put(target.sources, source, target.sources[source]._replace(at=at)))


def _put(values: tuple[_T, ...], at: int, value: _T) -> tuple[_T, ...]:
    return (*values[:at], value, *values[at + 1 :])
