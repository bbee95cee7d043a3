"""Plans a comparison: the target's tables with the source tables routed into them, their structures, their chunks."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation

from dm.changes.computing import UTC
from dm.config.endpoint import Endpoint
from dm.config.subtask import SubtaskConfig
from dm.dumpfiles.chunk_plan import KeyWalk, WalkedKey, conditions, find_bounds, rows_per_chunk, walked_key
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.dialect import Flavor, dialect, flavor_of
from dm.mysql.dialect.pair import same_family
from dm.mysql.equality import structure
from dm.mysql.equality.structure import ColumnFacts, Structure
from dm.mysql.schema.expressions import depends_on_zone
from dm.mysql.schema.merged_table import fits
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext, version_number
from dm.mysql.sql.literal import quoted
from dm.rules import TableRules
from dm.rules.router import PresentNames, Scattering
from dm.session.answers import reads_answers
from dm.session.state import offsets_of, offsets_question
from dm.sourcelog.upstream.connection import Connection, fetch, read_source_settings
from dm.sourcelog.upstream.facts import list_tables, question_session, read_structure, row_session
from dm.tools.diff.chunk import Chunk
from dm.tools.diff.kept_rows import KeptRows, why_not_compared
from dm.tools.diff.recent import Recent, RecentRows
from dm.tools.diff.snapshot import TARGET_WORD, Snapshots, SnapshotStatements
from dm.tools.diff.table import TARGET, ComparedTable, DiffSource, compared_table, role_at, shape_of, sorted_alike
from dm.tools.errands import DiffRequest


@dataclass
class PlannedTable:
    """A table of the target before its rows are compared."""

    name: TableName
    structure: list[str] = field(default_factory=list)  # how the structures differ
    allowed: list[str] = field(default_factory=list)  # and how optimistic shards may, which is no difference
    skipped: str = ""  # why its rows can't be compared
    compared: ComparedTable | None = None
    conditions: list[str] = field(default_factory=list)  # of its chunks
    estimated_rows: int = 0
    places: frozenset[int] = frozenset()  # of the sources that have rows for it
    basis: str = ""  # a digest of the tables on all sides
    rests: RecentRows | None = None  # on an earlier comparison: the conditions are those of rows written since
    whole_because: str = ""  # why all rows are compared, where only recent ones were asked for

    def chunks(self, number: int) -> list[Chunk]:
        """Its chunks, in the order of the key."""
        return [Chunk(number, at, condition) for at, condition in enumerate(self.conditions)]


@dataclass(frozen=True, slots=True)
class _Server:
    place: int
    session: Connection
    flavor: Flavor
    version: int
    folding: int  # lower_case_table_names


class DiffPlanner:
    """Plans the comparison of the subtasks of a task."""

    def __init__(
        self,
        subtasks: Sequence[SubtaskConfig],
        options: DiffRequest,
        stop: threading.Event,
        recent: Recent | None = None,
        kept: KeptRows | None = None,
    ) -> None:
        self._subtasks = subtasks
        self._kept = kept or KeptRows()
        self._recent = recent
        self._rules = [TableRules(subtask) for subtask in subtasks]
        self._options = options
        self._stop = stop
        self.endpoints: dict[int, Endpoint] = {TARGET: subtasks[0].target}
        self.endpoints |= {place: subtask.source.endpoint for place, subtask in enumerate(subtasks)}
        places = {TARGET_WORD: TARGET} | {subtask.source_id: place for place, subtask in enumerate(subtasks)}
        self.snapshots = Snapshots.of(options.snapshots, places)
        self.readings: dict[int, SnapshotStatements] = {}
        self.present = PresentNames((), 0)  # of the target, at the last plan

    def plan(self, only: frozenset[TableName] | None = None, *, cut: bool = True) -> list[PlannedTable]:
        """Every table that the rules lead to; only these where they are given. Not `cut`: it has no chunks yet."""
        with ExitStack() as stack:
            servers = {place: self._open(stack, place) for place in self.endpoints}
            present = self.present = PresentNames(list_tables(servers[TARGET].session), servers[TARGET].folding)
            origins: dict[TableName, list[tuple[int, TableName]]] = {}
            for place, rules in enumerate(self._rules):
                for table in list_tables(servers[place].session):
                    for name in rules.destinations(table) if rules.wanted(table) else ():
                        origins.setdefault(present.spelled(name), []).append((place, table))
            wanted = {name.lower() for name in self._options.tables}
            unknown = wanted - {str(name).lower() for name in origins}
            if unknown:
                raise DMError("diff-table-unknown", tables=", ".join(sorted(unknown)))
            chosen = [
                name
                for name in sorted(origins)
                if (not wanted or str(name).lower() in wanted) and (only is None or name in only)
            ]
            planned = []
            for name in chosen:
                if self._stop.is_set():
                    break
                planned.append(self._table(servers, name, origins[name], present, cut=cut))
            return planned

    def moments(self) -> dict[int, SnapshotStatements]:
        """What sessions say from now on, where `now` is meant; raises DMError."""
        with ExitStack() as stack:
            for place in self.snapshots.asked:
                self._open(stack, place)
        return dict(self.readings)

    @reads_answers
    def _open(self, stack: ExitStack, place: int) -> _Server:
        session = question_session(self.endpoints[place], role=role_at(place))
        stack.callback(session.close)
        asked = "SELECT VERSION(), @@lower_case_table_names"
        text, folding = (str(each) for each in fetch(session, asked, role=role_at(place))[0])
        self.readings[place] = self.snapshots.reading(place, session, dialect(flavor_of(text)))
        if self.readings[place].once:  # the structures, too, are those of that time
            fetch(session, self.readings[place].once, role=role_at(place))
        return _Server(place, session, flavor_of(text), version_number(text), int(folding))

    def _table(
        self,
        servers: dict[int, _Server],
        name: TableName,
        origins: list[tuple[int, TableName]],
        present: PresentNames,
        *,
        cut: bool,
    ) -> PlannedTable:
        planned = PlannedTable(name, places=frozenset(place for place, _ in origins))
        if name not in present:
            planned.structure.append("the target has no such table")
            return planned
        target = servers[TARGET]
        shape = shape_of(target.session, name)  # before the structure: an ALTER between them is noticed
        found = structure.read(target.session, target.flavor, name, lambda parent: parent)
        read = [self._origin(servers[place], table, name) for place, table in origins]
        for origin in read:
            seen = found
            if self._subtasks[origin.place].shard_mode == "optimistic":
                seen = self._allowed(planned, origin, found, servers, [each.structure for each in read])
            planned.structure += self._structure(origin, seen, target)
        planned.skipped = next(
            filter(None, (why_not_compared(self._rules[place], table) for place, table in origins)), ""
        )
        if planned.skipped:
            return planned
        for origin in read:
            if origin.only and self._recent is None:
                planned.structure += self._unplaced(servers[origin.place], origin.name, name)
        exact = all(subtask.spark.json_types != "text" for subtask in self._subtasks)
        all_tell = all(dialect(server.flavor, server.version).tells_json_types for server in servers.values())
        ignored = frozenset(column.lower() for column in self._options.ignore_columns)
        planned.compared = compared_table(
            name, found, target.flavor, read, ignored, json_types=exact and all_tell, shape=shape
        )
        if not planned.compared.target.row:
            planned.skipped, planned.compared = "no column is on all sides", None
            return planned
        planned.compared = replace(planned.compared, kept=self._kept.why(name))
        planned.basis = self._basis(planned.compared, [found, *(each.structure for each in read)])
        if cut:
            self._cut(servers, planned, origins)
        return planned

    def _origin(self, server: _Server, table: TableName, target: TableName) -> DiffSource:
        rules = self._rules[server.place]
        shape = shape_of(server.session, table)
        # A foreign key's parent whose rows go to several tables has no one name there.
        found = structure.read(server.session, server.flavor, table, lambda parent: rules.destinations(parent)[0])
        scattering = rules.scattered(table)
        if scattering is not None:
            left_out = scattering.columns
            kept = tuple(column for column in found.columns if column.name.lower() not in left_out)
            told = [column for column in found.columns if column.name.lower() in left_out]
            only = _rows_for(table, scattering, told, target)
            return DiffSource(server.place, table, replace(found, columns=kept), server.flavor, {}, shape, only)
        constants = {
            each.column.lower(): f"_utf8mb4 {quoted(each.value.encode()).decode()}" for each in rules.extracted(table)
        }
        return DiffSource(server.place, table, found, server.flavor, constants, shape)

    @reads_answers
    def _unplaced(self, server: _Server, table: TableName, target: TableName) -> list[str]:
        """Whether a table has rows that go to none of the target's, told of the first of these."""
        rules = self._rules[server.place]
        scattering = rules.scattered(table)
        assert scattering is not None
        names = [*scattering.tables.values()]
        if _values_of(scattering, target) != next(iter(scattering.tables)):
            return []
        columns = structure.read(server.session, server.flavor, table, lambda parent: parent).columns
        told = [column for column in columns if column.name.lower() in scattering.columns]
        placed = " OR ".join(f"({_rows_for(table, scattering, told, name)})" for name in names)
        found = fetch(server.session, f"SELECT 1 FROM {table.sql} WHERE NOT COALESCE({placed}, FALSE) LIMIT 1")
        return [f"{table} has rows that name none of the tables they go to"] if found else []

    def _allowed(
        self,
        planned: PlannedTable,
        origin: DiffSource,
        target: Structure,
        servers: dict[int, _Server],
        shards: Sequence[Structure],
    ) -> Structure:
        """The target's table as an optimistic shard is compared with it; how it may differ is noted."""
        schema, there = self._schema(servers[origin.place], origin.name), self._schema(servers[TARGET], planned.name)
        view = as_shard_sees((origin.structure, schema), (target, there), shards)
        planned.allowed += [f"{self._named(origin)}: {word}" for word in view.allowed]
        return view.target

    def _named(self, origin: DiffSource) -> str:
        return f"{origin.name} of {self._subtasks[origin.place].source_id}"

    def _structure(self, origin: DiffSource, target: Structure, server: _Server) -> list[str]:
        """How the structures differ but for ignored columns, and those that hold parts of the source's names.

        A table with such columns was made by a person, who has put them into its keys.
        """
        left_out = {name.lower() for name in self._options.ignore_columns} | origin.constants.keys()
        by_person = bool(origin.constants or origin.only)
        ours, theirs = (
            Structure(
                tuple(column for column in each.columns if column.name.lower() not in left_out),
                each.primary_key,
                frozenset() if by_person else each.indexes,
                frozenset() if by_person else each.foreign_keys,
            )
            for each in (origin.structure, target)
        )
        same, respells = same_family(origin.flavor, server.flavor), dialect(server.flavor).respells
        words = structure.differences(ours, theirs, same_flavor=same, respells=respells)
        return [f"{self._named(origin)}: {word}" for word in words]

    @reads_answers
    def _cut(self, servers: dict[int, _Server], planned: PlannedTable, origins: list[tuple[int, TableName]]) -> None:
        """Cut the table where the target's rows are; the ends are open, so no row of a source is left out."""
        planned.conditions = ["1"]
        schemas = [self._schema(servers[TARGET], planned.name)]
        schemas += [self._schema(servers[place], table) for place, table in origins]
        key = walked_key(schemas[0])
        size = fetch(
            servers[TARGET].session,
            "SELECT table_rows, avg_row_length, create_time FROM information_schema.tables"
            " WHERE table_schema = %s AND table_name = %s",
            planned.name,
        )
        *numbers, made_at = size[0]
        planned.estimated_rows, row_bytes = (int(each or 0) for each in numbers)
        assert planned.compared is not None
        planned.basis = hashlib.sha256(f"{planned.basis}{made_at}".encode()).hexdigest()
        zoned = depends_on_zone(schemas[0]) and not all(
            _in_utc(servers[place], self._subtasks[place].application_zone) for place, _ in origins
        )
        planned.compared = replace(
            planned.compared, row_bytes=row_bytes, filtered=bool(self._options.where), zoned=zoned
        )
        one_flavor = len({server.flavor for server in servers.values()}) == 1
        if key is None or not self._cuttable(key, schemas, one_flavor=one_flavor):
            planned.whole_because = "" if self._recent is None else "it has no key that is the same on all sides"
            return
        one = len(origins) == 1 and not planned.compared.origins[0].only
        ordered = one and all(dialect(server.flavor).reads_in_key_order for server in servers.values())
        planned.compared = replace(planned.compared, ordered=ordered)
        if self._recent is not None:
            recent = self._recent.of(planned.name, key, planned.basis, planned.places, planned.estimated_rows)
            if isinstance(recent, RecentRows):
                planned.rests, planned.conditions, planned.estimated_rows = recent, list(recent.conditions), recent.keys
                return
            planned.whole_because = recent
        rows = rows_per_chunk(self._options.rows, 64 << 20, row_bytes)
        session = row_session(self.endpoints[TARGET], role=role_at(TARGET))
        try:
            if self.readings[TARGET].once:
                fetch(session, self.readings[TARGET].once, role=role_at(TARGET))
            walk = KeyWalk(planned.name, key, rows, planned.estimated_rows)
            found = find_bounds(session, walk, self._stop.is_set)
        finally:
            session.close()
        bounds = found.bounds or ()
        if found.counted:  # the server's number may be of a time before the load, when there were none
            planned.estimated_rows = max(planned.estimated_rows, rows * len(bounds))
        planned.conditions = conditions(key if bounds else None, bounds)

    def _basis(self, table: ComparedTable, structures: Sequence[Structure]) -> str:
        """What changes if one of the tables is altered, also in its keys, is joined by another one, or leaves."""
        known = hashlib.sha256()
        for side, found in zip(table.sides, structures, strict=True):
            source = "" if side.place == TARGET else self._subtasks[side.place].source_id
            known.update(f"\0{source}\0{side.name}\0{side.shape}".encode())
            for each in (*sorted(found.indexes), *sorted(found.foreign_keys)):
                known.update(f"\0{each}".encode())
        return known.hexdigest()

    def _cuttable(self, key: WalkedKey, schemas: Sequence[TableSchema], *, one_flavor: bool) -> bool:
        return sorted_alike(schemas, [column.name for column in key.columns], one_flavor=one_flavor)

    def _schema(self, server: _Server, table: TableName) -> TableSchema:
        context = SourceContext(server.flavor, server.version, table.schema)
        return parse_create_table(read_structure(server.session, table), context)


def _rows_for(table: TableName, scattering: Scattering, columns: Sequence[ColumnFacts], target: TableName) -> str:
    """The condition of the rows that go to a table, by the bytes of their values as the syncer compares them."""
    parts = []
    for name, value in zip(scattering.columns, _values_of(scattering, target), strict=True):
        of = next((column for column in columns if column.name.lower() == name), None)
        if of is None:
            raise DMError("scatter-column-unfit", table=table, column=name, why="there is no such column")
        column, kind = Ident(of.name).sql, of.kind
        told = value if kind is None else kind.without_padding(value)
        hexadecimal = told.encode().hex().upper()
        if not of.charset:
            plain = column if kind is None or not kind.pads_with_zeros else f"TRIM(TRAILING x'00' FROM {column})"
            parts.append(f"HEX({plain}) = '{hexadecimal}'")
            continue
        # What an index may find comes first; the collation may take more for the same. It takes less where it has
        # NO PAD and the route's value ends in spaces, which a CHAR does not keep.
        parts.append(f"{column} = _utf8mb4 {quoted(told.encode()).decode()}")
        parts.append(f"HEX(CONVERT({column} USING utf8mb4)) = '{hexadecimal}'")
    return " AND ".join(parts)


def _values_of(scattering: Scattering, target: TableName) -> tuple[str, ...]:
    """What the rows hold that go to a table, whose name is as the target lists it."""
    tables = scattering.tables
    exact = next((values for values, name in tables.items() if name == target), None)
    return exact or next(values for values, name in tables.items() if str(name).lower() == str(target).lower())


@reads_answers
def _in_utc(server: _Server, applications: str) -> bool:
    """Whether the source's sessions are at UTC, as those are that a file of statements is executed in."""
    if not applications:
        return read_source_settings(server.session).offsets == UTC
    question = offsets_question(quoted(applications.encode()).decode())
    return offsets_of(fetch(server.session, question)) == UTC


@dataclass(frozen=True, slots=True)
class ShardView:
    """The target's table, as one shard is compared with it."""

    target: Structure
    allowed: tuple[str, ...]  # in what the shard may differ and does, in words


def as_shard_sees(
    shard: tuple[Structure, TableSchema], target: tuple[Structure, TableSchema], shards: Sequence[Structure]
) -> ShardView:
    """The target's table with all that a shard may differ in as the shard has it; `shards` are those of all sources.

    In optimistic mode each shard is altered at its own pace, and the target's table accepts the rows of all. So while
    shards differ, each differs from the target, and nothing is wrong.

    Only what the optimistic mode (`dm.syncer.shards.optimistic_gate`) produces is allowed: a column that other shards
    have, a wider type that holds all values of the shard's, NULL, the default that rows without a column need, an index
    that is not unique and that not all shards have, comments of other shards, and any order of columns. The target is
    compared as if it had these as the shard has them.

    Values of a column that a shard lacks are not compared in any shard's rows: the target has all rows in one table,
    and rows that came without the column have the target's own values.
    """
    (ours, schema), (theirs, target_schema) = shard, target
    allowed = list[str]()
    there = {column.name: column for column in theirs.columns}
    held = {column.name for each in shards for column in each.columns}
    columns = list[ColumnFacts]()
    for column in ours.columns:
        other = there.pop(column.name, None)
        if other is None:
            continue
        source, into = schema.column(column.name), target_schema.column(column.name)
        wider = source is not None and into is not None and fits(source, into)
        lacked = any(not _has(each, column.name) for each in shards)
        view = _as_allowed(column, other, shards, wider=wider, lacked=lacked)
        allowed += _words(other, view)
        columns.append(view)
    kept = [column for column in there.values() if column.name not in held]
    for name in (name for name in there if name in held):
        allowed.append(f"it lacks column {name}, which other shards have: values of the column are not compared")
    if [column.name for column in theirs.columns if column.name not in there] != [each.name for each in columns]:
        allowed.append("its columns are in another order")
    indexes = _of_some(ours.indexes ^ theirs.indexes, shards)
    allowed += [f"not all shards have {text}" for text in sorted(indexes)]
    seen = replace(
        theirs,
        columns=(*columns, *kept),
        indexes=(theirs.indexes - indexes) | (ours.indexes & indexes),
    )
    return ShardView(seen, tuple(allowed))


def _has(structure: Structure, name: str) -> bool:
    return any(column.name == name for column in structure.columns)


def _as_allowed(
    ours: ColumnFacts, theirs: ColumnFacts, shards: Sequence[Structure], *, wider: bool, lacked: bool
) -> ColumnFacts:
    """The target's column, with all that is allowed as the shard has it."""
    changes = dict[str, object]()
    if wider and theirs.type != ours.type:
        changes["type"] = ours.type
        if _same_number(ours.default, theirs.default):
            changes["default"] = ours.default
    if theirs.nullable and not ours.nullable:
        changes["nullable"] = False
    if lacked and ours.default is None and not ours.nullable:
        changes["default"] = None
    if any(column.comment == theirs.comment for each in shards for column in each.columns if column.name == ours.name):
        changes["comment"] = ours.comment
    return replace(theirs, **changes)  # type: ignore[arg-type]  # each is of its field's type


def _same_number(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return False
    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False


def _words(target: ColumnFacts, view: ColumnFacts) -> list[str]:
    fields = ("type", "nullable", "default", "comment")
    pairs = ((field, getattr(view, field), getattr(target, field)) for field in fields)
    return [
        f"column {target.name}: {field} is {ours!r} in the shard, {theirs!r} at the target"
        for field, ours, theirs in pairs
        if ours != theirs
    ]


def _of_some(indexes: frozenset[str], shards: Sequence[Structure]) -> frozenset[str]:
    """Of these indexes those that are no keys, and that some shards have and some have not."""
    return frozenset(
        text
        for text in indexes
        if not text.startswith("UNIQUE ") and len({text in each.indexes for each in shards}) > 1
    )
