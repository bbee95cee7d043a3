"""Are these tables the same, byte for byte? The comparer that demo and tests judge dm by.

Rows are read as the text protocol's raw bytes with no character set conversion, streamed, and reduced to 128-bit
digests; the digests are summed in buckets chosen by the digest itself. A sum does not depend on the order of its rows,
so no sorting, no collation and no primary key is needed, several upstream tables add up to the one they were merged
into, a row that is there twice counts twice, and memory is the same for any table. Where a bucket differs, a second
reading collects the rows of a few differing buckets and names them.

Text alone would not be exact: FLOAT prints six digits (so floating columns are multiplied by 1e0, which is exact and
prints all), an ENUM's error value prints like an empty member (so the number is read, too), JSON must be told to be
text.

Where a table has one source of the same flavour, the servers' own CHECKSUM TABLE must agree: a check of the checker.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from pymysql.connections import Connection
from pymysql.cursors import Cursor, SSCursor

from dm.demo import structure
from dm.demo.structure import ColumnFacts, Structure
from dm.flavor import Flavor
from dm.ident import Ident, TableName

Values = tuple[bytes | None, ...]

_BUCKETS = 4096
_EXAMINED_BUCKETS = 16
_MASK = (1 << 128) - 1


class Server(Protocol):
    """What is needed of a server."""

    flavor: Flavor

    def connect(self, **arguments: Any) -> Connection[Cursor]:
        """A new connection."""
        ...


@dataclass(frozen=True)
class Origin:
    """One upstream table."""

    server: Server
    table: TableName


@dataclass(frozen=True)
class TablePair:
    """One target table and the upstream tables that are routed into it."""

    target: TableName
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class RowDifference:
    """One row that is not the same on both sides; a side that lacks it is None."""

    key: str
    source: Mapping[str, bytes | None] | None
    target: Mapping[str, bytes | None] | None

    def __str__(self) -> str:
        if self.target is None:
            return f"{self.key}: missing at the target: {self.source}"
        if self.source == self.target:
            return f"{self.key}: a different number of times at source and target"
        if self.source is None:
            return f"{self.key}: only at the target: {self.target}"
        columns = [
            f"{name} is {value!r} at the source, {self.target[name]!r} at the target"
            for name, value in self.source.items()
            if value != self.target[name]
        ]
        return f"{self.key}: {'; '.join(columns)}"


@dataclass
class TableReport:
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
class Report:
    """The verdict on all tables."""

    tables: list[TableReport]
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


class _Sessions:
    """Two sessions per server for one comparison: one to ask about structures, one to stream raw rows."""

    def __init__(self) -> None:
        self._plain: dict[int, Connection[Cursor]] = {}
        self._raw: dict[int, Connection[Cursor]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for connection in [*self._plain.values(), *self._raw.values()]:
            connection.close()

    def plain(self, server: Server) -> Connection[Cursor]:
        if id(server) not in self._plain:
            self._plain[id(server)] = connection = server.connect()
            with connection.cursor() as cursor:  # in which SHOW CREATE TABLE says the same on both sides
                cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")
        return self._plain[id(server)]

    def raw(self, server: Server) -> Connection[Cursor]:
        if id(server) not in self._raw:
            connection = server.connect(use_unicode=False, conv={}, cursorclass=SSCursor, autocommit=True)
            self._raw[id(server)] = connection
            with connection.cursor() as cursor:
                # No conversion of text, no padding of CHAR, TIMESTAMP in UTC; and we may read slowly.
                cursor.execute("SET NAMES binary")
                cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600")
        return self._raw[id(server)]


Route = Callable[[Server, TableName], TableName | None]  # None: the table is not migrated


def pair_tables(sources: Sequence[Server], schemas: Sequence[str], route: Route | None = None) -> list[TablePair]:
    """Pair every table of the schemas on all sources with the table it is routed to; itself where no route is given."""
    origins: dict[TableName, list[Origin]] = {}
    with _Sessions() as sessions:
        for server in sources:
            for schema in schemas:
                for table in structure.tables(sessions.plain(server), schema):
                    routed = table if route is None else route(server, table)
                    if routed is not None:
                        origins.setdefault(routed, []).append(Origin(server, table))
    return [TablePair(target, tuple(tables)) for target, tables in sorted(origins.items())]


def compare(pairs: Sequence[TablePair], target: Server, *, limit: int = 10, structures: bool = True) -> Report:
    """Compare all pairs, naming up to `limit` differing rows per table; nobody may write meanwhile."""
    routes = {(id(origin.server), origin.table): pair.target for pair in pairs for origin in pair.origins}
    expected = {pair.target for pair in pairs}
    schemas = sorted({table.schema for table in expected})
    with _Sessions() as sessions:
        reports = [_compare_pair(sessions, pair, target, routes, limit, structures) for pair in pairs]
        present = [table for schema in schemas for table in structure.tables(sessions.plain(target), schema)]
    return Report(reports, [table for table in present if table not in expected])


def _compare_pair(
    sessions: _Sessions,
    pair: TablePair,
    target: Server,
    routes: Mapping[tuple[int, TableName], TableName],
    limit: int,
    structures: bool,
) -> TableReport:
    report = TableReport(pair.target)
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
            report.structure += structure.differences(found, target_structure, same_flavor=same_flavor)
    shared = set.intersection(*({column.name for column in found.columns} for found in source_structures))
    names_compared = [column.name for column in target_structure.columns if column.name in shared]
    readers = [
        _Reader(sessions, origin.server, origin.table, found, names_compared)
        for origin, found in zip(pair.origins, source_structures, strict=True)
    ]
    target_reader = _Reader(sessions, target, pair.target, target_structure, names_compared)
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
    sessions: _Sessions, server: Server, table: TableName, routes: Mapping[TableName, TableName]
) -> Structure:
    return structure.read(sessions.plain(server), server.flavor, table, lambda parent: routes.get(parent, parent))


class _Reader:
    """Streams the rows of one table as raw bytes, in no order."""

    def __init__(
        self, sessions: _Sessions, server: Server, table: TableName, found: Structure, names: Sequence[str]
    ) -> None:
        self._connection = sessions.raw(server)
        by_name = {column.name: column for column in found.columns}
        self.names: list[str] = []
        expressions: list[str] = []
        for name in names:
            for label, expression in _expressions(by_name[name]):
                self.names.append(label)
                expressions.append(expression)
        self.key = [self.names.index(name) for name in found.primary_key if name in self.names]
        self._query = f"SELECT {', '.join(expressions)} FROM {table.sql}"

    def rows(self) -> Iterator[Values]:
        with self._connection.cursor() as cursor:
            cursor.execute(self._query)
            while rows := cursor.fetchmany(1000):
                yield from rows


def _expressions(column: ColumnFacts) -> list[tuple[str, str]]:
    name = Ident(column.name).sql
    match column.data_type:
        case "float" | "double":
            return [(column.name, f"{name}*1e0")]
        case "json":
            return [(column.name, f"CAST({name} AS CHAR)")]
        case "enum" | "set":
            return [(column.name, name), (f"{column.name} (number)", f"{name}+0")]
        case _:
            return [(column.name, name)]


def _digest(row: Values) -> int:
    # repr of a tuple of bytes and None is unambiguous, and faster than anything that frames the fields one by one.
    return int.from_bytes(hashlib.blake2b(repr(row).encode("ascii"), digest_size=16).digest(), "big")


class _BucketSums:
    """Order-independent sums of row digests."""

    def __init__(self) -> None:
        self._sums = [0] * _BUCKETS
        self._counts = [0] * _BUCKETS
        self.rows = 0

    def add(self, reader: _Reader) -> None:
        sums, counts = self._sums, self._counts
        for row in reader.rows():
            digest = _digest(row)
            bucket = digest % _BUCKETS
            sums[bucket] = (sums[bucket] + digest) & _MASK
            counts[bucket] += 1
        self.rows = sum(counts)

    def differing(self, other: _BucketSums) -> list[int]:
        return [
            bucket
            for bucket in range(_BUCKETS)
            if self._sums[bucket] != other._sums[bucket] or self._counts[bucket] != other._counts[bucket]
        ]


def _name_rows(sources: Sequence[_Reader], target: _Reader, buckets: frozenset[int], limit: int) -> list[RowDifference]:
    def collect(readers: Sequence[_Reader]) -> Counter[Values]:
        return Counter(row for reader in readers for row in reader.rows() if _digest(row) % _BUCKETS in buckets)

    expected, present = collect(sources), collect([target])
    missing = sorted((expected - present).elements(), key=repr)
    extra = sorted((present - expected).elements(), key=repr)

    def key_of(row: Values) -> Values:
        return tuple(row[at] for at in target.key)

    def words(row: Values) -> str:
        if not target.key:
            return "a row of a table without primary key"
        return ", ".join(f"{target.names[at]}={row[at]!r}" for at in target.key)

    # A changed row is in two buckets, and the one of its other version may not be among those examined: look it up.
    wanted = {key_of(row) for row in [*missing, *extra]} if target.key else set()
    source_versions = {key_of(row): row for reader in sources for row in reader.rows() if key_of(row) in wanted}
    target_versions = {key_of(row): row for row in target.rows() if key_of(row) in wanted}
    found: dict[str, RowDifference] = {}
    if target.key:
        for key in sorted(wanted, key=repr)[:limit]:
            ours, theirs = source_versions.get(key), target_versions.get(key)
            row = ours or theirs
            assert row is not None
            found[words(row)] = RowDifference(words(row), _labelled(target, ours), _labelled(target, theirs))
        return list(found.values())
    differences = [RowDifference(words(row), _labelled(target, row), None) for row in missing]
    differences += [RowDifference(words(row), None, _labelled(target, row)) for row in extra]
    return differences[:limit]


def _labelled(reader: _Reader, row: Values | None) -> Mapping[str, bytes | None] | None:
    return None if row is None else dict(zip(reader.names, row, strict=True))


def _checksum(connection: Connection[Cursor], table: TableName) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"CHECKSUM TABLE {table.sql}")
        row = cursor.fetchone()
        assert row is not None
        return int(row[1])


def _checksum_difference(sessions: _Sessions, origin: Origin, table: TableName, target: Server) -> str:
    if origin.server.flavor != target.flavor:
        return ""
    ours = _checksum(sessions.plain(origin.server), origin.table)
    theirs = _checksum(sessions.plain(target), table)
    if ours == theirs:
        return ""
    return f"all rows read the same, but CHECKSUM TABLE says {ours} at the source, {theirs} at the target"
