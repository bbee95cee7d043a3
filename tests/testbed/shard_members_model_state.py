"""What the model of a group's members (`shard_members_model.py`) consists of: histories, the target, the runs."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeVar

from dm.progress.shards.group import ANEW, EARLY

_T = TypeVar("_T")
NUMBERED: Final = "pqr"  # effects of statements that all shards have to come to
WIDENING: Final = "w"  # of one that the target has with the first shard
TABLES: Final = "abc"  # the third one is the second source's


class Event(NamedTuple):
    """What happens to a table in its source's binlog."""

    table: int
    does: Literal["row", "ddl", "steps", "widen", "create", "rename", "drop"]
    what: str = ""


History = tuple[Event, ...]

_SIGNS: Final[dict[str, Literal["ddl", "steps", "widen", "create", "rename", "drop"]]] = {
    "=": "ddl",
    "~": "steps",
    "+": "widen",
    ":": "create",
    ">": "rename",
    "/": "drop",
}


def history(text: str) -> History:
    """Events from words.

    `a` is a row of shard a; `a=p` a statement that all have to come to, and whose effect is p; `a~p` the same effect in
    steps for which nobody waits: then the target may have it or not. `a+w` widens the target. `b:pw` creates b with
    these effects, `b:P` with p as the steps leave it. `a>` gives a another name, `a/` drops it.
    """
    return tuple(
        Event(TABLES.index(word[0]), _SIGNS[word[1]] if len(word) > 1 else "row", word[2:]) for word in text.split()
    )


class Member(NamedTuple):
    """A shard as stored."""

    passed: int = 0
    ready: int = 0
    has: str = ""  # the effects in its structure; those that came by steps as capital letters
    after: str | None = None  # after the statement that it has come to
    early: int = 0  # why it waits at its CREATE TABLE, as in `dm.progress.shards.group`
    waived: int = 0
    excused: str = ""  # effects that a person has waived it at, and that it has instead of those


Key = tuple[int, int]  # a table, and how often it got another name
Members = tuple[tuple[Key, Member], ...]


class Ddl(NamedTuple):
    """A numbered statement."""

    effect: str
    skipped: bool = False


class Pass(NamedTuple):
    """A second pass: how far it is, and the tables it reads, each from a place of its own."""

    at: int
    tables: tuple[tuple[int, int], ...]


class Source(NamedTuple):
    """What is stored of one source. Places are numbers of events; a checkpoint of 2 has the first two after it."""

    at: int = 0  # L of main
    held: tuple[tuple[int, int], ...] = ()  # tables and the places where their rows begin
    second: Pass | None = None


class Target(NamedTuple):
    """What the target has committed."""

    has: str  # effects
    executed: int
    begun: int  # the last statement that is being executed, or was
    ddls: tuple[Ddl, ...]
    members: Members
    sources: tuple[Source, ...]


Phase = Literal[
    "", "to decide", "admitted", "alone", "widened", "to arrive", "arrived", "asked", "begun", "altered", "to pass",
    "to hold", "to change", "after",
]  # fmt: skip
IN_TURN: Final[tuple[Phase, ...]] = ("admitted", "alone", "widened", "asked", "begun", "altered")


class Run(NamedTuple):
    """The memory of one process that follows a source."""

    second: bool
    at: int
    phase: Phase = ""


Decisions = tuple[bool | str, ...]  # whether the open statement is skipped as well, or which shard is given up


class State(NamedTuple):
    """Everything at one instant."""

    target: Target
    runs: tuple[Run | None, ...]
    crashes: int
    decisions: Decisions  # of a person, yet to come


def with_member(members: Members, key: Key, member: Member | None) -> Members:
    """With another member in one's place, or none."""
    others = tuple(each for each in members if each[0] != key)
    return others if member is None else tuple(sorted((*others, (key, member))))


def strict(has: str) -> str:
    """The numbered effects that the target must have for these rows."""
    return "".join(effect for effect in NUMBERED if effect in has)


def takes(target: str, has: str) -> bool:
    """Whether a target with some effects takes rows with others: what came by steps it may have or not."""
    return all((effect in target) == (effect in has) for effect in NUMBERED if effect.upper() not in has) and (
        WIDENING not in has or WIDENING in target
    )


def undergone(before: str, after: str | None, other: str) -> bool:
    """Whether a shard is already as a statement leaves another one."""
    return all(effect in other.lower() for effect in set(after or "") - set(before))


def altered(target: Target, effect: str) -> Target:
    """The target after a statement."""
    assert effect in NUMBERED
    return target if effect in target.has else target._replace(has="".join(sorted(target.has + effect)))


def member_of(target: Target, key: Key) -> Member:
    """A shard, or one that is just coming."""
    return dict(target.members).get(key) or Member(target.executed, target.executed)


def with_known(target: Target, key: Key, member: Member) -> Target:
    """With a shard as it is now."""
    return target._replace(members=with_member(target.members, key, member))


def with_source(target: Target, source: int, stored: Source) -> Target:
    """With what is stored of a source."""
    return target._replace(sources=replaced(target.sources, source, stored))


def replaced(values: tuple[_T, ...], at: int, value: _T) -> tuple[_T, ...]:
    """With another value at a place."""
    return (*values[:at], value, *values[at + 1 :])


def unattended_gone(target: Target, *, again: bool, anew: bool) -> Target:
    """Statements that nobody is at go, what waited for them comes `again`, and nobody is waived at those that come."""
    last = max(target.executed, target.begun, *(member.ready for _, member in target.members if not member.early))
    if len(target.ddls) <= last:
        return target
    target = target._replace(ddls=target.ddls[:last])
    for key, member in target.members if last == target.executed else ():
        waits = member.early == EARLY and member.ready > last
        left: Member | None = member
        if waits and member.waived < member.ready:
            left = None
        elif waits and again:
            left = member._replace(ready=member.passed, early=ANEW)
        if left is not None and anew:
            left = left._replace(waived=min(left.waived, last))
        target = target._replace(members=with_member(target.members, key, left))
    return target
