"""The work of the Spark tasks of a comparison: one chunk of one table on all sides.

The servers compute a checksum of the chunk each. Where the sum of the sources' is not the target's, they compute the
checksums of buckets, chosen by the hash of the key, so that both versions of a row are in one; only the rows of buckets
that differ are read. So a changed row costs two more scans of its chunk, where halving would cost one for each halving.

Where only a client can compute the checksum (JSON between two flavours, a row too long for the server), the rows of the
chunk are read.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

from dm.config.endpoint import Endpoint
from dm.diff.fix import Fix, fix_of
from dm.diff.pace import wait_for_rest
from dm.diff.shape import shape_of
from dm.diff.snapshot import Reading
from dm.diff.table import TARGET, ComparedTable, TableAt, role_at
from dm.dumpfiles.text_rows import Limits, read_batches
from dm.equality.checksum import Checksum
from dm.equality.values import shown, text_of
from dm.errors import REFUSED_STATEMENT, DMError
from dm.upstream.connection import Connection, fetch
from dm.upstream.row_session import row_session

_BATCH = Limits(1 << 14, 1 << 22)
_MOST_BUCKETS = 512  # that are named in a condition; beyond, the whole chunk is read
# What a server says of a table that is not what it was when it was planned.
_CHANGED = (1146, 1049, 1054, 1176, 1412, 1814, 1969)

Values = tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a table."""

    table: int
    number: int
    condition: str  # the same on all sides


@dataclass(frozen=True, slots=True)
class Difference:
    """One row that is not the same on both sides, in words; a side that lacks it is None."""

    identity: str  # of the row and both its versions: what it is at another look, too
    key: str
    source: dict[str, str] | None
    target: dict[str, str] | None
    columns: tuple[str, ...]  # with different values
    sources: int  # how many times it is there
    targets: int
    fix: Fix


@dataclass(frozen=True, slots=True)
class ChunkOutcome:
    """What was found about a chunk."""

    chunk: Chunk
    source_rows: int = 0
    target_rows: int = 0
    differences: tuple[Difference, ...] = ()
    changed: str = ""  # what a server said of a table that has changed meanwhile

    @property
    def equal(self) -> bool:
        """Whether the rows are the same."""
        return not self.differences and not self.changed


@dataclass
class _Sessions:
    endpoints: dict[int, Endpoint]
    readings: Mapping[int, Reading]
    _open: dict[int, Connection] = field(default_factory=dict)

    def at(self, place: int) -> Connection:
        if place not in self._open:
            self._open[place] = row_session(self.endpoints[place], role=role_at(place))
            self._say(place, self.readings.get(place, Reading()).once)
        return self._open[place]

    def begin(self, places: Iterable[int]) -> None:
        """A chunk begins: where it is to be read as of one moment, that is now."""
        for place in places:
            self._say(place, self.readings.get(place, Reading()).each_time)

    def _say(self, place: int, statement: str) -> None:
        if statement:
            fetch(self.at(place), statement, role=role_at(place))

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


@dataclass(frozen=True)
class ChunkComparer:
    """Compares chunks of these tables."""

    endpoints: dict[int, Endpoint]
    tables: tuple[ComparedTable, ...]
    where: str = ""
    max_load: int = 0  # threads that run at a server; more let a chunk wait, and 0 is any number
    readings: Mapping[int, Reading] = field(default_factory=dict)

    def __call__(self, chunks: tuple[Chunk, ...]) -> tuple[ChunkOutcome, ...]:
        """One after the other, over one session of each server."""
        found = []
        with closing(_Sessions(self.endpoints, self.readings)) as sessions:
            for chunk in chunks:
                if self.max_load:
                    wait_for_rest(map(sessions.at, self.endpoints), self.max_load)
                table = self.tables[chunk.table]
                comparison = _Comparison(table, chunk, self.where, sessions)
                try:
                    sessions.begin(dict.fromkeys(side.place for side in table.sides))
                    found.append(comparison.outcome())
                except DMError as error:
                    if error.name not in REFUSED_STATEMENT.values():
                        raise
                    changed = error.cause if error.server_errno in _CHANGED else comparison.altered()
                    if not changed:
                        raise
                    found.append(ChunkOutcome(chunk, changed=changed))
        return tuple(found)


@dataclass
class _Comparison:
    table: ComparedTable
    chunk: Chunk
    where: str
    sessions: _Sessions

    def outcome(self) -> ChunkOutcome:
        sums = self._sums() if self.table.computed_by_servers else None
        if sums is None:
            return self._read(None)
        theirs, *ours = sums
        source = sum(ours, Checksum())
        if source == theirs:
            return ChunkOutcome(self.chunk, source.rows, theirs.rows)
        outcome = self._read(self._buckets())
        return replace(outcome, source_rows=source.rows, target_rows=theirs.rows)

    def altered(self) -> str:
        """Which table has not the columns any more that this was planned with; "" where all have. Raises DMError."""
        for side in self.table.sides:
            if side.shape and shape_of(self.sessions.at(side.place), side.name) != side.shape:
                return f"{side.name} was altered"
        return ""

    def _ask(self, side: TableAt, sql: str) -> tuple[tuple[Any, ...], ...]:
        return fetch(self.sessions.at(side.place), sql, role=role_at(side.place))

    def _sums(self) -> list[Checksum] | None:
        """The checksums of the target and of each source; None where a server can't say."""
        found = []
        for side in self.table.sides:
            answer = Checksum.answered(self._ask(side, side.checksum_query(self.chunk.condition, self.where))[0])
            if answer is None:
                return None
            found.append(answer)
        return found

    def _buckets(self) -> list[int] | None:
        """The buckets that differ; None for all of them."""
        target: dict[int, Checksum] = {}
        source: dict[int, Checksum] = {}
        for side in self.table.sides:
            sums = target if side.place == TARGET else source
            for bucket, *row in self._ask(side, side.buckets_query(self.chunk.condition, self.where)):
                answer = Checksum.answered(tuple(row))
                if answer is None:
                    return None
                sums[int(bucket)] = sums.get(int(bucket), Checksum()) + answer
        found = [bucket for bucket in source.keys() | target.keys() if source.get(bucket) != target.get(bucket)]
        return sorted(found) if len(found) <= _MOST_BUCKETS else None

    def _rows(self, side: TableAt, buckets: Sequence[int] | None) -> Iterator[Values]:
        query = side.rows_query(self.chunk.condition, self.where, buckets)
        for batch in read_batches(self.sessions.at(side.place), query, repeat(_BATCH)):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def _read(self, buckets: list[int] | None) -> ChunkOutcome:
        target, source = _Versions(self.table.target), _Versions(self.table.target)
        if buckets != []:
            for side in self.table.sides:
                versions = target if side.place == TARGET else source
                for row in self._rows(side, buckets):
                    versions.add(side, row)
        if source.by_key != target.by_key and (changed := self.altered()):
            return ChunkOutcome(self.chunk, changed=changed)
        differences = tuple(self._differences(source, target))
        return ChunkOutcome(self.chunk, source.rows, target.rows, differences)

    def _differences(self, source: _Versions, target: _Versions) -> Iterator[Difference]:
        for key in sorted(source.by_key.keys() | target.by_key.keys()):
            ours, theirs = source.by_key.get(key, Counter()), target.by_key.get(key, Counter())
            missing, extra = ours - theirs, theirs - ours
            if not missing and not extra:
                continue
            yield self._difference(key, source, target, missing, extra)

    def _difference(
        self, key: bytes, source: _Versions, target: _Versions, missing: Counter[bytes], extra: Counter[bytes]
    ) -> Difference:
        table = self.table.target
        ours = source.read[next(iter(missing))] if missing else None
        theirs = target.read[next(iter(extra))] if extra else None
        row = ours or theirs
        assert row is not None
        columns: tuple[str, ...] = ()
        if ours is not None and theirs is not None:
            both = zip(table.row, ours.canonical, theirs.canonical, strict=True)
            columns = tuple(part.label for part, one, other in both if one != other)
        # All that both sides have of it: of equal rows without a key, others may have come and gone between two looks.
        sides = (sorted(side.by_key.get(key, Counter()).items()) for side in (source, target))
        known = b"|".join([key, *(b"%s %d" % version for side in sides for version in (*side, (b"/", 0)))])
        at_source = None if ours is None else (ours.side, ours.values)
        return Difference(
            hashlib.sha256(known).hexdigest(),
            ", ".join(f"{table.row[at].label}={shown(row.values[at])}" for at in table.key) if self.table.keyed else "",
            None if ours is None else _words(table, ours.values),
            None if theirs is None else _words(table, theirs.values),
            columns,
            missing.total(),
            extra.total(),
            fix_of(self.table, at_source, None if theirs is None else theirs.values, missing, extra),
        )


@dataclass(frozen=True, slots=True)
class _Row:
    side: TableAt
    values: Values
    canonical: Values


class _Versions:
    """The rows of one side by their keys; a row is known by its text."""

    def __init__(self, target: TableAt) -> None:
        self._key = target.key
        self.by_key: dict[bytes, Counter[bytes]] = {}
        self.read: dict[bytes, _Row] = {}
        self.rows = 0

    def add(self, side: TableAt, values: Values) -> None:
        text = text_of(side.row, values)
        key = text_of([side.row[at] for at in self._key], [values[at] for at in self._key])
        self.by_key.setdefault(key, Counter())[text] += 1
        if text not in self.read:
            canonical = tuple([part.canonical(value) for part, value in zip(side.row, values, strict=True)])
            self.read[text] = _Row(side, values, canonical)
        self.rows += 1


def _words(table: TableAt, values: Values) -> dict[str, str]:
    return {part.label: shown(value) for part, value in zip(table.row, values, strict=True)}


Compare = Callable[[tuple[Chunk, ...]], tuple[ChunkOutcome, ...]]
