"""Are these tables the same, byte for byte? The comparer that demo and tests judge dm by.

Rows are read as the text protocol's raw bytes with no character set conversion, streamed, and reduced to 128-bit
digests; the digests are summed in buckets chosen by the digest itself. A sum does not depend on the order of its rows,
so no sorting, no collation and no primary key is needed, several upstream tables add up to the one they were merged
into, a row that is there twice counts twice, and memory is the same for any table. Where a bucket differs, a second
reading collects the rows of a few differing buckets and names them.

When two values are the same, `dm.mysql.equality` says, as it does for `dmctl diff`. But all rows are read here and
hashed here, so that the tests judge the sums that servers compute as well.

Where a table has one source of the same flavour, the servers' own CHECKSUM TABLE must agree: a check of the checker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from pymysql.connections import Connection
from pymysql.cursors import Cursor, SSCursor

from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.mysql.equality import structure
from dm.mysql.equality.checksum import Checksum
from dm.mysql.equality.structure import Structure
from dm.mysql.equality.values import ComparedValue, Side, parts, text_of

Values = tuple[bytes | None, ...]

_BUCKETS = 4096
_EXAMINED_BUCKETS = 16


class ComparedServer(Protocol):
    """What is needed of a server."""

    flavor: Flavor
    tidb: bool

    def connect(self, **arguments: Any) -> Connection[Cursor]:
        """A new connection."""
        ...


@dataclass(frozen=True)
class UpstreamTable:
    """One upstream table."""

    server: ComparedServer
    table: TableName


@dataclass(frozen=True)
class TablePair:
    """One target table and the upstream tables that are routed into it."""

    target: TableName
    origins: tuple[UpstreamTable, ...]


@dataclass(frozen=True)
class RowDifference:
    """One row that is not the same on both sides; a side that lacks it is None."""

    key: str
    source: Mapping[str, bytes | None] | None
    target: Mapping[str, bytes | None] | None
    columns: tuple[str, ...]  # those with different values

    def __str__(self) -> str:
        if self.target is None:
            return f"{self.key}: missing at the target: {self.source}"
        if self.source is None:
            return f"{self.key}: only at the target: {self.target}"
        if not self.columns:
            return f"{self.key}: a different number of times at source and target"
        columns = [
            f"{name} is {self.source[name]!r} at the source, {self.target[name]!r} at the target"
            for name in self.columns
        ]
        return f"{self.key}: {'; '.join(columns)}"


@dataclass
class TableComparison:
    """What was found out about one target table."""

    target: TableName
    source_rows: int = 0
    target_rows: int = 0
    structure: list[str] = field(default_factory=list)
    rows: list[RowDifference] = field(default_factory=list)  # the first few
    differing_buckets: int = 0
    checksum: str = ""  # why CHECKSUM TABLE disagrees; empty when it agrees or can't be asked

    @property
    def identical(self) -> bool:
        """Whether rows and structure are the same."""
        return not (self.structure or self.differing_buckets or self.checksum)

    def __str__(self) -> str:
        if self.identical:
            return f"{self.target}: identical, {self.target_rows} rows"
        lines = [f"{self.target}: DIFFERENT, {self.source_rows} rows at the source, {self.target_rows} at the target"]
        lines += [f"  {line}" for line in self.structure]
        lines += [f"  {difference}" for difference in self.rows]
        if self.checksum:
            lines.append(f"  {self.checksum}")
        return "\n".join(lines)


@dataclass
class ComparisonReport:
    """The verdict on all tables."""

    tables: list[TableComparison]
    unexpected: list[TableName]  # tables of the target that no source table is routed into

    @property
    def identical(self) -> bool:
        """Whether everything is the same."""
        return not self.unexpected and all(table.identical for table in self.tables)

    @property
    def rows(self) -> int:
        """Rows at the target."""
        return sum(table.target_rows for table in self.tables)

    def __str__(self) -> str:
        lines = [str(table) for table in self.tables]
        lines += [f"{table}: only at the target" for table in self.unexpected]
        return "\n".join(lines)


class _ComparisonSessions:
    """Two sessions per server for one comparison: one to ask about structures, one to stream raw rows."""

    def __init__(self) -> None:
        self._plain: dict[int, Connection[Cursor]] = {}
        self._raw: dict[int, Connection[Cursor]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for connection in [*self._plain.values(), *self._raw.values()]:
            connection.close()

    def plain(self, server: ComparedServer) -> Connection[Cursor]:
        if id(server) not in self._plain:
            self._plain[id(server)] = connection = server.connect()
            with connection.cursor() as cursor:  # in which SHOW CREATE TABLE says the same on both sides
                cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")
        return self._plain[id(server)]

    def raw(self, server: ComparedServer) -> Connection[Cursor]:
        if id(server) not in self._raw:
            connection = server.connect(use_unicode=False, conv={}, cursorclass=SSCursor, autocommit=True)
            self._raw[id(server)] = connection
            with connection.cursor() as cursor:
                # No conversion of text, no padding of CHAR, TIMESTAMP in UTC; and we may read slowly.
                cursor.execute("SET NAMES binary")
                cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600")
        return self._raw[id(server)]


Route = Callable[[ComparedServer, TableName], TableName | None]  # None: the table is not migrated


def pair_tables(
    sources: Sequence[ComparedServer], schemas: Sequence[str], route: Route | None = None
) -> list[TablePair]:
    """Pair every table of the schemas on all sources with the table it is routed to; itself where no route is given."""
    origins: dict[TableName, list[UpstreamTable]] = {}
    with _ComparisonSessions() as sessions:
        for server in sources:
            for schema in schemas:
                for table in structure.tables(sessions.plain(server), schema):
                    routed = table if route is None else route(server, table)
                    if routed is not None:
                        origins.setdefault(routed, []).append(UpstreamTable(server, table))
    return [TablePair(target, tuple(tables)) for target, tables in sorted(origins.items())]


def compare(
    pairs: Sequence[TablePair], target: ComparedServer, *, limit: int = 10, structures: bool = True
) -> ComparisonReport:
    """Compare all pairs, naming up to `limit` differing rows per table; nobody may write meanwhile."""
    routes = {(id(origin.server), origin.table): pair.target for pair in pairs for origin in pair.origins}
    expected = {pair.target for pair in pairs}
    schemas = sorted({table.schema for table in expected})
    with _ComparisonSessions() as sessions:
        reports = [_compare_pair(sessions, pair, target, routes, limit, structures) for pair in pairs]
        present = [table for schema in schemas for table in structure.tables(sessions.plain(target), schema)]
    return ComparisonReport(reports, [table for table in present if table not in expected])


def _compare_pair(
    sessions: _ComparisonSessions,
    pair: TablePair,
    target: ComparedServer,
    routes: Mapping[tuple[int, TableName], TableName],
    limit: int,
    structures: bool,
) -> TableComparison:
    report = TableComparison(pair.target)
    target_structure = _structure(sessions, target, pair.target, {})
    if not target_structure.columns:
        report.structure.append("the target has no such table")
        return report
    source_structures = []
    for origin in pair.origins:
        names = {table: routed for (server, table), routed in routes.items() if server == id(origin.server)}
        found = _structure(sessions, origin.server, origin.table, names)
        source_structures.append(found)
        if structures:
            same_flavor = origin.server.flavor == target.flavor
            report.structure += structure.differences(
                found, target_structure, same_flavor=same_flavor, respells=target.tidb
            )
    shared = set.intersection(*({column.name for column in found.columns} for found in source_structures))
    compared = [column.name for column in target_structure.columns if column.name in shared]
    tables = [
        *((origin.server, origin.table, found) for origin, found in zip(pair.origins, source_structures, strict=True)),
        (target, pair.target, target_structure),
    ]
    *readers, target_reader = (
        _Reader(sessions, server, table, found, row)
        for (server, table, found), row in zip(tables, _parts(tables, compared), strict=True)
    )
    source_sums, target_sums = _BucketSums(), _BucketSums()
    for reader in readers:
        source_sums.add(reader)
    target_sums.add(target_reader)
    report.source_rows, report.target_rows = source_sums.rows, target_sums.rows
    differing = source_sums.differing(target_sums)
    report.differing_buckets = len(differing)
    if differing:
        examined = frozenset(differing[:_EXAMINED_BUCKETS])
        report.rows = _name_rows(readers, target_reader, examined, limit)
    elif not report.structure and structures and len(pair.origins) == 1 and not _has_virtual_columns(target_structure):
        report.checksum = _checksum_difference(sessions, pair.origins[0], pair.target, target)
    return report


def _has_virtual_columns(found: Structure) -> bool:
    """Whether there is a VIRTUAL column: with one, servers with equal rows give different CHECKSUM TABLE results."""
    return any(column.generated.startswith("virtual") for column in found.columns)


def _structure(
    sessions: _ComparisonSessions, server: ComparedServer, table: TableName, routes: Mapping[TableName, TableName]
) -> Structure:
    return structure.read(sessions.plain(server), server.flavor, table, lambda parent: routes.get(parent, parent))


def _parts(
    tables: Sequence[tuple[ComparedServer, TableName, Structure]], names: Sequence[str]
) -> list[list[ComparedValue]]:
    """What is compared of a row, for each of the tables."""
    found: list[list[ComparedValue]] = [[] for _ in tables]
    for name in names:
        sides = [
            Side(structure.column(name), table, "tidb" if server.tidb else server.flavor)
            for server, table, structure in tables
        ]
        for row, some in zip(found, parts(sides), strict=True):
            row += some
    return found


class _Reader:
    """Streams the rows of one table as raw bytes, in no order."""

    def __init__(
        self,
        sessions: _ComparisonSessions,
        server: ComparedServer,
        table: TableName,
        found: Structure,
        row: Sequence[ComparedValue],
    ) -> None:
        self._connection = sessions.raw(server)
        self.row = row
        self.names = [part.label for part in row]
        self.key = [self.names.index(name) for name in found.primary_key if name in self.names]
        self._query = f"SELECT {', '.join(part.read for part in row) or '1'} FROM {table.sql}"

    def rows(self) -> Iterator[Values]:
        with self._connection.cursor() as cursor:
            cursor.execute(self._query)
            while rows := cursor.fetchmany(1000):
                yield from rows

    def canonical(self, row: Values) -> Values:
        """What counts of a row."""
        return tuple([part.canonical(value) for part, value in zip(self.row, row, strict=True)])

    def key_of(self, canonical: Values) -> Values:
        """The values of the primary key."""
        return tuple(canonical[at] for at in self.key)

    def checksum(self, row: Values) -> Checksum:
        """Of one row."""
        return Checksum.of(text_of(self.row, row))

    def bucket(self, row: Values) -> int:
        """Chosen by the row's hash."""
        return self.checksum(row).mixed % _BUCKETS


class _BucketSums:
    """Order-independent sums of row digests."""

    def __init__(self) -> None:
        self._sums = [Checksum()] * _BUCKETS
        self.rows = 0

    def add(self, reader: _Reader) -> None:
        sums = self._sums
        for row in reader.rows():
            checksum = reader.checksum(row)
            bucket = checksum.mixed % _BUCKETS
            sums[bucket] += checksum
            self.rows += 1

    def differing(self, other: _BucketSums) -> list[int]:
        return [bucket for bucket in range(_BUCKETS) if self._sums[bucket] != other._sums[bucket]]


def _name_rows(sources: Sequence[_Reader], target: _Reader, buckets: frozenset[int], limit: int) -> list[RowDifference]:
    def collect(readers: Sequence[_Reader]) -> Counter[Values]:
        rows = (reader.canonical(row) for reader in readers for row in reader.rows() if reader.bucket(row) in buckets)
        return Counter(rows)

    expected, present = collect(sources), collect([target])
    missing = sorted((expected - present).elements(), key=repr)
    extra = sorted((present - expected).elements(), key=repr)
    if target.key:
        # A changed row is in two buckets, and that of its other version may not be among those examined: look it up.
        wanted = sorted({target.key_of(row) for row in [*missing, *extra]}, key=repr)[:limit]
        ours, theirs = _versions(sources, wanted), _versions([target], wanted)
        return [_difference(target, ours.get(key), theirs.get(key)) for key in wanted]
    found = _versions(sources, missing, whole=True) | _versions([target], extra, whole=True)
    # One that has gone since it was counted, as a stream that still works makes it go, is told in its canonical form.
    differences = [_difference(target, (row, found.get(row, (row, row))[1]), None) for row in missing]
    differences += [_difference(target, None, (row, found.get(row, (row, row))[1])) for row in extra]
    return differences[:limit]


Version = tuple[Values, Values]  # a row in its canonical form, and as it was read


def _versions(readers: Sequence[_Reader], wanted: Sequence[Values], *, whole: bool = False) -> dict[Values, Version]:
    """The rows with these keys; with `whole` they are those rows themselves, of tables without a key."""
    keys, found = frozenset(wanted), {}
    for reader in readers:
        for row in reader.rows():
            canonical = reader.canonical(row)
            key = canonical if whole else reader.key_of(canonical)
            if key in keys:
                found[key] = canonical, row
    return found


def _difference(reader: _Reader, ours: Version | None, theirs: Version | None) -> RowDifference:
    known = ours or theirs
    assert known is not None
    key = ", ".join(f"{reader.names[at]}={known[1][at]!r}" for at in reader.key)
    both = zip(reader.names, *(row[0] for row in (ours, theirs) if row is not None), strict=True)
    return RowDifference(
        key or "a row of a table without primary key",
        None if ours is None else dict(zip(reader.names, ours[1], strict=True)),
        None if theirs is None else dict(zip(reader.names, theirs[1], strict=True)),
        tuple(name for name, *values in both if len(set(values)) > 1),
    )


def _checksum(connection: Connection[Cursor], table: TableName) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"CHECKSUM TABLE {table.sql}")
        row = cursor.fetchone()
        assert row is not None
        return int(row[1])


def _checksum_difference(
    sessions: _ComparisonSessions, origin: UpstreamTable, table: TableName, target: ComparedServer
) -> str:
    if origin.server.flavor != target.flavor or target.tidb:
        return ""
    ours = _checksum(sessions.plain(origin.server), origin.table)
    theirs = _checksum(sessions.plain(target), table)
    if ours == theirs:
        return ""
    return f"all rows read the same, but CHECKSUM TABLE says {ours} at the source, {theirs} at the target"
