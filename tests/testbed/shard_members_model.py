"""A small model of who belongs to a group of shards, explored exhaustively.

`shard_model` has the numbers, the second passes and the execution of a statement step by step, `optimistic_model` what
passes without a number. Here shards come and go while statements are open and rows are held: tables are created (S6 and
S7 of `dm.progress.shards.numbered_ddls`), are beyond a statement (O7 of `dm.progress.shards.optimistic_structures`),
get other names, and are dropped. A person goes on without some, at any time, says that nobody executes a statement, or
gives a shard up (S8) of which nothing more comes and whose statement is not begun.

The first source has shards a and b, the second one c. All sources have joined, the epochs and the session of a
statement are left out, and what is executed twice is found done: the other models are about these. A process may crash
at any step. The turn of the target's table is one run's. L is stored at each statement, and not between.

- a row meets a target that lacks an effect that it has, or has one that it lacks, unless that one came by steps, a
  person has waived the shard there, or skipped the statement;
- two shards have another statement at the same number; while a person may still give one up, the second one pauses;
- a statement is executed that a person has skipped;
- nothing can be done any more, and a source is not at its end or something is held.

Each safeguard can be taken away, and then there must be a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from dm.progress.shards.group import ANEW, EARLY, WITH_THE_HELD
from tests.testbed.exploration import Violation, Wrong, explore
from tests.testbed.shard_members_model_state import (
    IN_TURN,
    TABLES,
    Ddl,
    Decisions,
    Event,
    History,
    Key,
    Member,
    Pass,
    Phase,
    Run,
    Source,
    State,
    Target,
    altered,
    history,
    member_of,
    replaced,
    takes,
    unattended_gone,
    undergone,
    with_known,
    with_member,
    with_source,
)

Safeguard = Literal[
    "waits with the held", "early", "one that waited joins anew", "nobody waits for one beyond",
    "one beyond is counted", "one beyond steps over", "one beyond makes room", "waived up to a number",
    "begun before skipped is asked", "L before it leaves", "leaves with L", "renamed with L",
    "a name waits for the held", "a statement goes with the last at it", "one that was waived comes again",
    "nobody is waived at another statement", "one that is no shard is read again",
]  # fmt: skip


@dataclass(frozen=True)
class Scene:
    """The histories of both sources, and what a person decides."""

    first: str
    second: str
    decisions: Decisions = ()


WITH_HELD: Final = Scene("a=p a+w b:pw b b=q a=q", "c=p c c=q")
BEYOND: Final = Scene("b~p b a=p a b=q b a=q", "c c=p c=q")
FIRST: Final = Scene("b:PQ b b=r b a=p a a=q a=r", "c=p c c=q c=r")
GIVEN_UP: Final = Scene("a=p b b=q b", "c c=q c", ("a",))
WAIVED: Final = Scene("a=p b b=q b", "c c=q c", (False, "a"))

# What shows the lack of each.
SAFEGUARDS: Final[tuple[tuple[Safeguard, Scene], ...]] = (
    ("waits with the held", WITH_HELD),
    ("early", Scene("b:p b a=p a", "c=p c")),
    ("one that waited joins anew", WITH_HELD),
    ("nobody waits for one beyond", Scene("b~p b a=p a", "c c=p")),
    ("one beyond is counted", BEYOND),
    ("one beyond steps over", BEYOND),
    ("one beyond makes room", FIRST),
    ("waived up to a number", Scene("a=p a a=q a", "c c=p c c=q", (False,))),
    ("begun before skipped is asked", Scene("a=p a", "c=p c", (True,))),
    ("L before it leaves", Scene("a=p b b/ a", "c=p c")),
    ("leaves with L", Scene("a=p b b/ a", "c=p c")),
    ("renamed with L", Scene("b> b=p b a=p", "c=p c")),
    ("a name waits for the held", Scene("a=p b=p a a> a", "c=p c")),
    ("a statement goes with the last at it", GIVEN_UP),
    ("one that was waived comes again", WAIVED),
    ("nobody is waived at another statement", WAIVED),
    ("one that is no shard is read again", Scene("a=p b:p b", "c c=p c", ("a",))),
)

Steps = Iterator[tuple[Target, Run | None]]


@dataclass(frozen=True, slots=True)
class MembersModel:
    """The protocol, perhaps with a safeguard taken away."""

    histories: tuple[History, History]
    decisions: Decisions = ()
    crashes: int = 1
    without: Safeguard | None = None

    @classmethod
    def of(cls, scene: Scene, *, crashes: int = 1, without: Safeguard | None = None) -> MembersModel:
        """The model of a scene."""
        return cls((history(scene.first), history(scene.second)), scene.decisions, crashes, without)

    def explore(self, limit: int = 1_000_000) -> tuple[int, Violation[State] | None]:
        """Walk all reachable states; gives their number and the first violation."""
        events = [event for each in self.histories for event in each]
        created = {event.table for event in events if event.does == "create"}
        there = sorted({event.table for event in events} - created)
        members = tuple(((table, 0), Member()) for table in there)
        target = Target("", 0, 0, (), members, (Source(), Source()))
        return explore(State(target, (None, None), self.crashes, self.decisions), self._steps, self._judge, limit)

    def _judge(self, state: State, stuck: bool) -> None:
        if not stuck:
            return
        for source, run, events in zip(state.target.sources, state.runs, self.histories, strict=True):
            if run is None or run.at < len(events) or source.held or source.second is not None:
                raise Wrong("nothing goes on, and something is missing")

    # -- What may happen

    def _steps(self, state: State) -> Iterator[State]:
        target = state.target
        for source, run in enumerate(state.runs):
            if run is None:
                second = target.sources[source].second
                begun = Run(second is not None, target.sources[source].at if second is None else second.at)
                yield state._replace(runs=replaced(state.runs, source, begun))
                continue
            for after, following in self._run_steps(state, source, run):
                yield state._replace(target=after, runs=replaced(state.runs, source, following))
            if state.crashes:
                yield state._replace(runs=replaced(state.runs, source, None), crashes=state.crashes - 1)
        for at, decision in enumerate(state.decisions):
            left = state._replace(decisions=(*state.decisions[:at], *state.decisions[at + 1 :]))
            if isinstance(decision, str):
                yield from self._given_up(left, TABLES.index(decision))
                continue
            decided = self._unlocked(target, skip=decision)
            if decided is not None:
                yield left._replace(target=decided)

    def _unlocked(self, target: Target, *, skip: bool) -> Target | None:
        """A person goes on without who is missing; None where nothing is open, or it is too late to skip."""
        number = target.executed + 1
        if len(target.ddls) < number or (skip and target.begun >= number):
            return None
        members = target.members
        for key, member in self._missing(target, number):
            excused = member.excused + target.ddls[number - 1].effect
            members = with_member(members, key, member._replace(waived=number, excused=excused))
        if skip:
            at = number - 1
            target = target._replace(ddls=replaced(target.ddls, at, target.ddls[at]._replace(skipped=True)))
        return target._replace(members=members)

    def _given_up(self, state: State, table: int) -> Iterator[State]:
        """A shard of the first source is no more, nor are its rows that wait; the source's run is ended."""
        target, stored = state.target, state.target.sources[0]
        last = max(place for place, event in enumerate(self.histories[0], 1) if event.table == table)
        if stored.at < last or target.begun > target.executed:
            return
        second = stored.second
        if second is not None:
            second = second._replace(tables=tuple(each for each in second.tables if each[0] != table))
        held = tuple(each for each in stored.held if each[0] != table)
        target = with_source(target, 0, Source(stored.at, held, second))
        target = target._replace(members=with_member(target.members, self._key(0, table, last), None))
        yield state._replace(target=self._left(target), runs=replaced(state.runs, 0, None))

    def _left(self, target: Target) -> Target:
        if self.without == "a statement goes with the last at it":
            return target
        again = self.without != "one that was waived comes again"
        return unattended_gone(target, again=again, anew=self.without != "nobody is waived at another statement")

    def _run_steps(self, state: State, source: int, run: Run) -> Steps:
        target, events = state.target, self.histories[source]
        if run.phase:
            yield from self._further(state, source, run)
            return
        stored = target.sources[source]
        if run.second:
            assert stored.second is not None
            if run.at == stored.at or not stored.second.tables:
                yield with_source(target, source, stored._replace(second=None)), Run(second=False, at=stored.at)
                return
        else:
            yield from self._passes(target, source, run)
            if run.at == len(events):
                return
        event = events[run.at]
        if not self._owns(stored, run, event, source):
            if event.does != "rename" or self.without == "a name waits for the held":
                yield target, run._replace(at=run.at + 1)
        elif event.does == "row":
            self._demand_taken(target, self._key(source, event.table, run.at), self._has(source, event.table, run.at))
            yield target, run._replace(at=run.at + 1)
        else:
            phase: Phase = "to change" if event.does in ("rename", "drop") else "to decide"
            early = event.does == "drop" and self.without == "L before it leaves"
            yield target if early else self._at(target, source, run, run.at), run._replace(phase=phase)

    def _passes(self, target: Target, source: int, run: Run) -> Steps:
        """Main waits for a second pass with the held tables that may go on, if there are any."""
        stored = target.sources[source]
        going = tuple(each for each in stored.held if self._is_read_again(target, self._key(source, *each)))
        if going:
            left = tuple(each for each in stored.held if each not in going)
            second = Pass(min(place for _, place in going), going)
            yield with_source(target, source, Source(run.at, left, second)), Run(second=True, at=second.at)

    # -- Whose a table is, and what it is like at a place

    def _key(self, source: int, table: int, place: int) -> Key:
        return table, sum(event == Event(table, "rename") for event in self.histories[source][:place])

    def _owns(self, stored: Source, run: Run, event: Event, source: int) -> bool:
        """Whether a table's events are this reading's; a table is known by its name."""
        if run.second:
            assert stored.second is not None
            place = dict(stored.second.tables).get(event.table)
            if place is None or place > run.at:
                return False
        else:
            place = dict(stored.held).get(event.table)
            if place is None:
                return True
        same = self._key(source, event.table, run.at) == self._key(source, event.table, place)
        return same is run.second

    def _has(self, source: int, table: int, place: int) -> str:
        found = ""
        for event in self.histories[source][:place]:
            if event.table == table and event.does != "row":
                found += event.what.upper() if event.does == "steps" else event.what
        return found

    def _demand_taken(self, target: Target, key: Key, has: str) -> None:
        excused = {each.effect for each in target.ddls if each.skipped} | set(member_of(target, key).excused)
        kept = "".join(effect for effect in target.has if effect not in excused)
        if not takes(kept, "".join(effect for effect in has if effect not in excused)):
            raise Wrong(f"a row of {key} with {has!r} meets a target with {target.has!r}")

    # -- The group

    def _beyond(self, target: Target) -> set[Key]:
        """Who is already as the open statement leaves those that have come to it."""
        there = [
            member
            for _, member in target.members
            if member.passed == target.executed < member.ready and not member.early and member.after is not None
        ]
        if not there or self.without == "nobody waits for one beyond":
            return set()
        others = [(key, member) for key, member in target.members if member.passed == target.executed >= member.ready]
        return {key for key, member in others if all(undergone(each.has, each.after, member.has) for each in there)}

    def _missing(self, target: Target, number: int) -> list[tuple[Key, Member]]:
        beyond = self._beyond(target) if number == target.executed + 1 else set[Key]()
        return [
            (key, member)
            for key, member in target.members
            if max(member.ready, self._waived(member, number)) < number and key not in beyond
        ]

    def _waived(self, member: Member, number: int) -> int:
        return number if member.waived and self.without == "waived up to a number" else member.waived

    def _is_read_again(self, target: Target, key: Key) -> bool:
        """Whether a table that is held may go on, or waits for nothing any more."""
        member = dict(target.members).get(key)
        if member is None:
            return self.without != "one that is no shard is read again"
        return member.early == ANEW or self._may_go_on(target, key)

    def _may_go_on(self, target: Target, key: Key) -> bool:
        """Whether a shard that has come to a statement is after it, or may execute it."""
        member = member_of(target, key)
        number = member.passed + 1
        if target.executed >= number:
            return True
        return member.early not in (EARLY, ANEW) and (target.begun == number or not self._missing(target, number))

    @staticmethod
    def _turn_is_free(state: State, source: int) -> bool:
        others = (run for number, run in enumerate(state.runs) if number != source)
        return not any(run is not None and run.phase in IN_TURN for run in others)

    # -- An event, step by step

    def _further(self, state: State, source: int, run: Run) -> Steps:
        target, event = state.target, self.histories[source][run.at]
        key = self._key(source, event.table, run.at)
        has = self._has(source, event.table, run.at + 1)
        number = member_of(target, key).passed + 1
        if run.phase == "to decide":
            if not run.second:  # where the new table can't be taken, the run has paused, and is resumed
                yield from self._passes(target, source, run)
            if self._turn_is_free(state, source):
                yield from self._decided(target, source, run, key, has)
        elif run.phase == "admitted":
            yield self._after(self._entered(target, key, has), source, run)
        elif run.phase in ("alone", "widened"):
            if run.phase == "alone":
                target = altered(target, event.what)
            yield self._after(with_known(target, key, member_of(target, key)._replace(has=has)), source, run)
        elif run.phase == "to arrive":
            paused = any(isinstance(each, str) for each in state.decisions)
            arrived = self._arrived(target, key, event.what, has, paused=paused)
            if arrived is not None:
                yield arrived, run._replace(phase="arrived")
            elif source == 0 and TABLES[event.table] in state.decisions:  # a person leaves its statement out
                member = member_of(target, key)
                member = member._replace(has=has, excused=member.excused + event.what)
                yield self._after(with_known(target, key, member), source, run)
        elif run.phase == "arrived":
            if target.executed >= number:
                yield target, run._replace(phase="to pass")
            elif not self._may_go_on(target, key):
                yield target, run._replace(phase="to hold")
            elif self._turn_is_free(state, source):
                yield self._begun(target, run, number)
        elif run.phase in ("asked", "begun", "altered"):
            yield self._executed(target, run, number)
        elif run.phase == "to pass":
            member = member_of(target, key)
            excused = member.excused + ("" if target.ddls[number - 1].effect == event.what else event.what)
            passed = Member(number, max(member.ready, number), has, waived=member.waived, excused=excused)
            yield self._after(with_known(target, key, passed), source, run)
        elif run.phase == "to hold":
            yield self._held(target, source, run, event.table)
        else:
            yield from self._changed(target, source, run, event, key)

    def _decided(self, target: Target, source: int, run: Run, key: Key, has: str) -> Steps:
        """In the turn, under the latch: what becomes of a statement that changes a structure."""
        event = self.histories[source][run.at]
        if event.does == "create":
            yield from self._created(target, source, run, key, has)
        elif event.does == "widen":
            wider = target.has if event.what in target.has else target.has + event.what
            yield target._replace(has=wider), run._replace(phase="widened")
        elif event.does == "steps":
            yield target, run._replace(phase="widened")
        else:
            before, member = self._has(source, event.table, run.at), member_of(target, key)
            number = member.passed + 1
            comes = len(target.ddls) >= number and target.ddls[number - 1].effect == event.what
            others = [self._effective(target, each) for other, each in target.members if other != key]
            alone = bool(others) and all(undergone(before, has, other) for other in others)
            gated = member.ready > member.passed or comes or not alone
            yield target, run._replace(phase="to arrive" if gated else "alone")

    @staticmethod
    def _effective(target: Target, member: Member) -> str:
        behind = member.passed < min(target.executed, member.ready) and member.after is not None
        return member.after if behind and member.after is not None else member.has

    def _created(self, target: Target, source: int, run: Run, key: Key, has: str) -> Steps:
        """A new shard: the target takes it, or it waits at its CREATE TABLE."""
        executed = target.executed
        if target.begun <= executed and takes(target.has, has):
            yield target, run._replace(phase="admitted")
            return
        opened = len(target.ddls) > executed
        models = sorted(
            (member_of(target, self._key(source, *each)) for each in target.sources[source].held if each[0] != key[0]),
            key=lambda each: each.passed,
        )
        behind = bool(models) and models[0].passed < executed
        if models and (behind or not opened) and not (opened and self.without == "waits with the held"):
            waits = Member(models[0].passed, models[0].ready, has, has, WITH_THE_HELD)
        elif opened and self.without != "early":
            waits = Member(executed, executed + 1, has, has, EARLY)
        else:
            return  # a pause; whoever resumes it has it tried again
        yield with_known(target, key, waits), run._replace(phase="to hold")

    def _entered(self, target: Target, key: Key, has: str) -> Target:
        found = dict(target.members).get(key)
        if found is None or (found.early and self.without != "one that waited joins anew"):
            found = Member(target.executed, target.executed)
        return with_known(target, key, found._replace(has=has, after=None, early=0))

    def _arrived(self, target: Target, key: Key, effect: str, has: str, *, paused: bool) -> Target | None:
        """The shard is at its next numbered statement; None where it pauses at a conflict."""
        executed, ddls = target.executed, target.ddls
        member = dict(target.members).get(key) or Member(executed, executed)
        opened = ddls[executed].effect if len(ddls) > executed else effect
        steps_over = key in self._beyond(target) and member.passed == executed and opened != effect
        if steps_over and self.without != "one beyond steps over":
            member = member._replace(passed=executed + 1, ready=max(member.ready, executed + 1))
        number = member.passed + 1
        if self._is_put_before(target, key, member, effect, has):
            ddls = (*ddls[: number - 1], Ddl(effect), *ddls[number - 1 :])
            for each, other in self._there(target, key, number):
                moved = other._replace(passed=other.passed + 1, ready=other.ready + 1)
                target = with_known(target, each, moved)
        elif len(ddls) < number:
            ddls = (*ddls, Ddl(effect))
        elif ddls[number - 1].effect != effect and member.waived >= number:
            return with_known(target, key, member._replace(ready=number, after=has, early=EARLY))
        elif ddls[number - 1].effect != effect:
            if paused:
                return None
            raise Wrong(f"number {number} is {ddls[number - 1].effect}, and {key} comes with {effect}")
        return with_known(target._replace(ddls=ddls), key, member._replace(ready=number, after=has, early=0))

    @staticmethod
    def _there(target: Target, key: Key, number: int) -> list[tuple[Key, Member]]:
        """The others that have come to a number with a statement of their own."""
        return [
            (each, member)
            for each, member in target.members
            if each != key and member.ready >= number and not member.early
        ]

    def _is_put_before(self, target: Target, key: Key, member: Member, effect: str, has: str) -> bool:
        """Whether a statement gets a number that others, which are all beyond it, have come to with another one."""
        number = member.passed + 1
        opened, there = target.ddls[number - 1 :], self._there(target, key, number)
        decided = any(ddl.skipped for ddl in opened) or any(each.waived >= number for _, each in target.members)
        return (
            self.without != "one beyond makes room"
            and max(target.begun, member.ready) < number
            and bool(opened and there)
            and opened[0].effect != effect
            and not decided
            and all(undergone(member.has, has, each.has) for _, each in there)
        )

    def _begun(self, target: Target, run: Run, number: int) -> tuple[Target, Run]:
        """In the turn; `_may_go_on` has asked under the latch whether all are there."""
        if self.without == "begun before skipped is asked" and target.begun < number:
            return target, run._replace(phase="to pass" if target.ddls[number - 1].skipped else "asked")
        return target._replace(begun=number), run._replace(phase="begun")

    def _executed(self, target: Target, run: Run, number: int) -> tuple[Target, Run]:
        ddl = target.ddls[number - 1]
        if run.phase != "altered" and not (ddl.skipped and run.phase == "begun"):
            if ddl.skipped:
                raise Wrong(f"{ddl.effect} is executed, and a person has skipped it")
            return altered(target, ddl.effect)._replace(begun=number), run._replace(phase="altered")
        for key in self._beyond(target) if self.without != "one beyond is counted" else ():
            member = member_of(target, key)
            target = with_known(target, key, member._replace(passed=number, ready=max(number, member.ready)))
        return target._replace(executed=number), run._replace(phase="to pass")

    def _held(self, target: Target, source: int, run: Run, table: int) -> tuple[Target, Run]:
        stored = target.sources[source]
        held = tuple(sorted({*stored.held, (table, run.at)}))
        if run.second and stored.second is not None:
            left = tuple(each for each in stored.second.tables if each[0] != table)
            stored = stored._replace(second=stored.second._replace(tables=left))
        target = with_source(target, source, stored._replace(held=held))
        return self._at(target, source, run, run.at + 1), run._replace(at=run.at + 1, phase="")

    def _changed(self, target: Target, source: int, run: Run, event: Event, key: Key) -> Steps:
        """A shard leaves, or gets another name."""
        members, found = with_member(target.members, key, None), dict(target.members).get(key)
        if event.does == "rename" and found is not None:
            members = with_member(members, (key[0], key[1] + 1), found)
        changed = target._replace(members=members)
        if event.does == "drop":
            changed = self._left(changed)
        if run.phase == "to change" and self.without == ("leaves with L" if event.does == "drop" else "renamed with L"):
            yield self._at(target, source, run, run.at + 1), run._replace(phase="after")
        elif run.phase == "after" or self.without == "L before it leaves":
            yield changed, run._replace(at=run.at + 1, phase="")
        else:
            yield self._after(changed, source, run)

    # -- What is stored of a source

    def _after(self, target: Target, source: int, run: Run) -> tuple[Target, Run]:
        return self._at(target, source, run, run.at + 1), run._replace(at=run.at + 1, phase="")

    @staticmethod
    def _at(target: Target, source: int, run: Run, place: int) -> Target:
        """With the checkpoint of this reading at a place."""
        stored = target.sources[source]
        if run.second and stored.second is not None:
            return with_source(target, source, stored._replace(second=stored.second._replace(at=place)))
        return with_source(target, source, stored._replace(at=place))
