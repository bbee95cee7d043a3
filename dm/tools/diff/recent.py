"""Which rows were written since a table was found equal: a comparison of these says as much as one of all rows.

A record of equality says that a table was equal, row by row, at some time after a place of each source
(`dm.progress.compared`). What no source has written since that place is at the sources as it was then. So only rows
that were written since are compared again. The answer rests on the record, and on nobody but the task having written to
the table at the target: both are told.

The relays say which rows these are, up to where the sources' binlogs end when the comparison begins. That end is where
the next comparison of this kind reads on, so it is stored as a record of its own, beside the one that it rests on. A
row is known by the values of the target's primary key.

A table is compared whole, and the reason is told, wherever that can't be exact:

- it has no record, or was different, or was made anew since, or has other source tables or columns (its `basis`);
- the relay lacks a part, or holds something that can't be read;
- a statement was executed that may have changed its rows, or foreign keys may have done so unlogged
  (`referential_actions`);
- its key has no literal that finds the row on both sides, or more than a quarter of its rows were written, or more
  than may be kept.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.chunk_plan import WalkedKey
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.row_events import RowsKind
from dm.mysql.binlog.table_map import TableMap, mismatch
from dm.mysql.binlog.value import ABSENT, Row
from dm.mysql.schema.table import Column, wire_columns
from dm.mysql.sql.effect_on_rows import effect_of
from dm.mysql.sql.literal import Encoder
from dm.position import Position
from dm.progress.compared import EqualSince, read_equal
from dm.progress.tables import SubtaskKey
from dm.rules import TableRules
from dm.session.answers import reads_answers
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.source_log import SourceLog
from dm.sourcelog.stream.source_monitor import SourceEnd
from dm.sourcelog.stream.source_server import SourceServer, open_source_server
from dm.sourcelog.stream.spool import OpenItems, Spool
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction, StatementItem
from dm.tools.diff.referential_actions import BOTH, ActingForeignKey, Change, keys_of_source, keys_of_target, reached
from dm.unit import JSON

_TOGETHER: Final = 500  # rows of a chunk; beyond this the optimizer may drop the ranges of a condition
_PART: Final = 4  # a quarter of a table may have been written; of more all rows are compared
_ALWAYS_BY_KEY: Final = 1000  # so many written rows are compared by key, whatever part of the table they are
_KEY_COST: Final = 150  # bytes in memory, beside its literals
_WAIT_SECONDS: Final = 30.0  # for a relay that is behind
_BY_KEYS: Final = "foreign keys change its rows, and the binlog does not say which"
_TABLES_KEPT: Final = 10_000  # a table gets another id each time the source opens it

KeyLiterals = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class RecentRows:
    """The rows of a table that are to be compared again, and what the answer rests on for the others."""

    conditions: tuple[str, ...]  # of chunks; none where nothing was written
    keys: int
    since: EqualSince

    def to_json(self) -> dict[str, JSON]:
        """For `--output json`."""
        return {"at": self.since.at, "place": str(self.since.place), "rows": self.keys}


@dataclass(frozen=True, slots=True)
class _WrittenTable:
    table_map: TableMap  # kept alive: its identity is the key
    decoder: RowDecoder
    target: str
    key: tuple[tuple[int, Encoder], ...]

    def literals(self, row: Row, other: Row | None) -> KeyLiterals | None:
        """Of the row's key; values that the image lacks are those of the other image. None where both lack one."""
        found = []
        for at, encode in self.key:
            value = row[at]
            if value is ABSENT and other is not None:
                value = other[at]
            if value is ABSENT:
                return None
            found.append(encode(value))
        return tuple(found)


@dataclass
class Recent:
    """What was written to the tables of a task since they were found equal; tables of the target by folded names."""

    subtasks: Sequence[SubtaskConfig]
    relays: Mapping[str, Path]  # by source
    scratch: Path
    clock: Clock
    most_bytes: int  # of keys
    whole: dict[str, str] = field(default_factory=dict)  # why it is compared whole
    keys: dict[str, dict[KeyLiterals, None]] = field(default_factory=dict)
    _equal: list[dict[str, EqualSince]] = field(default_factory=list)  # by place
    _columns: dict[str, list[str]] = field(default_factory=dict)  # of the target's primary key
    _open: set[str] = field(default_factory=set)  # tables of which not all rows are compared, as far as it was read
    _bytes: int = 0
    _acting: list[ActingForeignKey] = field(default_factory=list)  # of sources that do not log what they do
    _silent: bool = False  # there is such a source
    _changes: set[Change] | None = field(default_factory=set)  # that foreign keys that act follow; None: it may be any

    def read(self, ends: Mapping[str, Position | None], stop: threading.Event) -> None:
        """Read records and relays up to these ends of the sources; raises DMError."""
        with closing(TargetConnection(self.subtasks[0].target)) as connection:
            for subtask in self.subtasks:
                key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)
                self._equal.append(read_equal(connection, key))
            known = [(name, record.different) for found in self._equal for name, record in found.items()]
            self._columns = _primary_keys(connection, {name for name, _ in known})
            self._open = set(self._columns) - {name for name, different in known if different}
        for place, subtask in enumerate(self.subtasks):
            try:
                self._read_source(place, subtask, ends.get(subtask.source_id), stop)
            except DMError as error:
                if error.retryable:
                    raise
                words = f"source {subtask.source_id}: {error.message}"
                self._unknown_changes()
                self._give_up(self._equal[place], f"what was written since is not known: {words}")
        if self._silent and self._open:
            with closing(TargetConnection(self.subtasks[0].target)) as connection:
                self._follow_keys([*self._acting, *keys_of_target(connection)])

    def _unknown_changes(self) -> None:
        self._silent, self._changes = True, None

    def _note(self, tables: Iterable[str], kinds: Iterable[RowsKind]) -> None:
        if self._changes is not None:
            self._changes.update((name, kind) for name in tables for kind in kinds if kind != "insert")

    def _follow_keys(self, keys: Sequence[ActingForeignKey]) -> None:
        known = {name for found in self._equal for name in found}
        self._give_up(sorted(reached(keys, self._changes) & known), _BY_KEYS)

    def of(self, table: TableName, key: WalkedKey, basis: str, places: Collection[int], rows: int) -> RecentRows | str:
        """What of a table with about so many rows is to be compared again; in words why all of it is."""
        name = _folded(table)
        if name in self.whole:
            return self.whole[name]
        records = [self._equal[place].get(name) for place in sorted(places)]
        known = [record for record in records if record is not None]
        if not known or len(known) < len(records):
            return "no comparison has found it equal"
        if any(record.different for record in known):
            return "the last comparison has found it different"
        if any(record.basis != basis for record in known):
            return "it was made anew, or has other columns or source tables, since it was found equal"
        if [column.name.lower() for column in key.columns] != self._columns.get(name):
            return "it has no primary key that is the same on all sides"
        keys = self.keys.get(name, {})
        if len(keys) > max(_ALWAYS_BY_KEY, rows // _PART):
            return f"{len(keys)} of its rows were written since, which is more than a quarter of it"
        since = min(known, key=lambda each: each.at)
        return RecentRows(tuple(_conditions(key.columns, sorted(keys))), len(keys), since)

    def _give_up(self, tables: Iterable[str], why: str) -> None:
        for name in tables:
            self.whole.setdefault(name, why)
            self._open.discard(name)
            for key in self.keys.pop(name, {}):
                self._bytes -= _cost(key)

    # -- One source

    def _read_source(self, place: int, subtask: SubtaskConfig, end: Position | None, stop: threading.Event) -> None:
        records = {name: record for name, record in self._equal[place].items() if not record.different}
        relay = self.relays.get(subtask.source_id)
        if not records or not self._open:
            self._unknown_changes()
            return
        if relay is None or end is None:
            why = "the task has no relay" if relay is None else "nobody knows where its binlog ends"
            self._unknown_changes()
            self._give_up(records, f"source {subtask.source_id}: {why}")
            return
        start: Position | None = None
        for record in records.values():
            start = record.place if start is None or start.covers(record.place) else start
        assert start is not None
        server = open_source_server(subtask, relay, self.clock)
        rules = TableRules(subtask)
        tables = _WrittenTables(server, rules, self._columns)
        if not server.facts.logs_cascades:
            self._silent = True
            self._acting += keys_of_source(server, rules)
        for transaction in self._transactions(server, subtask, start, end, stop):
            if not self._open:  # what is left of the log can't be of use
                return
            for item in transaction.items:
                if isinstance(item, StatementItem):
                    self._statement(tables, item, records, transaction.end)
                elif isinstance(item, RowsItem):
                    self._rows(tables, item, records)

    def _statement(
        self, tables: _WrittenTables, item: StatementItem, records: Mapping[str, EqualSince], end: Position
    ) -> None:
        why = f"a statement at {end} may have changed its rows"
        effect = tables.effect_of(item)
        if effect is None:
            self._changes = None
            self._give_up(records, why)
            return
        changed, other_keys = effect
        self._give_up(sorted(changed), why)
        if not tables.server.facts.logs_cascades:  # the keys that are there now are not those that acted then
            self._give_up(sorted(other_keys), _BY_KEYS)
            self._note(changed | other_keys, BOTH)

    def _rows(self, tables: _WrittenTables, item: RowsItem, records: Mapping[str, EqualSince]) -> None:
        table = tables.of(item.table_map)
        if not tables.server.facts.logs_cascades:
            self._note(table[0] if isinstance(table, tuple) else [table.target], [item.rows.kind])
        if isinstance(table, tuple):
            self._give_up(*table)
            return
        if table.target not in records or table.target in self.whole:
            return
        known = self.keys.setdefault(table.target, {})
        for before, after in table.decoder.decode(item.rows):
            for row, other in ((before, after), (after, before)):
                if row is None:
                    continue
                key = table.literals(row, other)
                if key is None:
                    self._give_up([table.target], "the source's binlog lacks parts of its keys")
                    return
                if key not in known:
                    known[key] = None
                    self._bytes += _cost(key)
        while self._bytes > self.most_bytes:
            largest = max(self.keys, key=lambda name: len(self.keys[name]))
            self._give_up([largest], "more of its rows were written than may be kept in memory")

    def _transactions(
        self, server: SourceServer, subtask: SubtaskConfig, start: Position, end: Position, stop: threading.Event
    ) -> Iterator[SourceTransaction]:
        """Everything from one place to another; raises DMError where the relay has not got so far in time."""
        wanted, until = SourceEnd(end, 0.0, 0.0), self.clock.monotonic() + _WAIT_SECONDS
        prepared = PreparedTransactions(self.scratch / "prepared")
        prepared.open(0, None)
        wants = TableRules(subtask).wanted
        log = SourceLog(server.event_source(), wants, prepared, gtids_ordered=server.facts.gtid_ordered)
        spool = Spool(self.scratch / "spool", self.clock)
        spool.wipe()
        reader = log.open(start, OpenItems(MemoryQuota(subtask.syncer.reading_quota), spool))
        try:
            if wanted.is_covered_by(start):
                return
            for found in reader.arrivals(stop):
                if found is not None:
                    for transaction in reader.completed(found):
                        yield transaction
                        transaction.items.release()
                        spool.passed(transaction.end)
                if wanted.is_covered_by(reader.position):
                    return
                if found is None and self.clock.monotonic() > until:
                    raise DMError("diff-relay-behind", there=reader.position, wanted=end)
        finally:
            spool.close()


@dataclass
class _WrittenTables:
    """The tables of a source, by their table maps."""

    server: SourceServer
    rules: TableRules
    columns: Mapping[str, list[str]]  # of the keys at the target
    _known: dict[int, _WrittenTable | tuple[list[str], str]] = field(default_factory=dict)
    _maps: list[TableMap] = field(default_factory=list)

    def of(self, table_map: TableMap) -> _WrittenTable | tuple[list[str], str]:
        """How keys are read; or the target's tables, and why they can't be."""
        found = self._known.get(id(table_map))
        if found is None:
            if len(self._maps) >= _TABLES_KEPT:
                self._known.clear()
                self._maps.clear()
            self._maps.append(table_map)
            found = self._known[id(table_map)] = self._learn(table_map)
        return found

    def _learn(self, table_map: TableMap) -> _WrittenTable | tuple[list[str], str]:
        name = TableName(table_map.schema, table_map.table)
        if self.rules.scattered(name) is not None:
            return sorted(self._at_target([name])), f"rows of {name} go to several tables"
        target = _folded(self.rules.route(name))
        schema = self.server.read_structure(name)
        if schema is None:
            return [target], f"{name} is gone from the source"
        wire = wire_columns(schema, self.server.facts.flavor)
        why = mismatch(table_map, wire)
        if why is not None:
            return [target], f"rows of {name} were written with another structure: {why}"
        places = {column.name.lower(): at for at, column in enumerate(wire)}
        key = []
        for column_name in self.columns.get(target, []):
            at = places.get(column_name)
            if at is None or not _has_literal(wire[at]):
                return [target], f"its key's column {column_name} has no literal that is the same on all sides"
            key.append((at, wire[at].type.encoder(wire[at].charset)))
        return _WrittenTable(table_map, RowDecoder(table_map, wire), target, tuple(key))

    def effect_of(self, item: StatementItem) -> tuple[set[str], set[str]] | None:
        """The target's tables whose rows a statement may have changed, and whose foreign keys; None: of any."""
        query = item.query
        if query.undecodable is not None or len(query.readings) > 1:
            return None
        effect = effect_of(query.text, self.server.context_of(query), self.rules.wanted)
        if effect.unknown or any(not table.table for table in effect.changed):
            return None
        return self._at_target(effect.changed), self._at_target(effect.other_foreign_keys)

    def _at_target(self, tables: Iterable[TableName]) -> set[str]:
        rules = self.rules
        return {_folded(name) for table in tables if rules.wanted(table) for name in rules.destinations(table)}


def _folded(table: TableName) -> str:
    return str(table).lower()


def _cost(key: KeyLiterals) -> int:
    return _KEY_COST + sum(map(len, key))


def _has_literal(column: Column) -> bool:
    """Whether a value's literal finds the row at any server, in any session."""
    kind = column.type
    return kind.in_lists and (kind.sorted_alike or kind.is_text) and not (kind.is_float or kind.is_moment)


def _conditions(columns: Sequence[Column], keys: Sequence[KeyLiterals]) -> Iterator[str]:
    """Conditions that are true of these rows: some of them each, neighbours together."""
    names = [Ident(column.name).sql for column in columns]
    if len(columns) == 1 and columns[0].type.is_integer:
        keys = sorted(keys, key=lambda key: int(key[0]))
    for at in range(0, len(keys), _TOGETHER):
        some = [[literal.decode() for literal in key] for key in keys[at : at + _TOGETHER]]
        if len(names) == 1:
            yield f"{names[0]} IN ({', '.join(key[0] for key in some)})"
        else:
            rows = (" AND ".join(f"{name} = {text}" for name, text in zip(names, key, strict=True)) for key in some)
            yield " OR ".join(f"({row})" for row in rows)


@reads_answers
def _primary_keys(connection: TargetConnection, tables: Collection[str]) -> dict[str, list[str]]:
    rows = connection.query(
        "SELECT table_schema, table_name, column_name FROM information_schema.statistics"
        " WHERE index_name = 'PRIMARY' ORDER BY table_schema, table_name, seq_in_index"
    )
    found: dict[str, list[str]] = {}
    for schema, table, column in rows:
        name = _folded(TableName(str(schema), str(table)))
        if name in tables:
            found.setdefault(name, []).append(str(column).lower())
    return found
