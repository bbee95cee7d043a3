"""A small model of shard merge in pessimistic mode, explored exhaustively.

Two sources: the first has shards a and b and an unrelated table u, the second has shard c. Each shard runs through the
same DDLs. The model keeps what `dm.progress.shards.numbered_ddls` says and nothing else. What a crash does inside a
source's lanes is the business of `progress_model`: here a row is committed at once, with its lane's position, and only
the checkpoint lags behind.

A process may crash at any step. It may also be frozen before a step that changes shared tables, and take it at any time
later. The session of a DDL may outlive its process and execute the statement, or not. The second source may start at
any time. A shard may be created late, with a structure that the target has, has not yet, or has no more: then it is
held for ever, since no DDL of the others leads there. `explore` walks all states and returns the first violation:

- a row is applied to a target that has not just the DDLs that come before the row;
- a row that no run can have applied is there already, or one is applied twice where the lanes' order is exact;
- a DDL is executed before all shards have arrived at it, or a piece of it twice;
- a structure is neither as before a piece nor as after it;
- nothing can be done any more, and something is left to be done.

Each safeguard can be taken away, and then there must be a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from tests.testbed.exploration import Violation, Wrong, explore
from tests.testbed.shard_model_state import (
    PIECES,
    SHARDS,
    UNRELATED,
    Event,
    History,
    Intent,
    Member,
    Pass,
    Phase,
    Run,
    Source,
    State,
    Target,
    history,
    may_meet_alters,
)

Safeguard = Literal[
    "all sources have joined", "numbers", "passed with L", "L before ready", "hold with L", "places",
    "main has caught up", "main waits for the pass", "return with the end of the pass", "emptied lane rows",
    "settle", "turn", "claim on latch writes", "early", "early is ready", "begun",
]  # fmt: skip

# What shows the lack of each: histories of both sources, and whether the lanes keep the source's order.
Scene = tuple[str, str, bool]
SAFEGUARDS: Final[tuple[tuple[Safeguard, Scene], ...]] = (
    ("all sources have joined", ("A B", "c C", False)),
    ("numbers", ("A B A B", "c C C c", False)),
    ("passed with L", ("A a B A B", "C C", False)),
    ("L before ready", ("B a A", "C", False)),
    ("hold with L", ("A a B", "C", False)),
    ("places", ("a A a b B", "C", False)),
    ("main has caught up", ("A B a u", "C", True)),
    ("main waits for the pass", ("A a B a", "C", False)),
    ("return with the end of the pass", ("A a B a", "C", False)),
    ("emptied lane rows", ("A B b A a b B", "C C", True)),
    ("settle", ("A B", "C", False)),
    ("turn", ("A B", "C", False)),
    ("claim on latch writes", ("A a B", "C", True)),
    ("early", ("A b:1 b", "C", False)),
    ("early is ready", ("A B", "c:1 c", False)),
    ("begun", ("A B", "c:0 c C", False)),
)


_T = TypeVar("_T")
_SHARED: Final[tuple[Phase, ...]] = ("passed", "to create", "to hold", "to begin", "to return")


@dataclass(frozen=True, slots=True)
class ShardModel:
    """The protocol, perhaps with a safeguard taken away."""

    histories: tuple[History, History]
    ordered: bool = False  # rows go through the ordered lane, whose position is exact
    crashes: int = 1
    without: Safeguard | None = None

    @classmethod
    def of(cls, scene: Scene, *, crashes: int = 1, without: Safeguard | None = None) -> ShardModel:
        """The model of a scene."""
        first, second, ordered = scene
        return cls((history(first), history(second)), ordered, crashes, without)

    def explore(self, limit: int = 1_000_000) -> tuple[int, Violation[State] | None]:
        """Walk all reachable states; gives their number and the first violation."""
        there = (None if may_meet_alters(self.histories, table) >= 0 else Member() for table in SHARDS)
        target = Target("", 0, 0, None, tuple(there), (Source(), Source()))
        return explore(State(target, (None, None), None, self.crashes), self._steps, self._judge, limit)

    def _judge(self, state: State, stuck: bool) -> None:
        if stuck and not self._finished(state.target):
            raise Wrong("nothing goes on, and something is missing")

    def _finished(self, target: Target) -> bool:
        ends = target.structure == "".join(PIECES[: target.executed]) and target.intent is None
        left = [table for table in SHARDS if self._left_behind(target, table)]
        for source, events in zip(target.sources, self.histories, strict=True):
            rows = sum(
                1 << at
                for at, event in enumerate(events)
                if not event.ddl and event.made < 0 and event.table not in left
            )
            ends = ends and source.rows == rows and source.at == len(events)
            ends = ends and all(table in left for table, _ in source.held) and source.second is None
        return ends and all(
            _member(target, table).passed == sum(map(self._number, (table, table), (0, 1)))
            for table in SHARDS
            if table not in left
        )

    def _left_behind(self, target: Target, table: int) -> bool:
        """Whether a table was created with a structure that the others had before, when a DDL was under way or done."""
        return _member(target, table).early and may_meet_alters(self.histories, table) < target.executed

    def _number(self, table: int, source: int, until: int | None = None) -> int:
        """How many DDLs a table has passed, by the events of a source; those before a place."""
        events = self.histories[source]
        begins = max((event.made for event in events if event.table == table), default=-1)
        return max(begins, 0) + sum(event == Event(table, ddl=True) for event in events[:until])

    # -- What may happen

    def _steps(self, state: State) -> Iterator[State]:
        target = state.target
        for source, run in enumerate(state.runs):
            if run is None:
                if target.late is None or target.late[0] != source:  # the fence waits for it
                    yield self._start(state, source)
                continue
            for after, following in self._run_steps(state, source, run):
                yield state._replace(target=after, runs=_put(state.runs, source, following))
            if state.crashes:
                yield from self._crash(state, source, run)
        if target.late is not None:
            yield state._replace(target=target._replace(late=None))  # it was not executed
            yield state._replace(target=self._altered(target, target.late[1])._replace(late=None))
        if state.frozen is not None:
            source, run = state.frozen
            for after, _ in self._shared_steps(state, source, run):
                yield state._replace(target=after, frozen=None)

    def _crash(self, state: State, source: int, run: Run) -> Iterator[State]:
        target = state.target
        crashed = state._replace(runs=_put(state.runs, source, None), crashes=state.crashes - 1)
        if run.phase == "announced" and target.late is None:
            assert target.intent is not None
            piece = PIECES[target.intent.number - 1][target.intent.piece]
            yield crashed._replace(target=target._replace(late=(source, piece)))
            return
        yield crashed
        if run.phase in _SHARED and state.frozen is None:
            yield crashed._replace(frozen=(source, run))

    def _start(self, state: State, source: int) -> State:
        """A run fences the one before it and begins where that has stored; a second pass is finished first."""
        target = state.target
        stored = target.sources[source]
        stored = stored._replace(epoch=stored.epoch + 1, joined=True)
        second = stored.second if self.without != "main waits for the pass" else None
        at, done = (stored.at, stored.done) if second is None else (second.at, stored.second_done)
        run = Run(stored.epoch, second is not None, at, done)
        return state._replace(
            target=target._replace(sources=_put(target.sources, source, stored)),
            runs=_put(state.runs, source, run),
        )

    def _run_steps(self, state: State, source: int, run: Run) -> Iterator[tuple[Target, Run | None]]:
        target = state.target
        stored, events = target.sources[source], self.histories[source]
        if run.phase in _SHARED:
            yield from self._shared_steps(state, source, run)
            return
        if run.phase == "created":
            yield _with(target, source, self._at(stored, run, run.at + 1)), run._replace(at=run.at + 1, phase="")
            return
        if run.phase in ("turn", "announced"):
            yield from self._turn_steps(target, events[run.at].table, run)
            return
        if run.phase == "arrived":
            yield from self._arrived(state, source, run)
            return
        at = stored.at if stored.second is None or not run.second else stored.second.at
        if at < run.at:
            yield _with(target, source, self._at(stored, run, run.at)), run
            if not state.crashes:
                return  # that it lags behind makes no difference any more
        if run.second:
            assert stored.second is not None
            if run.at == stored.at or not stored.second.tables:
                yield target, run._replace(phase="to return")
                return
        else:
            going = tuple(each for each in stored.held if self._may_go_on(target, each[0]))
            caught_up = run.at >= run.done or self.without == "main has caught up"
            if going and stored.second is None and caught_up:
                yield target, run._replace(phase="to begin", going=going)
            if run.at == len(events):
                return
        event = events[run.at]
        if not self._owns(stored, run, event.table):
            yield target, run._replace(at=run.at + 1)
        elif event.made >= 0:
            yield _with(target, source, self._at(stored, run, run.at)), run._replace(phase="to create")
        elif event.ddl:
            yield from self._at_ddl(target, source, run, event.table)
        else:
            yield self._applied(target, source, run, event.table), run._replace(at=run.at + 1)

    def _owns(self, stored: Source, run: Run, table: int) -> bool:
        """Whether a table's events are this reading's."""
        second = stored.second
        if run.second:
            assert second is not None
            place = dict(second.tables).get(table)
            return place is not None and (place <= run.at or self.without == "places")
        return table not in dict(stored.held) and (second is None or table not in dict(second.tables))

    # -- Rows

    def _applied(self, target: Target, source: int, run: Run, table: int) -> Target:
        stored, position, bit = target.sources[source], run.at + 1, 1 << run.at
        ordered = self.ordered or table == UNRELATED
        if ordered and position <= run.done:
            return target  # exactly that is done
        if table != UNRELATED:
            number = self._number(table, source, run.at)
            if target.structure != "".join(PIECES[:number]):
                raise Wrong(f"a row after {number} DDLs meets structure {target.structure!r}")
        if stored.rows & bit and (ordered or position > run.done):
            raise Wrong("a row is there already")
        if run.second:
            stored = stored._replace(second_done=max(stored.second_done, position))
        else:
            stored = stored._replace(done=max(stored.done, position))
        return _with(target, source, stored._replace(rows=stored.rows | bit))

    # -- The gate

    def _at_ddl(self, target: Target, source: int, run: Run, table: int) -> Iterator[tuple[Target, Run]]:
        """The barrier, and L before the event; then the table has passed it, or has arrived at it."""
        stored, member = target.sources[source], _member(target, table)
        number = member.passed + 1
        there = self._at(stored, run, run.at)
        if target.executed >= number:
            yield _with(target, source, there), run._replace(phase="passed")
            return
        if self.without != "L before ready":
            target = _with(target, source, there)
        members = _put(target.members, table, member._replace(ready=number))
        yield target._replace(members=members), run._replace(phase="arrived")

    def _arrived(self, state: State, source: int, run: Run) -> Iterator[tuple[Target, Run]]:
        target = state.target
        table = self.histories[source][run.at].table
        number = _member(target, table).passed + 1
        if target.executed >= number:
            yield target, run._replace(phase="passed")
        elif target.begun == number or self._complete(target, number):
            if self.without == "turn" or not self._turn_taken(state, source):
                yield target, run._replace(phase="turn", piece=-1)
        else:
            # Where other sources alone are missing, it may as well wait: the same state, looked at again.
            yield target, run._replace(phase="to hold")

    @staticmethod
    def _turn_taken(state: State, source: int) -> bool:
        if state.target.late is not None:
            return True
        others = (run for number, run in enumerate(state.runs) if number != source)
        return any(run is not None and run.phase in ("turn", "announced") for run in others)

    def _complete(self, target: Target, number: int) -> bool:
        """Whether all shards of all sources have arrived."""
        joined = [source.joined for source in target.sources]
        if not all(joined) and self.without != "all sources have joined":
            return False
        members = [member for table, member in enumerate(target.members) if member and joined[0 if table < 2 else 1]]
        if self.without == "numbers":
            return all(member.ready > member.passed for member in members)
        return all(member.ready >= number for member in members)

    def _may_go_on(self, target: Target, table: int) -> bool:
        number = _member(target, table).passed + 1
        if target.executed >= number:
            return True
        return (target.begun == number or self._complete(target, number)) and not _member(target, table).early

    # -- The execution

    def _turn_steps(self, target: Target, table: int, run: Run) -> Iterator[tuple[Target, Run]]:
        number = _member(target, table).passed + 1
        if run.phase == "announced":
            yield self._altered(target, PIECES[number - 1][run.piece]), run._replace(phase="turn", piece=run.piece + 1)
            return
        if target.executed >= number:
            yield target, run._replace(phase="passed", piece=-1)
            return
        if run.piece < 0:
            if target.begun < number:
                if not self._complete(target, number):
                    yield target, run._replace(phase="to hold")
                    return
                if self.without != "begun":
                    target = target._replace(begun=number)
            yield target, run._replace(piece=self._settled(target, number))
        elif run.piece == len(PIECES[number - 1]):
            executed = target._replace(executed=number, intent=None)
            yield executed, run._replace(phase="passed", piece=-1)
        else:
            announced = target._replace(intent=Intent(number, run.piece))
            yield announced, run._replace(phase="announced")

    def _settled(self, target: Target, number: int) -> int:
        """The first piece that is not executed."""
        intent = target.intent
        if intent is None or self.without == "settle":
            return 0
        before = "".join(PIECES[: number - 1]) + PIECES[number - 1][: intent.piece]
        if target.structure == before:
            return intent.piece
        if target.structure == before + PIECES[number - 1][intent.piece]:
            return intent.piece + 1
        raise Wrong("the structure is neither as before the piece nor as after it")

    def _altered(self, target: Target, piece: str) -> Target:
        structure = target.structure + piece
        whole = "".join(PIECES)
        if not whole.startswith(structure):
            raise Wrong(f"the structure becomes {structure!r}")
        number = 1 if len(structure) <= len(PIECES[0]) else 2
        if any(member is not None and member.ready < number for member in target.members):
            raise Wrong(f"DDL {number} is executed while not all have arrived")
        return target._replace(structure=structure)

    # -- What changes the owner of a table, or its number

    def _shared_steps(self, state: State, source: int, run: Run) -> Iterator[tuple[Target, Run | None]]:
        target = state.target
        stored = target.sources[source]
        if stored.epoch != run.epoch and self.without != "claim on latch writes":
            yield target, None  # fenced
            return
        if run.phase == "passed":
            yield from self._pass_by(target, source, run)
        elif run.phase == "to create":
            yield self._create(target, source, run)
        elif run.phase == "to hold":
            yield from self._hold(target, source, run)
        elif run.phase == "to begin":
            yield self._begin(target, source, run)
        elif stored.second is not None:
            yield from self._return(target, source, run)
        else:
            yield target, None

    def _pass_by(self, target: Target, source: int, run: Run) -> Iterator[tuple[Target, Run | None]]:
        table = self.histories[source][run.at].table
        member = _member(target, table)
        passed = target._replace(members=_put(target.members, table, member._replace(passed=member.passed + 1)))
        there = self._at(target.sources[source], run, run.at + 1)
        following = run._replace(at=run.at + 1, phase="")
        if self.without == "passed with L":
            yield passed, following  # the checkpoint follows some time
        else:
            yield _with(passed, source, there), following

    def _create(self, target: Target, source: int, run: Run) -> tuple[Target, Run]:
        """A shard joins with the structure of the others, or is early."""
        event = self.histories[source][run.at]
        executed = target.executed
        early = (event.made != executed or target.begun > executed) and self.without != "early"
        ready = executed + (early and self.without != "early is ready")
        members = _put(target.members, event.table, Member(executed, ready, early))
        return target._replace(members=members), run._replace(phase="to hold" if early else "created")

    def _hold(self, target: Target, source: int, run: Run) -> Iterator[tuple[Target, Run | None]]:
        table = self.histories[source][run.at].table
        stored = target.sources[source]
        there = self._at(stored, run, run.at + 1)
        if self.without == "hold with L" and there != stored:
            yield _with(target, source, there), run  # and then the rest
            return
        second = there.second
        if run.second and second is not None:
            left = tuple(each for each in second.tables if each[0] != table)
            there = there._replace(second=second._replace(tables=left))
        held = there._replace(held=tuple(sorted({*there.held, (table, run.at)})))
        yield _with(target, source, held), run._replace(at=run.at + 1, phase="")

    def _begin(self, target: Target, source: int, run: Run) -> tuple[Target, Run]:
        """Main is drained, and waits where it is."""
        stored = target.sources[source]
        left = tuple(each for each in stored.held if each not in run.going)
        second = Pass(min(place for _, place in run.going), run.going)
        done = stored.second_done if self.without == "emptied lane rows" else 0
        begun = stored._replace(at=run.at, held=left, second=second, second_done=done)
        following = Run(run.epoch, second=True, at=second.at, done=done)
        if self.without == "main waits for the pass":
            following = run._replace(phase="", going=())
        return _with(target, source, begun), following

    def _return(self, target: Target, source: int, run: Run) -> Iterator[tuple[Target, Run | None]]:
        stored = target.sources[source]
        assert stored.second is not None
        if self.without == "return with the end of the pass" and stored.second.tables:
            left = stored._replace(second=stored.second._replace(at=stored.at, tables=()))
            yield _with(target, source, left._replace(held=tuple(sorted({*left.held, *stored.second.tables})))), run
            return
        returned = stored._replace(second=None)
        yield _with(target, source, returned), Run(run.epoch, second=False, at=stored.at, done=stored.done)

    @staticmethod
    def _at(stored: Source, run: Run, place: int) -> Source:
        """With the checkpoint of this reading at a place."""
        if not run.second:
            return stored._replace(at=place)
        return stored if stored.second is None else stored._replace(second=stored.second._replace(at=place))


def _member(target: Target, table: int) -> Member:
    member = target.members[table]
    return Member() if member is None else member


def _with(target: Target, source: int, stored: Source) -> Target:
    return target._replace(sources=_put(target.sources, source, stored))


def _put(values: tuple[_T, ...], at: int, value: _T) -> tuple[_T, ...]:
    return (*values[:at], value, *values[at + 1 :])
