"""Compares one chunk of a table on all sides; a Spark task each.

Each server computes a checksum of the chunk. With one source whose rows are read in the order of the target's key, it
covers the rows in order; otherwise it is a sum. If the checksums differ, the servers compute sums per bucket, a bucket
being chosen by the hash of the key, so all versions of a row are in the same bucket. Only the rows of buckets that
differ are read. A changed row thus costs two more scans of its chunk; halving would cost a scan per halving.

Some checksums only a client can compute (JSON between two flavours, a row too long for the server). Then the task reads
the chunk's rows and keeps none.

Rows that are compared one by one take a bounded part of the memory: they are read slice by slice
(`dm.tools.diff.table`). The slices of a chunk with many differences become chunks of their own, so a single task's
findings are bounded, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, Final

from dm import faults
from dm.config.endpoint import Endpoint
from dm.dumpfiles.text_rows import Limits, read_batches
from dm.errors import REFUSED_STATEMENT, DMError
from dm.mysql.equality.checksum import BUCKET_DIGITS, Checksum, SequenceSum, bucket_number
from dm.mysql.equality.values import text_of
from dm.pace.handle import PaceHandle, PaceHere
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, fetch, threads_running
from dm.sourcelog.upstream.facts import row_session
from dm.tools.diff.snapshot import SnapshotStatements
from dm.tools.diff.table import TARGET, ComparedTable, Slice, TableAt, cut, role_at, shape_of
from dm.tools.diff.versions import ROW_COST, Difference, Values, Versions

_BATCH = Limits(1 << 14, 1 << 22)
KEPT_BYTES: Final = 64 << 20
# A Spark task that keeps more than this part of `kept_bytes` ends, and leaves its other chunks to new tasks: its
# findings arrive only when it ends, and are lost if the limit of all tasks is reached before.
_LEFT_AT: Final = 16
WORDED: Final = 100  # rows of a chunk that are told in words; more only if somebody wants to be shown more
# What a server says of a table that is not what it was when it was planned.
_CHANGED = (1146, 1049, 1054, 1176, 1412, 1814, 1969)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a table."""

    table: int
    number: int
    condition: str  # the same on all sides
    slice: Slice | None = None  # only these rows of it, which are known to differ


@dataclass(frozen=True, slots=True)
class ChunkOutcome:
    """What was found about a chunk."""

    chunk: Chunk
    source_rows: int = 0
    target_rows: int = 0
    differences: tuple[Difference, ...] = ()
    slices: tuple[Slice, ...] = ()  # which differ, and are yet to be read
    changed: str = ""  # what a server said of a table that has changed meanwhile
    kept: int = 0  # the most rows that were kept at a time
    digest: str = ""  # of the rows, where they are the same

    @property
    def equal(self) -> bool:
        """Whether the rows are the same."""
        return not self.differences and not self.slices and not self.changed


@dataclass
class _ChunkSessions:
    endpoints: dict[int, Endpoint]
    readings: Mapping[int, SnapshotStatements]
    _open: dict[int, Connection] = field(default_factory=dict)

    def at(self, place: int) -> Connection:
        if place not in self._open:
            self._open[place] = row_session(self.endpoints[place], role=role_at(place))
            self._say(place, self.readings.get(place, SnapshotStatements()).once)
        return self._open[place]

    def begin(self, places: Iterable[int]) -> None:
        """A chunk begins: where it is to be read as of one moment, that is now."""
        for place in places:
            self._say(place, self.readings.get(place, SnapshotStatements()).each_time)

    def lend_back(self, places: Iterable[int]) -> None:
        for place in places:
            self._open.pop(place, None)

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
    readings: Mapping[int, SnapshotStatements] = field(default_factory=dict)
    kept_bytes: int = KEPT_BYTES  # of rows that are kept at a time
    words: int = WORDED  # rows of a chunk that are told in words
    fixes: bool = True  # whether statements are made
    pace: PaceHandle | PaceHere | None = None

    def __call__(self, chunks: tuple[Chunk, ...]) -> tuple[ChunkOutcome, ...]:
        """One after the other, over one session of each server; those after too many differences are left out."""
        found, kept = list[ChunkOutcome](), 0
        with closing(_ChunkSessions(self.endpoints, self.readings)) as sessions:
            for chunk in chunks:
                if self.max_load:
                    wait_for_rest(map(sessions.at, self.endpoints), self.max_load)
                table = self.tables[chunk.table]
                comparison = _Comparison(table, chunk, sessions, self)
                try:
                    sessions.begin(dict.fromkeys(side.place for side in table.sides))
                    if self.pace is not None:
                        self.pace.ask(0, 0)
                    found.append(comparison.outcome())
                    if self.pace is not None:  # how many rows it has the servers have told
                        rows = max(found[-1].source_rows, found[-1].target_rows)
                        self.pace.ask(rows, rows * table.row_bytes)
                except DMError as error:
                    # A NULL in a column that had none when this was planned looks like a value that was cut.
                    if error.name not in REFUSED_STATEMENT.values() and error.name != "diff-value-cut":
                        raise
                    changed = error.cause if error.server_errno in _CHANGED else comparison.altered()
                    if not changed:
                        raise
                    found.append(ChunkOutcome(chunk, changed=changed))
                kept += sum(each.size for each in found[-1].differences)
                if kept >= self.kept_bytes / _LEFT_AT:
                    break
        return tuple(found)

    def at_one_moment(self, table: int, sources: Mapping[int, Connection]) -> Iterator[ChunkOutcome]:
        """A whole table, read at the sources over these sessions; a part of it after the other where much differs."""
        sessions = _ChunkSessions(self.endpoints, self.readings, dict(sources))
        left = [Chunk(table, 0, "1")]
        try:
            while left:
                outcome = _Comparison(self.tables[table], left.pop(), sessions, self).outcome()
                left += [replace(outcome.chunk, slice=some) for some in outcome.slices]
                yield outcome
        finally:
            sessions.lend_back(sources)
            sessions.close()


@dataclass(frozen=True, slots=True)
class _ServerVerdict:
    """What the servers say of a chunk."""

    equal: bool
    source_rows: int
    target_rows: int
    digest: str


@dataclass
class _Comparison:
    table: ComparedTable
    chunk: Chunk
    sessions: _ChunkSessions
    options: ChunkComparer

    def outcome(self) -> ChunkOutcome:
        if self.chunk.slice is not None:
            return self._read(self.chunk.slice, 0, 0)
        asked = (self._in_order() or self._in_sum()) if self.table.computed_by_servers else None
        if asked is not None and asked.equal:
            return ChunkOutcome(self.chunk, asked.source_rows, asked.target_rows, digest=asked.digest)
        by_servers = None if asked is None else self._bucket_sums()
        ours_by, theirs_by = self._client_sums() if by_servers is None else by_servers
        if asked is None:
            source_rows, target_rows = ours_by.rows, theirs_by.rows
        else:
            source_rows, target_rows = asked.source_rows, asked.target_rows
        numbers = ours_by.keys() | theirs_by.keys()
        rows = {each: ours_by[each].rows + theirs_by[each].rows for each in numbers if ours_by[each] != theirs_by[each]}
        row_bytes = ROW_COST + 2 * self.table.row_bytes
        slices = tuple(cut(rows, max(1, self.options.kept_bytes // row_bytes)))
        if len(slices) == 1:
            return self._read(slices[0], source_rows, target_rows)
        digest = "" if slices else theirs_by.whole.digest
        return ChunkOutcome(self.chunk, source_rows, target_rows, slices=slices, digest=digest)

    def altered(self) -> str:
        """Which table has not the columns any more that this was planned with; "" where all have. Raises DMError."""
        for side in self.table.sides:
            if side.shape and shape_of(self.sessions.at(side.place), side.name) != side.shape:
                return f"{side.name} was altered"
        return ""

    def _ask(self, side: TableAt, sql: str) -> tuple[tuple[Any, ...], ...]:
        session = self.sessions.at(side.place)
        faults.hit("diff.session_open")
        return fetch(session, sql, role=role_at(side.place))

    @reads_answers
    def _in_order(self) -> _ServerVerdict | None:
        """What the servers say of the rows in their order; None where one can't, or there are several sources."""
        if not self.table.ordered:
            return None
        found = []
        for side in self.table.sides:
            queries = side.sequence_queries(self.chunk.condition, self.options.where)
            _, counts, digest = (self._ask(side, query) for query in queries)
            answer = SequenceSum.answered(counts[0], digest[0][0])
            if answer is None:
                return None
            found.append(answer)
        target, source = found
        return _ServerVerdict(source == target, source.rows, target.rows, target.digest)

    @reads_answers
    def _in_sum(self) -> _ServerVerdict | None:
        """What they say of the rows in any order; None where one can't."""
        source, target = Checksum(), Checksum()
        for side in self.table.sides:
            query = side.checksum_query(self.chunk.condition, self.options.where)
            answer = Checksum.answered(self._ask(side, query)[0])
            if answer is None:
                return None
            if side.place == TARGET:
                target = answer
            else:
                source += answer
        return _ServerVerdict(source == target, source.rows, target.rows, target.digest)

    @reads_answers
    def _bucket_sums(self) -> tuple[_Sums, _Sums] | None:
        """The checksums of the buckets of sources and target; None where a server can't say."""
        source, target = _Sums(), _Sums()
        for side in self.table.sides:
            sums = target if side.place == TARGET else source
            for bucket, *row in self._ask(side, side.buckets_query(self.chunk.condition, self.options.where)):
                answer = Checksum.answered(tuple(row))
                if answer is None:
                    return None
                sums.add(int(bucket), answer)
        return source, target

    def _client_sums(self) -> tuple[_Sums, _Sums]:
        """The same, computed here."""
        source, target = _Sums(), _Sums()
        for side in self.table.sides:
            sums = target if side.place == TARGET else source
            for row in self._rows(side, None, self.options.where):
                sums.add(bucket_number(side.key_text(row), BUCKET_DIGITS), Checksum.of(text_of(side.row, row)))
        return source, target

    def _rows(self, side: TableAt, some: Slice | None, where: str) -> Iterator[Values]:
        query = side.rows_query(self.chunk.condition, where, some)
        for batch in read_batches(self.sessions.at(side.place), query, repeat(_BATCH)):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def _read(self, some: Slice, source_rows: int, target_rows: int) -> ChunkOutcome:
        versions = self._versions(some)
        if versions.size > self.options.kept_bytes and some.halves:
            return ChunkOutcome(self.chunk, source_rows, target_rows, slices=some.halves, kept=versions.kept)
        if not versions.equal and (changed := self.altered()):
            return ChunkOutcome(self.chunk, changed=changed)
        differences = versions.differences(self.options.words, fixes=self.options.fixes)
        return ChunkOutcome(self.chunk, source_rows, target_rows, tuple(differences), kept=versions.kept)

    def _versions(self, some: Slice) -> Versions:
        """The rows of a slice; where they are too many and it can be cut, not all."""
        where, most = self.options.where, self.options.kept_bytes if some.halves else None
        found = self._kept(some, where, most=most)
        if not where or not self.table.keyed or (most is not None and found.size > most) or found.equal:
            return found
        # A row that only one side shows may be at the other one as well, where the condition is not true for it.
        return self._kept(some, "", keys=found.differing)

    def _kept(
        self, some: Slice, where: str, *, most: int | None = None, keys: frozenset[bytes] | None = None
    ) -> Versions:
        """The rows of a slice, or those with these keys; no more than so many bytes of them."""
        versions, numbers = Versions(self.table), frozenset(some.numbers)
        if keys is not None:
            numbers = frozenset(bucket_number(key, some.digits) for key in keys)
            some = Slice(tuple(sorted(numbers)), some.digits)
        for side in self.table.sides:
            for row in self._rows(side, some, where):  # to its end: the session is used again
                if most is not None and versions.size > most:
                    continue
                key = side.key_text(row)
                if bucket_number(key, some.digits) in numbers and (keys is None or key in keys):
                    versions.add(side, row, key)
        return versions


class _Sums(dict[int, Checksum]):
    """Of buckets, by their numbers."""

    def __missing__(self, bucket: int) -> Checksum:
        return Checksum()

    def add(self, bucket: int, checksum: Checksum) -> None:
        self[bucket] += checksum

    @property
    def whole(self) -> Checksum:
        return sum(self.values(), Checksum())

    @property
    def rows(self) -> int:
        return self.whole.rows


Compare = Callable[[tuple[Chunk, ...]], tuple[ChunkOutcome, ...]]


_SECONDS: Final = 0.5


def wait_for_rest(connections: Iterable[Connection], most: int, sleep: Callable[[float], None] = time.sleep) -> float:
    """Wait until none of the servers has more than `most` running threads; gives the seconds that it took.

    The task's process is ended with its job, so nothing needs to wake it.

    The measure is Threads_running, as pt-table-checksum has it: sessions that execute something at this moment, those
    of the comparison among them. It follows at once when a server gets slow, whatever the reason.
    """
    waited = 0.0
    for connection in connections:
        while threads_running(connection) > most:
            sleep(_SECONDS)
            waited += _SECONDS
    return waited
