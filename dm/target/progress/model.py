"""A small model of the protocol, explored exhaustively: every order of steps, every crash, every late session.

The model keeps what `protocol.py` says and nothing else: a source of a few transactions over two keyed rows and one
keyless table, lanes with at most one open target transaction each, a run that may crash or freeze at any step, target
sessions that outlive it and commit whenever they like, and a next run that fences, reads and replays. `explore` walks
all states and returns the first violation: a statement outside safe mode that does not hit exactly one row, or an end
state that differs from the source. Each safeguard can be taken away, and then there must be a violation; that is the
proof that the model can see one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

Safeguard = Literal["conflict detector", "bound", "epoch", "keyless position", "checkpoint behind commits"]
SAFEGUARDS: tuple[Safeguard, ...] = (
    "conflict detector", "bound", "epoch", "keyless position", "checkpoint behind commits",
)  # fmt: skip

QUEUE = 2  # jobs a lane may hold
KEYLESS = 0  # lane 0 is the keyless lane; the others are workers


class Change(NamedTuple):
    """A keyed change (`old` is the key it removes, `new` the key it writes) or a keyless insert (both None)."""

    old: str | None
    new: str | None
    value: int

    @property
    def keys(self) -> frozenset[str]:
        """The keys of both images."""
        return frozenset(key for key in (self.old, self.new) if key is not None)


Transaction = tuple[Change, ...]

# Insert, update in place, key move onto a row deleted just before, reuse of the freed key, keyless rows in between.
HISTORY: tuple[Transaction, ...] = (
    (Change(None, "a", 1), Change(None, None, 1)),
    (Change(None, "b", 2),),
    (Change("b", None, 0), Change("a", "b", 3)),
    (Change(None, "a", 4), Change(None, None, 2)),
)


class Target(NamedTuple):
    """What the target has committed. Positions are numbers of transactions; 0 is before the first."""

    rows: frozenset[tuple[str, int]] = frozenset()
    keyless: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()  # per lane
    positions: tuple[int, ...] = ()  # per lane
    checkpoint: int = 0  # L
    bound: int = 0  # B; 0 for none


class Job(NamedTuple):
    """A change on its way through a lane."""

    change: Change
    position: int  # of its transaction
    safe: bool


class Session(NamedTuple):
    """An open target transaction: it has passed the epoch check and holds its lane's row."""

    lane: int
    job: Job


class Run(NamedTuple):
    """The memory of one syncer process."""

    epoch: int
    bound: int
    keyless_done: int
    next: tuple[int, int]  # transaction, change: what is dispatched next
    queues: tuple[tuple[Job, ...], ...]
    sessions: tuple[Session, ...] = ()


class State(NamedTuple):
    """Everything at one instant."""

    target: Target
    run: Run | None
    frozen: Run | None  # an older process that may go on at any time
    orphans: tuple[Session, ...]  # sessions whose process is gone
    crashes: int


@dataclass(frozen=True, slots=True)
class Violation:
    """Why a state is wrong."""

    what: str
    state: State


class _Wrong(Exception):
    """Raised by a step that no correct protocol takes."""


@dataclass(frozen=True, slots=True)
class Model:
    """The protocol with some safeguards taken away."""

    history: tuple[Transaction, ...] = HISTORY
    workers: int = 2
    crashes: int = 2
    without: Safeguard | None = None

    def explore(self, limit: int = 2_000_000) -> tuple[int, Violation | None]:
        """Walk all reachable states; gives their number and the first violation."""
        lanes = self.workers + 1
        start = State(Target(epochs=(0,) * lanes, positions=(0,) * lanes), None, None, (), self.crashes)
        seen = {start}
        todo = [start]
        while todo:
            state = todo.pop()
            if self._finished(state) and not self._correct(state.target):
                return len(seen), Violation("the target differs from the source", state)
            try:
                for following in self._steps(state):
                    if following not in seen:
                        seen.add(following)
                        todo.append(following)
            except _Wrong as wrong:
                return len(seen), Violation(str(wrong), state)
            if len(seen) > limit:
                raise ValueError(f"more than {limit} states")
        return len(seen), None

    def _finished(self, state: State) -> bool:
        run = state.run
        return run is not None and run.next[0] == len(self.history) and not run.sessions and not any(run.queues)

    def _correct(self, target: Target) -> bool:
        rows: dict[str, int] = {}
        keyless = []
        for change in (change for transaction in self.history for change in transaction):
            if change.old is not None:
                del rows[change.old]
            if change.new is not None:
                rows[change.new] = change.value
            elif change.old is None:
                keyless.append(change.value)
        return target.rows == frozenset(rows.items()) and target.keyless == tuple(keyless)

    def _steps(self, state: State) -> Iterator[State]:
        if state.run is None:
            yield from self._start(state)
        else:
            for target, run in self._run_steps(state.target, state.run, state.orphans):
                yield state._replace(target=target, run=run)
            if state.crashes:
                yield from self._crashes(state, state.run)
        if state.frozen is not None:
            # What it has not dispatched adds nothing: its lanes already show every way to interfere.
            for target, frozen in self._lane_steps(state.target, state.frozen, state.orphans):
                yield state._replace(target=target, frozen=frozen if frozen.sessions or any(frozen.queues) else None)
        for session in state.orphans:
            left = tuple(other for other in state.orphans if other is not session)
            yield state._replace(orphans=left)  # the server noticed that the client is gone
            yield state._replace(orphans=left, target=self._commit(state.target, session))

    @staticmethod
    def _crashes(state: State, run: Run) -> Iterator[State]:
        crashed = state._replace(run=None, crashes=state.crashes - 1)
        yield crashed._replace(orphans=state.orphans + run.sessions)
        if state.frozen is None and (run.sessions or any(run.queues)):
            yield crashed._replace(frozen=run)

    def _start(self, state: State) -> Iterator[State]:
        """Fence, raise the epoch, read, store the bound: one step, since nothing is dispatched before its end."""
        target = state.target
        orphans = state.orphans
        frozen = state.frozen
        if self.without != "epoch":
            # The older sessions are ended first; what they commit before that is a step of its own.
            orphans = ()
            frozen = None if frozen is None else frozen._replace(sessions=())
        epoch = max(target.epochs) + 1
        reached = max(target.bound, *target.positions[1:], 0)
        bound = reached if reached > target.checkpoint else 0
        target = target._replace(epochs=(epoch,) * len(target.epochs), bound=0 if self.without == "bound" else bound)
        keyless_done = 0 if self.without == "keyless position" else target.positions[KEYLESS]
        run = Run(epoch, bound, keyless_done, (target.checkpoint, 0), ((),) * len(target.epochs))
        yield State(target, run, frozen, orphans, state.crashes)

    def _run_steps(self, target: Target, run: Run, orphans: tuple[Session, ...]) -> Iterator[tuple[Target, Run]]:
        yield from ((target, following) for following in self._dispatch(run))
        yield from self._lane_steps(target, run, orphans)

    def _lane_steps(self, target: Target, run: Run, orphans: tuple[Session, ...]) -> Iterator[tuple[Target, Run]]:
        busy = {session.lane for session in run.sessions}
        locked = {session.lane for session in orphans}
        for lane, queue in enumerate(run.queues):
            if queue and lane not in busy and lane not in locked:
                yield self._begin(target, run, lane)
        for session in run.sessions:
            left = tuple(other for other in run.sessions if other is not session)
            yield self._commit(target, session), run._replace(sessions=left)
        mark = self._mark(run)
        if mark > target.checkpoint and (self.without == "epoch" or max(target.epochs) == run.epoch):
            bound = 0 if mark >= target.bound else target.bound
            yield target._replace(checkpoint=mark, bound=bound), run

    def _mark(self, run: Run) -> int:
        if self.without == "checkpoint behind commits":
            return run.next[0]
        unfinished = [job.position for queue in run.queues for job in queue]
        unfinished += [session.job.position for session in run.sessions]
        if run.next[1] > 0:
            unfinished.append(run.next[0] + 1)
        return min(unfinished, default=run.next[0] + 1) - 1

    def _dispatch(self, run: Run) -> Iterator[Run]:
        number, index = run.next
        if number == len(self.history):
            return
        change = self.history[number][index]
        position = number + 1
        following = (number, index + 1) if index + 1 < len(self.history[number]) else (number + 1, 0)
        run = run._replace(next=following)
        if not change.keys:
            if position > run.keyless_done:
                yield _queued(run, KEYLESS, Job(change, position, safe=False))
            else:
                yield run
            return
        job = Job(change, position, safe=position <= run.bound)
        for lane in self._lanes_for(run, change):
            if len(run.queues[lane]) < QUEUE:
                yield _queued(run, lane, job)

    def _lanes_for(self, run: Run, change: Change) -> list[int]:
        workers = list(range(1, self.workers + 1))
        if self.without == "conflict detector":
            return workers
        holders = {lane for lane in workers if any(change.keys & job.change.keys for job in run.queues[lane])} | {
            session.lane for session in run.sessions if change.keys & session.job.change.keys
        }
        if len(holders) > 1:
            return []  # wait until the lanes are drained
        if holders:
            return list(holders)
        busy = {session.lane for session in run.sessions}
        idle = [lane for lane in workers if not run.queues[lane] and lane not in busy]
        return [lane for lane in workers if lane not in idle[1:]]  # idle lanes are all alike

    def _begin(self, target: Target, run: Run, lane: int) -> tuple[Target, Run]:
        if self.without != "epoch" and target.epochs[lane] != run.epoch:
            return target, run._replace(sessions=(), queues=((),) * len(run.queues))  # fenced: it ends at once
        queue = run.queues[lane]
        queues = (*run.queues[:lane], queue[1:], *run.queues[lane + 1 :])
        return target, run._replace(queues=queues, sessions=(*run.sessions, Session(lane, queue[0])))

    def _commit(self, target: Target, session: Session) -> Target:
        lane, (change, position, safe) = session
        positions = (*target.positions[:lane], position, *target.positions[lane + 1 :])
        target = target._replace(positions=positions)
        if not change.keys:
            return target._replace(keyless=(*target.keyless, change.value))
        rows = dict(target.rows)
        if change.old is not None and rows.pop(change.old, None) is None and not safe:
            raise _Wrong(f"outside safe mode row {change.old!r} is missing")
        if change.new is not None:
            if change.new in rows and not safe:
                raise _Wrong(f"outside safe mode row {change.new!r} exists already")
            rows[change.new] = change.value
        return target._replace(rows=frozenset(rows.items()))


def _queued(run: Run, lane: int, job: Job) -> Run:
    queues = (*run.queues[:lane], (*run.queues[lane], job), *run.queues[lane + 1 :])
    return run._replace(queues=queues)


def without(model: Model, safeguard: Safeguard) -> Model:
    """The same model with one safeguard taken away."""
    return replace(model, without=safeguard)
