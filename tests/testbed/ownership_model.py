"""A small model of claim, lease, fence and takeover, explored exhaustively.

Members of a cluster follow one source. The registry (etcd) knows their leases, and the owner of the source: a member
with the lease under which it claimed. The target has an epoch and how far the source's changes are applied. A run first
raises the epoch, then reads how far its predecessors got, then commits one change after the other, each with the place
after it. A run that finds a higher epoch is fenced: it rests.

Faults come at any step, as often as the scene allows, and each may last for ever or end at any later step: a member
dies, freezes, is cut off from etcd or from the target; etcd is lost. A lease may end once its member does not renew it.
Whether members reach each other is in no rule, so it is not in the model.

Looked at are all states, and above all those in which nothing but a fault can happen any more:

- a change is applied twice;
- more runs begin than faults explain: members fight;
- etcd's loss, or that of the way to it, ends a run that works;
- a member reaches all, and the source is nobody's; or its owner does, and rests, or another member follows the source.

Each safeguard can be taken away, and then there must be a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from tests.testbed.exploration import Violation, Wrong, explore

Fault = Literal["dies", "freezes", "cut from etcd", "cut from the target", "etcd is lost"]
Safeguard = Literal[
    "a commit compares the epoch",
    "the epoch is raised before progress is read",
    "the place commits with the rows",
    "a claim is made only where there is none",
    "a claim ends with its lease",
    "a claim is that of one lease",
    "a fenced run comes back only to its owner",
    "a fenced run comes back to its owner",
    "silence gives a fenced run nothing",
    "another cluster's run is left alone",
    "a run goes on without etcd",
]

# Each with the faults of the scene that shows it, and whether each member has a registry of its own.
SAFEGUARDS: Final[tuple[tuple[Safeguard, tuple[Fault, ...], bool], ...]] = (
    ("a commit compares the epoch", ("freezes",), False),
    ("the epoch is raised before progress is read", ("cut from etcd",), False),
    ("the place commits with the rows", ("dies",), False),
    ("a claim is made only where there is none", (), False),
    ("a claim ends with its lease", ("dies",), False),
    ("a claim is that of one lease", ("dies",), False),
    ("a fenced run comes back only to its owner", ("freezes",), False),
    ("a fenced run comes back to its owner", ("freezes",), False),
    ("silence gives a fenced run nothing", ("cut from etcd",), False),
    ("another cluster's run is left alone", (), True),
    ("a run goes on without etcd", ("etcd is lost",), False),
)

FAULTS: Final[tuple[Fault, ...]] = ("dies", "freezes", "cut from etcd", "cut from the target", "etcd is lost")
# How many runs more than one a fault explains, at most: whoever was told that a source is its own may have been late.
_RUNS_OF: Final[dict[Fault, int]] = {
    "dies": 1,
    "freezes": 2,
    "cut from etcd": 2,
    "cut from the target": 2,
    "etcd is lost": 2,
}


class Run(NamedTuple):
    """A run of one member."""

    epoch: int  # 0: not raised yet
    at: int  # the next change; -1: not read yet
    open: bool = False  # a change is applied, its place is not (without the safeguard only)


class Member(NamedTuple):
    """One member, and what the registry knows of it."""

    life: Literal["up", "down", "frozen"] = "up"
    no_etcd: bool = False
    no_target: bool = False
    lease: int = 0  # that the member works with; 0: none
    alive: frozenset[int] = frozenset()  # leases of its that etcd has
    leases: int = 0  # how many it has had
    saw_free: bool = False
    told: bool = False  # the source is its own: it may begin a run
    owns: bool = False  # what it has heard last
    run: Run | None = None
    fenced: int = 0  # by the member of this number, counted from 1: it rests


class State(NamedTuple):
    """All there is."""

    members: tuple[Member, ...]
    owners: tuple[tuple[int, int] | None, ...]  # by registry: a member and its lease
    etcd: bool = True
    epoch: int = 0
    begun_by: int = -1  # the member of the last run
    done: int = 0  # the place at the target
    applied: tuple[int, ...] = (0, 0)  # how often each change is
    faults: tuple[Fault, ...] = ()  # so far
    was_running: bool = False  # when the last fault came


@dataclass(frozen=True)
class OwnershipModel:
    """All states of a scene."""

    faults: tuple[Fault, ...]  # that may come, each once
    members: int = 2
    apart: bool = False  # each member has a registry of its own: two clusters with the same task
    without: Safeguard | None = None

    def explore(self, limit: int = 2_000_000) -> tuple[int, Violation[State] | None]:
        """How many states there are, and the first violation."""
        start = State((Member(),) * self.members, (None,) * (self.members if self.apart else 1))
        return explore(start, self._steps, self._judge, limit)

    # -- what is wrong

    def _judge(self, state: State, _stuck: bool) -> None:
        if max(state.applied) > 1:
            raise Wrong(f"a change is applied twice: {state}")
        explained = 1 + sum(_RUNS_OF[fault] for fault in state.faults) + (len(state.owners) - 1)
        if state.epoch > explained:
            raise Wrong(f"{state.epoch} runs began, {explained} are explained: {state}")
        if next(self._working(state), None) is None:
            self._judge_rest(state)

    def _judge_rest(self, state: State) -> None:
        """Nothing but a fault, or the end of one, can happen."""
        running = [number for number, each in enumerate(state.members) if self._follows(state, each)]
        away = [fault for fault in state.faults if fault in ("etcd is lost", "cut from etcd")]
        if away and len(away) == len(state.faults) and state.was_running and not running:
            raise Wrong(f"a run ended because of etcd: {state}")
        if not any(self._reaches_all(state, each) for each in state.members):
            return
        if not self.apart:
            (owner,) = state.owners
            if owner is None:
                raise Wrong(f"the source is nobody's: {state}")
            if not self._reaches_all(state, state.members[owner[0]]):
                return  # a person moves the source: nothing tells a member that is cut off from a target that is down
            if running and running != [owner[0]]:
                raise Wrong(f"another member than its owner follows the source: {state}")
        if not running:
            raise Wrong(f"the source rests: {state}")
        if min(state.applied) < 1:
            raise Wrong(f"changes are not applied: {state}")

    @staticmethod
    def _follows(state: State, member: Member) -> bool:
        return member.life == "up" and member.run is not None and member.run.epoch == state.epoch

    @staticmethod
    def _reaches_all(state: State, member: Member) -> bool:
        return state.etcd and member.life == "up" and not member.no_etcd and not member.no_target

    # -- what happens

    def _steps(self, state: State) -> Iterator[State]:
        yield from self._working(state)
        yield from self._failing(state)
        yield from self._healing(state)

    def _working(self, state: State) -> Iterator[State]:
        for number, member in enumerate(state.members):
            yield from self._leases_end(state, number, member)
            if member.life != "up":
                continue
            if state.etcd and not member.no_etcd:
                yield from self._at_etcd(state, number, member)
            else:
                yield from self._without_etcd(state, number, member)
            if member.no_target:
                if member.run is not None:  # its sessions are lost, which is no fence
                    yield _with(state, number, member._replace(run=None))
            else:
                yield from self._at_target(state, number, member)

    def _leases_end(self, state: State, number: int, member: Member) -> Iterator[State]:
        if not state.etcd:
            return  # nobody ends them
        for lease in member.alive:
            renewed = member.life == "up" and not member.no_etcd and lease == member.lease
            if not renewed:
                left = _with(state, number, member._replace(alive=member.alive - {lease}))
                where = number if self.apart else 0
                if left.owners[where] == (number, lease) and self._has("a claim ends with its lease"):
                    left = _owned(left, where, None)
                yield left

    def _at_etcd(self, state: State, number: int, member: Member) -> Iterator[State]:
        where = number if self.apart else 0
        owner = state.owners[where]
        if member.lease not in member.alive:
            new = member.leases + 1
            joined = member._replace(lease=new, leases=new, alive=member.alive | {new}, saw_free=False)
            yield _with(state, number, joined)
            return
        if self._has("a claim is made only where there is none"):
            if owner is None:
                yield _owned(state, where, (number, member.lease))
        elif member.saw_free:
            yield _owned(_with(state, number, member._replace(saw_free=False)), where, (number, member.lease))
        elif owner is None:
            yield _with(state, number, member._replace(saw_free=True))
        by_name = not self._has("a claim is that of one lease")
        own = owner is not None and owner[0] == number and (by_name or owner[1] == member.lease)
        if own != member.owns:
            yield _with(state, number, member._replace(owns=own))
        if member.run is not None and owner is not None and owner[0] != number:
            yield _with(state, number, member._replace(run=None, told=False))  # it lets go of what another owns
        if member.run is None and not member.told and (self._may_begin(state, number, member, own=own)):
            yield _with(state, number, member._replace(told=True))

    def _may_begin(self, state: State, number: int, member: Member, *, own: bool) -> bool:
        """Whether the answer of the registry lets a member begin a run."""
        if member.fenced:
            stranger = self.apart and member.fenced - 1 != number
            if stranger and self._has("another cluster's run is left alone"):
                return False
            if own:
                return self._has("a fenced run comes back to its owner")
            return not self._has("a fenced run comes back only to its owner")
        return own

    def _without_etcd(self, state: State, number: int, member: Member) -> Iterator[State]:
        if member.run is not None and not self._has("a run goes on without etcd"):
            yield _with(state, number, member._replace(run=None, owns=False))
        silent = not member.fenced or not self._has("silence gives a fenced run nothing")
        if member.run is None and not member.told and member.owns and silent:
            yield _with(state, number, member._replace(told=True))  # what it ran last it runs again

    def _at_target(self, state: State, number: int, member: Member) -> Iterator[State]:
        run = member.run
        if run is None:
            if member.told:
                yield self._begun(state, number, member._replace(told=False, fenced=0))
            return
        if run.epoch == 0:  # it has read too early
            yield self._raised(state, number, member, run)
        elif run.at < 0:
            yield _with(state, number, member._replace(run=run._replace(at=state.done)))
        elif run.epoch != state.epoch and self._has("a commit compares the epoch"):
            yield _with(state, number, member._replace(run=None, fenced=state.begun_by + 1))
        elif run.at < len(state.applied):
            yield self._committed(state, number, member, run)

    def _begun(self, state: State, number: int, member: Member) -> State:
        if not self._has("the epoch is raised before progress is read"):
            return _with(state, number, member._replace(run=Run(0, state.done)))
        return self._raised(state, number, member, Run(0, -1))

    @staticmethod
    def _raised(state: State, number: int, member: Member, run: Run) -> State:
        epoch = state.epoch + 1
        raised = state._replace(epoch=epoch, begun_by=number)
        return _with(raised, number, member._replace(run=run._replace(epoch=epoch)))

    def _committed(self, state: State, number: int, member: Member, run: Run) -> State:
        following = _with(state, number, member._replace(run=Run(run.epoch, run.at + 1)))
        if run.open:
            return following._replace(done=run.at + 1)
        applied = tuple(count + (place == run.at) for place, count in enumerate(state.applied))
        if not self._has("the place commits with the rows"):
            half = member._replace(run=run._replace(open=True))
            return _with(state, number, half)._replace(applied=applied)
        return following._replace(applied=applied, done=run.at + 1)

    def _failing(self, state: State) -> Iterator[State]:
        left = list(self.faults)
        for fault in state.faults:
            left.remove(fault)
        running = any(self._follows(state, member) for member in state.members)
        for fault in sorted(set(left)):
            noted = state._replace(faults=tuple(sorted((*state.faults, fault))), was_running=running)
            if fault == "etcd is lost":
                if state.etcd:
                    yield noted._replace(etcd=False)
                continue
            for number, member in enumerate(state.members):
                struck = _struck(member, fault)
                if struck != member:
                    yield _with(noted, number, struck)

    @staticmethod
    def _healing(state: State) -> Iterator[State]:
        if not state.etcd:
            yield state._replace(etcd=True)
        for number, member in enumerate(state.members):
            if member.life != "up":
                yield _with(state, number, member._replace(life="up"))
            if member.no_etcd:
                yield _with(state, number, member._replace(no_etcd=False))
            if member.no_target:
                yield _with(state, number, member._replace(no_target=False))

    def _has(self, safeguard: Safeguard) -> bool:
        return self.without != safeguard


def _struck(member: Member, fault: Fault) -> Member:
    if fault == "cut from etcd":
        return member._replace(no_etcd=True)
    if fault == "cut from the target":
        return member._replace(no_target=True)
    if member.life != "up":
        return member
    if fault == "freezes":
        return member._replace(life="frozen")
    # Its process is gone, and with it all that it knew. Its leases live on for a while.
    return Member("down", member.no_etcd, member.no_target, alive=member.alive, leases=member.leases)


def _with(state: State, number: int, member: Member) -> State:
    return state._replace(members=(*state.members[:number], member, *state.members[number + 1 :]))


def _owned(state: State, where: int, owner: tuple[int, int] | None) -> State:
    return state._replace(owners=(*state.owners[:where], owner, *state.owners[where + 1 :]))
