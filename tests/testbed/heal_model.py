"""A small model of a heal (`dm.progress.healed`), explored exhaustively.

Two rows, A and B, are in two chunks; a unique key may be 1 or 2. The target begins with anything. The source changes
one row after the other. For each chunk the heal asks the target for its sum, then the source; if they differ, it reads
and writes. Steps of both chunks and the source's changes come in any order. A heal may die at any step, and its last
write may still be on its way to the target. `KeylessModel` has equal rows without a key in their place.

When a heal ends, the syncer repeats what the source has written since P0: in safe mode up to P1, strictly after it.
Each safeguard can be taken away, and then there must be a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from tests.testbed.exploration import Violation, Wrong, explore

Safeguard = Literal["P0 comes first", "P1 bounds", "rows are replaced", "a new P0 compares all", "the lane is fenced"]
OfKeyless = Literal["the snapshot is at X", "X is the table's point"]
SAFEGUARDS: Final[tuple[Safeguard, ...]] = (
    "P0 comes first",
    "P1 bounds",
    "rows are replaced",
    "a new P0 compares all",
    "the lane is fenced",
)
OF_KEYLESS: Final[tuple[OfKeyless, ...]] = ("the snapshot is at X", "X is the table's point")

Rows = tuple[int, int]  # the unique values of A and B; 0 is an absent row
VALUES: Final = (0, 1, 2)
ALL: Final[tuple[Rows, ...]] = tuple((a, b) for a in VALUES for b in VALUES if a != b or not a)


@dataclass(frozen=True, slots=True)
class Chunk:
    """How far the comparison of one row is."""

    step: Literal["ask", "asked", "differs", "read", "done"] = "ask"
    value: int = 0  # that the last step has read


@dataclass(frozen=True, slots=True)
class State:
    """The servers, and the heal under way."""

    source: Rows
    target: Rows
    log: tuple[tuple[int, int], ...] = ()  # row, and its value afterwards
    p0: int | None = None
    chunks: tuple[Chunk, Chunk] = (Chunk(), Chunk())
    late: tuple[int, int] | None = None  # a write of a dead heal
    deaths: int = 1
    ended: bool = False


@dataclass(frozen=True, slots=True)
class HealModel:
    """The protocol for keyed rows, perhaps with a safeguard taken away."""

    without: Safeguard | None = None
    changes: int = 2

    def explore(self, source: Rows, target: Rows, limit: int = 2_000_000) -> tuple[int, Violation[State] | None]:
        """Walk all states that are reached from these rows."""
        return explore(State(source, target), self._steps, lambda _, __: None, limit)

    def _has(self, safeguard: Safeguard) -> bool:
        return self.without != safeguard

    def _steps(self, state: State) -> Iterator[State]:
        if state.ended:
            return
        if len(state.log) < self.changes:
            yield from _written(state)
        if state.late is not None:
            yield replace(state, target=self._put(state.target, *state.late), late=None)
        if state.p0 is None:
            yield replace(state, p0=len(state.log))
            return
        for row, chunk in enumerate(state.chunks):
            yield from self._compare(state, row, chunk)
        if all(chunk.step == "done" for chunk in state.chunks):
            yield self._end(state)
        if state.deaths:
            yield from self._dies(state)

    def _compare(self, state: State, row: int, chunk: Chunk) -> Iterator[State]:
        source, target = state.source[row], state.target[row]
        match chunk.step:
            case "ask":
                yield _with(state, row, Chunk("asked", target))
            case "asked":
                yield _with(state, row, Chunk("done" if source == chunk.value else "differs"))
            case "differs":
                yield _with(state, row, Chunk("read", source))
            case "read":
                yield replace(_with(state, row, Chunk("done")), target=self._put(state.target, row, chunk.value))
            case "done":
                return

    def _put(self, target: Rows, row: int, value: int) -> Rows:
        """REPLACE or DELETE."""
        rows = list(target)
        other = 1 - row
        if value and rows[other] == value:
            if not self._has("rows are replaced"):
                raise Wrong("another row has the value")
            rows[other] = 0
        rows[row] = value
        return rows[0], rows[1]

    def _dies(self, state: State) -> Iterator[State]:
        for row, chunk in enumerate(state.chunks):
            late = (row, chunk.value) if chunk.step == "read" else None
            if late is not None and not self._has("the lane is fenced"):
                yield replace(state, p0=None, chunks=(Chunk(), Chunk()), deaths=0, late=late)
        kept = (
            (Chunk(), Chunk())
            if self._has("a new P0 compares all")
            else tuple(chunk if chunk.step == "done" else Chunk() for chunk in state.chunks)
        )
        yield replace(state, p0=None, chunks=(kept[0], kept[1]), deaths=0)

    def _end(self, state: State) -> State:
        assert state.p0 is not None
        end = len(state.log)
        begin = state.p0 if self._has("P0 comes first") else end
        target = state.target
        for row, value in state.log[begin:]:
            if not self._has("P1 bounds") and (value == target[row] or (value and value == target[1 - row])):
                raise Wrong("a change does not fit")
            # In safe mode an UPDATE is a DELETE and a REPLACE.
            target = (0, target[1]) if row == 0 else (target[0], 0)
            target = replace_in(target, row, value)
        if target != state.source:
            raise Wrong("rows differ")
        return replace(state, target=target, ended=True)


def replace_in(target: Rows, row: int, value: int) -> Rows:
    """Safe mode's REPLACE; 0 writes nothing."""
    rows = [0 if value and each == value else each for each in target]
    rows[row] = value
    return rows[0], rows[1]


def _written(state: State) -> Iterator[State]:
    for row in (0, 1):
        for value in VALUES:
            if value == state.source[row] or (value and value == state.source[1 - row]):
                continue
            rows = (value, state.source[1]) if row == 0 else (state.source[0], value)
            yield replace(state, source=rows, log=(*state.log, (row, value)))


def _with(state: State, row: int, chunk: Chunk) -> State:
    chunks = (chunk, state.chunks[1]) if row == 0 else (state.chunks[0], chunk)
    return replace(state, chunks=chunks)


@dataclass(frozen=True, slots=True)
class Counted:
    """A table without a key: how many equal rows it has."""

    source: int
    target: int
    log: tuple[int, ...] = ()  # rows that came or went
    p0: int | None = None
    read: int | None = None  # in the snapshot
    point: int | None = None
    deaths: int = 1
    ended: bool = False


@dataclass(frozen=True, slots=True)
class KeylessModel:
    """The same for a table without a key."""

    without: OfKeyless | None = None
    changes: int = 3

    def explore(self, source: int, target: int, limit: int = 1_000_000) -> tuple[int, Violation[Counted] | None]:
        """Walk all states that are reached from these rows."""
        return explore(Counted(source, target), self._steps, lambda _, __: None, limit)

    def _steps(self, state: Counted) -> Iterator[Counted]:
        if state.ended:
            return
        if len(state.log) < self.changes:
            for rows in (1, -1):
                if state.source + rows >= 0:
                    yield replace(state, source=state.source + rows, log=(*state.log, rows))
        if state.p0 is None:
            yield replace(state, p0=len(state.log))
            return
        if state.read is None:
            at = len(state.log) if self.without != "the snapshot is at X" else None
            yield replace(state, read=state.source, point=at)
        elif state.point is None:
            yield replace(state, point=len(state.log))
        elif state.target != state.read:
            yield replace(state, target=state.read)
        else:
            yield self._end(state, state.p0, state.point)
        if state.deaths:
            yield replace(state, p0=None, read=None, point=None, deaths=0)

    def _end(self, state: Counted, p0: int, point: int) -> Counted:
        begin = point if self.without != "X is the table's point" else p0
        if state.target + sum(state.log[begin:]) != state.source:
            raise Wrong("rows differ")
        return replace(state, ended=True)
