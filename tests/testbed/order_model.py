"""A small model of `merge-order: commit-time`, explored exhaustively.

Some sources commit transactions, at moments that the scene gives. Each has a run that reads them, waits for its turn as
`dm.syncer.merge_order` says (the very function decides), gives them to lanes, which commit in any order, and stores a
checkpoint with its row. A run may crash at any step. What its lanes had begun may be committed or not, and the next run
begins at the checkpoint and repeats what follows. Clocks may be read at any time. `explore` walks all states and
returns the first violation:

- a transaction is committed, for the first time or in a replay, after one of another source that follows it;
- nothing can be done any more, and something is left to be done.

Each safeguard can be taken away, and then there must be a violation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from dm.syncer.merge_order import NEVER, SourceProgress, holders

Safeguard = Literal[
    "turn", "ties", "drained", "stored with L", "the end is covered", "clock before end", "joined", "own moment"
]
Scene = Mapping[str, Sequence[int]]  # the moments of each source's transactions, in the order of its binlog

SAFEGUARDS: Final[tuple[tuple[Safeguard, Scene], ...]] = (
    ("turn", {"a": (1, 4), "b": (2, 3)}),
    ("ties", {"a": (1, 2), "b": (2,)}),
    ("drained", {"a": (1, 3), "b": (2,)}),
    ("stored with L", {"a": (1, 3), "b": (2,)}),
    ("the end is covered", {"a": (1,), "b": (2, 3)}),
    ("clock before end", {"a": (1, 3), "b": (2,)}),
    ("joined", {"a": (2,), "b": (1,)}),
    ("own moment", {"a": (1, 3), "b": (2, 3)}),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One source, and the run that follows it."""

    written: int = 0  # transactions in its binlog
    taken: int = 0  # given to the lanes
    open: frozenset[int] = frozenset()  # of these, not committed
    ever: frozenset[int] = frozenset()  # committed at the target, by whatever run
    stored: int = 0  # L
    row: int | None = None  # the frontier at the target
    floor: int = 0
    known: tuple[tuple[str, int], ...] = ()  # the others' frontiers
    clock: int | None = None  # read, and the end is read next
    end: tuple[int, int] | None = None  # the watermark: an end, and the moment of the clock
    begun: bool = False
    crashes: int = 0

    @property
    def mark(self) -> int:
        """Up to where everything is committed."""
        return min(self.open, default=self.taken)


State = tuple[tuple[str, Run], ...]


@dataclass
class OrderModel:
    """All states of a scene."""

    scene: Scene
    crashes: int = 1
    without: Safeguard | None = None
    _moments: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for source, own in self.scene.items():
            # What a source commits at a clock that was set back counts as committed at the time before.
            self._moments[source] = tuple(max(own[: number + 1]) for number in range(len(own)))

    def explore(self) -> tuple[int, str | None]:
        """How many states there are, and the first violation."""
        first: State = tuple((source, Run()) for source in sorted(self.scene))
        seen, waiting = {first}, [first]
        while waiting:
            state = waiting.pop()
            stuck = True
            for following, wrong in self._steps(state):
                if wrong is not None:
                    return len(seen), wrong
                stuck = stuck and following == state  # who waits says again where it is
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
            if stuck and any(len(run.ever) < len(self.scene[source]) for source, run in state):
                return len(seen), f"nothing can be done any more: {state}"
        return len(seen), None

    def _steps(self, state: State) -> Iterator[tuple[State, str | None]]:
        runs = dict(state)
        now = self._now(runs)
        for source, run in state:
            if run.written < len(self.scene[source]) and self._may_be_written(source, runs):
                yield self._with(state, source, replace(run, written=run.written + 1)), None
            if not run.begun:
                yield self._with(state, source, self._begun(run)), None
                continue
            for following in self._own_steps(source, run, now):
                yield self._with(state, source, following), None
            seen = tuple((other, each.row) for other, each in state if other != source and each.row is not None)
            if seen != run.known and run.taken < run.written:
                yield self._with(state, source, replace(run, known=seen)), None
            for number in sorted(run.open):
                wrong = self._wrong(source, number, runs)
                done = replace(run, open=run.open - {number}, ever=run.ever | {number})
                yield self._with(state, source, done), wrong
            if sum(each.crashes for each in runs.values()) < self.crashes:
                yield from self._crash(state, source, run, runs)

    def _begun(self, run: Run) -> Run:
        row = run.row or 0
        return replace(run, begun=True, floor=row, row=row, taken=run.stored, open=frozenset(), known=())

    def _own_steps(self, source: str, run: Run, now: int) -> Iterator[Run]:
        moments = self._moments[source]
        if run.taken < run.written:
            moment = max(self.scene[source][run.taken], run.floor)
            if self._may_go(source, moment, run):
                yield replace(run, taken=run.taken + 1, open=run.open | {run.taken}, floor=max(run.floor, moment))
            elif not run.open or self.without == "drained":  # it waits, and says where it is
                yield self._published(run, moment + (self.without == "own moment"))
        if run.mark and moments[run.mark - 1] > (run.row or 0):  # the timer
            yield self._published(run, moments[run.mark - 1])
        if run.clock is None:
            if run.end is None and now > (run.row or 0):
                if self.without == "clock before end":
                    yield replace(run, clock=run.written)
                else:
                    yield replace(run, clock=now)
        elif self.without == "clock before end":
            yield replace(run, clock=None, end=(run.clock, now))
        else:
            yield replace(run, clock=None, end=(run.written, run.clock))
        if run.end is not None:
            end, moment = run.end
            covered = run.taken >= end and not run.open  # more may be written, and is not read yet
            if covered or self.without == "the end is covered":
                yield replace(self._published(run, moment), floor=max(run.floor, moment), end=None)

    def _published(self, run: Run, frontier: int) -> Run:
        """The row, stored with L."""
        return replace(
            run, row=max(run.row or 0, frontier), stored=run.stored if self.without == "stored with L" else run.mark
        )

    def _may_go(self, source: str, moment: int, run: Run) -> bool:
        if self.without == "turn":
            return True
        others = [other for other in self.scene if other != source]
        known = {other: SourceProgress(frontier) for other, frontier in run.known}
        if self.without == "joined":
            known = {other: known.get(other, SourceProgress(NEVER)) for other in others}
        found = holders(source, moment, others, known)
        if self.without == "ties":
            found = tuple(other for other in found if other not in known or known[other].frontier < moment)
        return not found

    def _crash(
        self, state: State, source: str, run: Run, runs: Mapping[str, Run]
    ) -> Iterator[tuple[State, str | None]]:
        ended = replace(run, begun=False, open=frozenset(), clock=None, end=None, crashes=run.crashes + 1)
        yield self._with(state, source, ended), None
        for number in sorted(run.open):  # one of the sessions of the dead run still commits
            wrong = self._wrong(source, number, runs)
            yield self._with(state, source, replace(ended, ever=run.ever | {number})), wrong

    def _now(self, runs: Mapping[str, Run]) -> int:
        """The clock of all sources: nothing is written later with an earlier moment. In the end, time goes on."""
        latest = max((self._moments[source][run.written - 1] for source, run in runs.items() if run.written), default=0)
        return latest + all(run.written == len(self.scene[source]) for source, run in runs.items())

    def _may_be_written(self, source: str, runs: Mapping[str, Run]) -> bool:
        moment = self._moments[source][runs[source].written]
        others = ((self._moments[other], run.written) for other, run in runs.items() if other != source)
        return all(written == len(moments) or moments[written] >= moment for moments, written in others)

    def _wrong(self, source: str, number: int, runs: Mapping[str, Run]) -> str | None:
        place = (self._moments[source][number], source)
        for other, run in runs.items():
            if other == source:
                continue
            for each in run.ever:
                if (self._moments[other][each], other) > place:
                    return f"{source}{number} is committed after {other}{each}: {runs}"
        return None

    @staticmethod
    def _with(state: State, source: str, run: Run) -> State:
        return tuple((name, run if name == source else each) for name, each in state)
