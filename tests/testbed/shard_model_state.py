"""What the model of shard merge (`shard_model.py`) consists of: the sources' histories, the target, the runs."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

A, B, C, UNRELATED = 0, 1, 2, 3
SHARDS: Final = (A, B, C)

# What each number does to the target's table; each piece leaves its letter in the structure.
PIECES: Final = ("pq", "r")


class Event(NamedTuple):
    """A row of a table, a DDL of it, or its CREATE TABLE."""

    table: int
    ddl: bool = False
    made: int = -1  # of a CREATE TABLE: how many DDLs are in its structure


History = tuple[Event, ...]


def history(text: str) -> History:
    """Events from words: `a` is a row of shard a, `A` a DDL of it; `u` is a row of an unrelated table.

    `b:1` creates b with the structure after one DDL; without such a word a table is there from the start.
    """
    found = []
    for word in text.split():
        name, _, made = word.partition(":")
        found.append(Event("abcu".index(name.lower()), name.isupper(), int(made) if made else -1))
    return tuple(found)


def may_meet_alters(histories: tuple[History, ...], table: int) -> int:
    """How many DDLs are in a table's first structure; -1 for one that is there from the start."""
    return max((event.made for events in histories for event in events if event.table == table), default=-1)


class Member(NamedTuple):
    """A shard: the DDLs that come before its rows, and the one that it has arrived at."""

    passed: int = 0
    ready: int = 0
    early: bool = False  # others have to execute what is in its structure


class Pass(NamedTuple):
    """A second pass: how far it is, and the tables it reads, each from a place of its own."""

    at: int
    tables: tuple[tuple[int, int], ...]


class Source(NamedTuple):
    """What is stored of one source. Places are numbers of events; a checkpoint of 2 has the first two after it."""

    epoch: int = 0
    joined: bool = False
    at: int = 0  # L of main
    done: int = 0  # the last event that main's lanes committed
    held: tuple[tuple[int, int], ...] = ()  # tables and the places where their rows begin
    second: Pass | None = None
    second_done: int = 0  # the last event that the second pass's lanes committed
    rows: int = 0  # which events' rows are at the target, as bits


class Intent(NamedTuple):
    """A piece that may be under way; its DDL's number and its own."""

    number: int
    piece: int


class Target(NamedTuple):
    """What the target has committed."""

    structure: str
    executed: int  # DDLs
    begun: int  # the last one that is being executed, or was
    intent: Intent | None
    members: tuple[Member | None, ...]  # None: not created yet
    sources: tuple[Source, ...]
    late: tuple[int, str] | None = None  # the source and the piece of a session whose process is gone


Phase = Literal[
    "", "passed", "arrived", "to create", "created", "to hold", "turn", "announced", "to begin", "to return"
]


class Run(NamedTuple):
    """The memory of one process that follows a source."""

    epoch: int
    second: bool  # it is in a second pass
    at: int
    done: int  # what earlier runs had committed
    phase: Phase = ""
    piece: int = -1  # in the turn: which one is next; -1 before the look at what was announced
    going: tuple[tuple[int, int], ...] = ()  # with `to begin`: the tables that a second pass is to read


class State(NamedTuple):
    """Everything at one instant."""

    target: Target
    runs: tuple[Run | None, ...]
    frozen: tuple[int, Run] | None  # an older process that may go on with its next step at any time
    crashes: int
