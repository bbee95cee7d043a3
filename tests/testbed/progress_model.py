"""A small model of the protocol, explored exhaustively: every order of steps, every crash, every late session.

The model keeps what `protocol.py` says and nothing else: a source of a few transactions over two keyed rows and one
keyless table, lanes with at most one open target transaction each, a run that may crash or freeze at any step, target
sessions that outlive it and commit whenever they like, and a next run that fences, reads and replays. `explore` walks
all states and returns the first violation: a statement outside safe mode that does not hit exactly one row, or an end
state that differs from the source. Each safeguard can be taken away, and then there must be a violation; that is the
proof that the model can see one.

A run applies by several lanes or, with `atomic-transactions`, by the one of its own (I9), and the next run may do the
other. Where none ever does the first, each commit must leave a state that the source had, and never an older one.

A history may hold a DDL event of several pieces, each with an intent (I6), and another one after it. The end of one is
held until the next intent or until rows follow, and may be stored at any time before. A person may at any moment, once,
want something else in place of the first one (I8). What was acknowledged must then be what happened: all of it, once,
after what the target had of the event before; and without it the event itself. Here no structure tells that a piece
was executed already unless it is the one that was announced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from tests.testbed.exploration import Violation, Wrong, explore
from tests.testbed.progress_model_state import (
    HISTORY,
    INJECTED,
    NEXT,
    REPLACEMENT,
    STATEMENT,
    Action,
    Change,
    Event,
    Intent,
    Job,
    Reading,
    Run,
    Session,
    State,
    Statement,
    Target,
    Transaction,
    Way,
)

Safeguard = Literal[
    "conflict detector", "bound", "epoch", "keyless position", "checkpoint after commits",
    "intent", "operator until its checkpoint", "operator before its event", "intent goes with its meaning",
    "injection is recorded",
    "whole transactions", "atomic position", "atomic position for all runs",
]  # fmt: skip
SAFEGUARDS: tuple[Safeguard, ...] = (
    "conflict detector", "bound", "epoch", "keyless position", "checkpoint after commits",
)  # fmt: skip
ATOMIC: tuple[Way, ...] = ("atomic",)
EITHER: tuple[Way, ...] = ("lanes", "atomic")
ATOMIC_SAFEGUARDS: tuple[tuple[Safeguard, tuple[Way, ...]], ...] = (
    ("whole transactions", ATOMIC),
    ("atomic position", ATOMIC),
    ("epoch", ATOMIC),
    ("checkpoint after commits", ATOMIC),
    ("bound", EITHER),
    ("keyless position", EITHER),
    ("atomic position for all runs", EITHER),
)
DDL_SAFEGUARDS: tuple[tuple[Safeguard, Action], ...] = (
    ("intent", ""),
    ("intent", "replace"),
    ("operator until its checkpoint", "skip"),
    ("operator until its checkpoint", "replace"),
    ("operator before its event", "skip"),
    ("operator before its event", "replace"),
    ("operator before its event", "inject"),
    ("intent goes with its meaning", "replace"),
    ("injection is recorded", "inject"),
)

QUEUE = 2  # jobs a lane may hold
KEYLESS_LANE, ATOMIC_LANE, WORKER_LANES = 0, 1, 2  # workers are all from there on


@dataclass(frozen=True, slots=True)
class Model:
    """The protocol with some safeguards taken away."""

    history: tuple[Transaction, ...] = HISTORY
    workers: int = 2
    crashes: int = 2
    without: Safeguard | None = None
    action: Action = ""  # what a person wants done with the DDL event
    ways: tuple[Way, ...] = ("lanes",)  # each run takes one

    def explore(self, limit: int = 2_000_000) -> tuple[int, Violation[State] | None]:
        """Walk all reachable states; gives their number and the first violation."""
        lanes = WORKER_LANES + self.workers
        event = Event() if STATEMENT in self.history else None
        target = Target(epochs=(0,) * lanes, positions=(0,) * lanes, event=event)
        return explore(State(target, None, None, (), self.crashes), self._steps, self._judge, limit)

    def _judge(self, state: State, _stuck: bool) -> None:
        if self._finished(state) and not self._correct(state.target):
            raise Wrong("the target differs from the source")

    def _finished(self, state: State) -> bool:
        run = state.run
        return run is not None and run.next[0] == len(self.history) and not run.sessions and not any(run.queues)

    def _correct(self, target: Target) -> bool:
        everything = self._shows(target, len(self.history))
        return everything and (target.event is None or self._as_wanted(target.event))

    def _shows(self, target: Target, position: int) -> bool:
        """Whether the target has the rows that the source had at this position."""
        rows: dict[str, int] = {}
        keyless = []
        changes = (one for one in self.history[:position] if not isinstance(one, Statement))
        for change in (change for transaction in changes for change in transaction):
            if change.old is not None:
                del rows[change.old]
            if change.new is not None:
                rows[change.new] = change.value
            elif change.old is None:
                keyless.append(change.value)
        return target.rows == frozenset(rows.items()) and target.keyless == tuple(keyless)

    def _as_wanted(self, event: Event) -> bool:
        if event.before is None:
            return event.structure == STATEMENT.pieces + NEXT.pieces
        # A piece may have been under way in a session whose process was gone.
        wanted = [event.before + self._meaning(self.action)]
        if len(event.before) < len(STATEMENT.pieces) and self.action != "inject":
            wanted.append(event.before + STATEMENT.pieces[len(event.before)] + self._meaning(self.action))
        return event.structure in [each + NEXT.pieces for each in wanted]

    @staticmethod
    def _meaning(action: Action) -> str:
        pieces = STATEMENT.pieces
        return {"": pieces, "skip": "", "replace": REPLACEMENT, "inject": INJECTED + pieces}[action]

    def _steps(self, state: State) -> Iterator[State]:
        event = state.target.event
        if event is not None:
            yield from self._person_steps(state, event)
        if state.run is None:
            if event is None or not event.late:  # the fence waits for it
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
        event, reading = state.target.event, run.reading
        if event is not None and reading is not None and reading.announced:
            late = event._replace(late=reading.pieces[reading.number])
            crashed = crashed._replace(target=state.target._replace(event=late))
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
        atomic = target.positions[ATOMIC_LANE]
        keyless_done = 0 if self.without == "keyless position" else max(target.positions[KEYLESS_LANE], atomic)
        for way in self.ways:
            missing = "atomic position" if way == "atomic" else "atomic position for all runs"
            atomic_done = 0 if self.without == missing else atomic
            queues: tuple[tuple[Job, ...], ...] = ((),) * len(target.epochs)
            run = Run(way, epoch, bound, keyless_done, atomic_done, (target.checkpoint, 0), queues)
            if target.event is not None and self.without != "intent":
                run = run._replace(intent=target.event.intent)
            yield State(target, run, frozen, orphans, state.crashes)

    def _run_steps(self, target: Target, run: Run, orphans: tuple[Session, ...]) -> Iterator[tuple[Target, Run]]:
        number = run.next[0]
        if target.event is not None and number < len(self.history) and isinstance(self.history[number], Statement):
            yield from self._statement_steps(target, target.event, run)
        elif not run.held:
            yield from ((target, following) for following in self._dispatch(run))
        if run.held and target.event is not None:
            done = target._replace(event=target.event._replace(intent=None))
            yield self._passed(done, number), run._replace(held=False)
        yield from self._lane_steps(target, run, orphans)

    def _passed(self, target: Target, number: int) -> Target:
        """L is there, and an operator of an event before it goes."""
        event = target.event
        if event is not None and number > self.history.index(STATEMENT):
            event = event._replace(operator="")
        return target._replace(checkpoint=max(target.checkpoint, number), event=event)

    def _person_steps(self, state: State, event: Event) -> Iterator[State]:
        target, run = state.target, state.run
        if event.late:
            done = event._replace(structure=event.structure + event.late, late="")
            yield state._replace(target=target._replace(event=done))
            yield state._replace(target=target._replace(event=event._replace(late="")))  # it was not executed
        place = self.history.index(STATEMENT)
        if self.action == "" or event.before is not None or target.checkpoint > place:
            return
        if run is not None and self.without != "operator before its event":
            if run.next[0] > place or run.reading is not None:
                return  # it is too late
        elif self.action == "inject" and (event.structure or event.late or event.intent):
            return  # then the event's own pieces would have to be told apart by their structures
        stored = event._replace(operator=self.action, before=event.structure)
        if self.without != "intent goes with its meaning":
            stored = stored._replace(intent=None)
            run = None if run is None else run._replace(intent=None)
        yield state._replace(target=target._replace(event=stored), run=run)

    def _statement_steps(self, target: Target, event: Event, run: Run) -> Iterator[tuple[Target, Run]]:
        """The barrier, then piece by piece: intent, execution; then the end after it all, which is held."""
        place, reading = run.next[0], run.reading
        if reading is None:
            if any(run.queues) or run.sessions:
                return
            intent = run.intent if run.intent is not None and run.intent.place == place else None
            statement = self.history[place]
            assert isinstance(statement, Statement)
            inject, pieces = False, statement.pieces
            if statement is STATEMENT:
                inject = event.operator == "inject" and not event.injected
                pieces = INJECTED if inject else self._meaning("" if event.operator == "inject" else event.operator)
                if self.without == "operator until its checkpoint":
                    event = event._replace(operator="")
            yield target._replace(event=event), run._replace(intent=None, reading=Reading(pieces, inject, intent))
            return
        number, intent = reading.number, reading.intent
        if number == len(reading.pieces):
            if reading.injecting:
                done = event._replace(intent=None, injected=self.without != "injection is recorded")
                # This run knows it in any case.
                reading = Reading(STATEMENT.pieces, injecting=False, intent=None)
                yield self._passed(target._replace(event=done), place), run._replace(reading=reading)
                return
            yield target, run._replace(next=(place + 1, 0), reading=None, held=True)
            return
        piece, following = reading.pieces[number], reading._replace(number=number + 1, announced=False)
        if reading.announced:
            executed = event._replace(structure=event.structure + piece)
            yield target._replace(event=executed), run._replace(reading=following)
            return
        if intent is not None and number <= intent.number:
            if number < intent.number or event.structure == intent.before + intent.piece:
                yield target, run._replace(reading=following)
                return
            if event.structure != intent.before:
                raise Wrong("the structure is neither as before the piece nor as after it")
        announced = event._replace(intent=Intent(place, number, piece, event.structure))
        before = self._passed(target._replace(event=announced), place)
        yield before, run._replace(reading=reading._replace(announced=True), held=False)

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
        if mark > target.checkpoint and not run.held and (self.without == "epoch" or max(target.epochs) == run.epoch):
            bound = 0 if mark >= target.bound else target.bound
            yield target._replace(checkpoint=mark, bound=bound), run

    def _mark(self, run: Run) -> int:
        if self.without == "checkpoint after commits":
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
        transaction = self.history[number]
        assert not isinstance(transaction, Statement)
        position = number + 1
        if position <= run.atomic_done:
            yield run._replace(next=(number + 1, 0))
            return
        if run.way == "atomic" and self.without != "whole transactions":
            changes = tuple(change for change in transaction if change.keys or position > run.keyless_done)
            yield from self._dispatch_whole(run._replace(next=(number + 1, 0)), changes, position)
            return
        change = transaction[index]
        following = (number, index + 1) if index + 1 < len(transaction) else (number + 1, 0)
        run = run._replace(next=following)
        if not change.keys:
            if position > run.keyless_done:
                lane = ATOMIC_LANE if run.way == "atomic" else KEYLESS_LANE
                yield _queued(run, lane, Job((change,), position, safe=False))
            else:
                yield run
            return
        job = Job((change,), position, safe=position <= run.bound)
        for lane in self._lanes_for(run, change):
            if len(run.queues[lane]) < QUEUE:
                yield _queued(run, lane, job)

    @staticmethod
    def _dispatch_whole(run: Run, changes: tuple[Change, ...], position: int) -> Iterator[Run]:
        if not changes:
            yield run
        elif len(run.queues[ATOMIC_LANE]) < QUEUE:
            yield _queued(run, ATOMIC_LANE, Job(changes, position, safe=position <= run.bound))

    def _lanes_for(self, run: Run, change: Change) -> list[int]:
        if run.way == "atomic":
            return [ATOMIC_LANE]
        workers = list(range(WORKER_LANES, WORKER_LANES + self.workers))
        if self.without == "conflict detector":
            return workers
        holders = {lane for lane in workers if any(change.keys & job.keys for job in run.queues[lane])} | {
            session.lane for session in run.sessions if change.keys & session.job.keys
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
        lane, (changes, position, safe) = session
        positions = (*target.positions[:lane], position, *target.positions[lane + 1 :])
        rows, keyless = dict(target.rows), target.keyless
        for change in changes:
            if not change.keys:
                keyless = (*keyless, change.value)
            if change.old is not None and rows.pop(change.old, None) is None and not safe:
                raise Wrong(f"outside safe mode row {change.old!r} is missing")
            if change.new is not None:
                if change.new in rows and not safe:
                    raise Wrong(f"outside safe mode row {change.new!r} exists already")
                rows[change.new] = change.value
        target = target._replace(positions=positions, rows=frozenset(rows.items()), keyless=keyless)
        if self.ways == ATOMIC and not self._shows(target, position):
            raise Wrong(f"readers see what the source was not after transaction {position}")
        return target


def _queued(run: Run, lane: int, job: Job) -> Run:
    queues = (*run.queues[:lane], (*run.queues[lane], job), *run.queues[lane + 1 :])
    return run._replace(queues=queues)


def without(model: Model, safeguard: Safeguard) -> Model:
    """The same model with one safeguard taken away."""
    return replace(model, without=safeguard)
