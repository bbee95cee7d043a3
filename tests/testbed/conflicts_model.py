"""A small model of `conflicts: source-wins` and its opposite, `target-wins`, explored exhaustively.

Applications write rows at two servers. One task brings the first server's writes to the second one, and its source
wins; the other brings them back, and its target wins. A scene says how often applications write at each side, on which
rows. `explore` walks all orders of their steps and returns the first violation:

- everything is brought, and the two servers have different rows;
- everything is brought, and the record of the losing task is not what a judge outside says: the judge knows of each
  write which others its writer's server had, and two writes of one row are a conflict where neither had the other.

The winning task sets its rows whatever it finds. The losing one locks its rows, reads the target's binlog up to its
end, and leaves out a write to a row that the binlog has a write to after the place up to which the source had the
target's writes when its write was made. Each safeguard can be taken away, and then there must be a violation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from tests.testbed.exploration import Wrong

Safeguard = Literal[
    "sets its rows", "reads to the end", "holds the lock", "place of the write", "place after a start",
    "leaves out own", "places, not values", "each row by itself", "record with the rows", "roles agree",
]  # fmt: skip
Rows = tuple[tuple[int, int], ...]  # key and value, sorted; a value says nothing of who wrote it, and may come again


@dataclass(frozen=True, slots=True)
class Write:
    """A transaction in a binlog: it takes a row away, or puts one, or does both (a row that moves)."""

    number: int  # of all that applications write; a task's has that of what it brings
    own: bool  # an application's; else a task's
    gone: int | None
    put: tuple[int, int] | None
    place: int = 0  # a task's: how far it has come in the other binlog
    had: frozenset[int] = frozenset()  # the judge's: the other side's writes that are at the server, or were left out

    @property
    def keys(self) -> tuple[int, ...]:
        """The rows that it is about."""
        return tuple(dict.fromkeys(key for key in (self.gone, self.put[0] if self.put else None) if key is not None))


@dataclass(frozen=True, slots=True)
class Attempt:
    """The losing task's open transaction."""

    lost: frozenset[int]  # rows that it leaves out
    read: int  # how far it had read the target's binlog


@dataclass(frozen=True, slots=True)
class State:
    """Both servers, and both tasks."""

    rows: tuple[Rows, Rows]
    logs: tuple[tuple[Write, ...], tuple[Write, ...]] = ((), ())
    left: tuple[int, int] = (0, 0)  # writes of applications to come, by side
    crashes: int = 0
    places: tuple[int, int] = (0, 0)  # how far the winning task is in the first log, the losing one in the second
    attempt: Attempt | None = None
    start: int | None = None  # a run of the losing task that takes what it finds stored for the place of each write
    record: tuple[tuple[int, int], ...] = ()  # write and row


Scene = tuple[Rows, tuple[int, int], tuple[int, int], int]  # rows, writes by side, moves by side, crashes

ONE_ROW: Final[Scene] = (((1, 0),), (2, 2), (0, 0), 0)
AGAIN: Final[Scene] = (((1, 0),), (1, 3), (0, 0), 0)
CRASH: Final[Scene] = (((1, 0),), (2, 1), (0, 0), 1)
MOVES: Final[Scene] = (((1, 0),), (1, 1), (1, 1), 0)
SAFEGUARDS: Final[Mapping[Safeguard, Scene]] = {
    "sets its rows": ONE_ROW,
    "reads to the end": ONE_ROW,
    "holds the lock": ONE_ROW,
    "place of the write": ONE_ROW,
    "place after a start": CRASH,
    "leaves out own": ONE_ROW,
    "places, not values": AGAIN,
    "each row by itself": MOVES,
    "record with the rows": CRASH,
    "roles agree": ONE_ROW,
}


@dataclass(frozen=True, slots=True)
class ConflictsModel:
    """All states of a scene."""

    scene: Scene
    without: Safeguard | None = None

    def first(self) -> State:
        """Both sides have the same rows."""
        rows, writes, _, crashes = self.scene
        return State((rows, rows), left=writes, crashes=crashes)

    def steps(self, state: State) -> Iterator[State]:
        """What may happen next."""
        for side in (0, 1):
            if state.left[side]:
                yield from self._application(state, side)
        yield from self._winning(state)
        yield from self._losing(state)
        if state.crashes:
            log, at = state.logs[1], state.places[1]
            stored = _place_of(log, len(log)) if self.without == "place after a start" else None
            crashed = replace(state, crashes=state.crashes - 1, attempt=None, start=stored)
            yield crashed
            if self.without == "record with the rows" and state.attempt is not None:
                found = tuple((log[at].number, key) for key in sorted(state.attempt.lost))
                yield replace(crashed, record=tuple(sorted((*state.record, *found))))

    def judge(self, state: State, stuck: bool) -> None:
        """Raise Wrong where all is brought and something is not as it must be."""
        if not stuck:
            return
        if state.rows[0] != state.rows[1]:
            raise Wrong("the two sides end with different rows")
        if state.record != _conflicts(state):
            raise Wrong(f"the record is not what met: {_conflicts(state)}")

    # -- Applications

    def _application(self, state: State, side: int) -> Iterator[State]:
        rows = dict(state.rows[side])
        attempt = state.attempt
        locked: tuple[int, ...] = ()
        if side == 0 and attempt is not None and self.without != "holds the lock":
            locked = tuple(key for key in state.logs[1][state.places[1]].keys if key not in attempt.lost)
        moves = self.scene[2][side]
        for gone, put in _choices(rows, moves=bool(moves)):
            write = Write(_number(state), True, gone, put, had=self._had(state, side))
            if not set(write.keys) & set(locked):
                left = (state.left[0] - (side == 0), state.left[1] - (side == 1))
                yield replace(_written(state, side, write), left=left)

    @staticmethod
    def _had(state: State, side: int) -> frozenset[int]:
        """The judge's: the other side's writes that were brought to a side, or were judged there and left out."""
        return frozenset(write.number for write in state.logs[1 - side][: state.places[1 - side]] if write.own)

    # -- The task whose source, the first server, wins

    def _winning(self, state: State) -> Iterator[State]:
        log, at = state.logs[0], state.places[0]
        if at == len(log):
            return
        write, moved = log[at], replace(state, places=(at + 1, state.places[1]))
        if not write.own:
            yield moved  # the opposite's: left out, and no transaction says so
            return
        brought = replace(write, own=False, place=at + 1)
        if self.without == "sets its rows" and not _fits(dict(state.rows[1]), write):
            brought = replace(brought, gone=None, put=None)
        yield _written(moved, 1, brought)

    # -- The task whose target, the first server, wins

    def _losing(self, state: State) -> Iterator[State]:
        log, at = state.logs[1], state.places[1]
        if at == len(log):
            return
        write, attempt = log[at], state.attempt
        if not write.own:
            yield replace(state, places=(state.places[0], at + 1))
            return
        if attempt is None:
            for end in self._ends(state):
                yield replace(state, attempt=Attempt(self._lost(state, write, end), end))
            return
        yield self._committed(state, write, attempt)

    def _ends(self, state: State) -> Iterator[int]:
        end = len(state.logs[0])
        yield end
        if self.without == "reads to the end":
            yield from range(state.places[0], end)

    def _lost(self, state: State, write: Write, end: int) -> frozenset[int]:
        at, log = state.places[1], state.logs[1]
        if self.without == "roles agree":
            return frozenset()
        if self.without == "places, not values":
            return frozenset(write.keys if not _fits(dict(state.rows[0]), write) else ())
        place = _place_of(log, len(log) if self.without == "place of the write" else at)
        if state.start is not None:
            place = state.start
        later = [each for each in state.logs[0][place:end] if each.own or self.without == "leaves out own"]
        lost = {key for key in write.keys if any(key in each.keys for each in later)}
        if lost and self.without == "each row by itself":
            lost = set(write.keys)
        return frozenset(lost)

    def _committed(self, state: State, write: Write, attempt: Attempt) -> State:
        at, lost = state.places[1], attempt.lost
        gone = None if write.gone in lost else write.gone
        put = None if write.put is None or write.put[0] in lost else write.put
        brought = replace(write, own=False, gone=gone, put=put, place=at + 1)
        record = tuple(sorted((*state.record, *((write.number, key) for key in lost))))
        moved = replace(state, places=(state.places[0], at + 1), attempt=None, record=record)
        return _written(moved, 0, brought) if gone is not None or put is not None else moved


def _choices(rows: Mapping[int, int], *, moves: bool) -> Iterator[tuple[int | None, tuple[int, int] | None]]:
    for key, value in rows.items():
        yield key, None
        yield None, (key, 1 - value)
        if moves:
            other = 3 - key
            if other not in rows:
                yield key, (other, value)
    for key in (1, 2) if moves else (1,):
        if key not in rows:
            yield None, (key, 0)


def _number(state: State) -> int:
    return sum(write.own for log in state.logs for write in log)


def _written(state: State, side: int, write: Write) -> State:
    rows = dict(state.rows[side])
    if write.gone is not None:
        rows.pop(write.gone, None)
    if write.put is not None:
        rows[write.put[0]] = write.put[1]
    both, logs = list(state.rows), list(state.logs)
    both[side], logs[side] = tuple(sorted(rows.items())), (*logs[side], write)
    return replace(state, rows=(both[0], both[1]), logs=(logs[0], logs[1]))


def _fits(rows: Mapping[int, int], write: Write) -> bool:
    """Whether the rows may be what its writer saw, as far as values say it: an UPDATE's value was the other one."""
    if write.gone is not None and write.gone not in rows:
        return False
    if write.put is None or write.gone is not None:
        return True
    key, value = write.put
    return rows.get(key, -1) == (1 - value) or (key not in rows and value == 0)


def _place_of(log: tuple[Write, ...], at: int) -> int:
    """Up to where the second server had the first one's writes, by its log before a place."""
    return next((write.place for write in reversed(log[:at]) if not write.own), 0)


def _conflicts(state: State) -> tuple[tuple[int, int], ...]:
    """The writes of the losing side, each with its rows that the other side wrote without having it, nor it that."""
    ours, theirs = ([write for write in log if write.own] for log in state.logs)
    found = {
        (write.number, key)
        for write in theirs
        for other in ours
        if other.number not in write.had and write.number not in other.had
        for key in set(write.keys) & set(other.keys)
    }
    return tuple(sorted(found))
