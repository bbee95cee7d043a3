"""All rules of a subtask, with one interface, `TableRules`: what the syncer, the dump and the load ask of them.

`DumpSelection` is what dumpling's `-B`, `-T` and `-f` in `extra-args` leave of the lists: DM gives these options to
dumpling. `-T` names tables, `-f` has patterns; either stands in place of the block-allow-list. `-B` names schemas, and
a table must be in one of them besides. Of several patterns the last that fits decides: one that begins with `!` leaves
out. Server schemas never take part.

It decides for tasks that only load. One that follows the binlog follows what the lists say, and the rows of a table
that the dump has left out would be missing: there the lists decide alone, and a precheck asks the source whether that
is what the options mean (dm/task/precheck/not_migrated.py).

In a shard merge, not all tables of a subtask belong to the stream that is read now (`OwnedTables`). While a share of a
task's tables is loaded beside its stream, that stream, main, leaves the share out (`BesideShare`). The stream of the
share has nothing else: it has `share` in its configuration, and `TableRules` heeds that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, Protocol, TypeVar

from dm.config.dumper import DumperConfig, TableFilter
from dm.config.expression import ExpressionFilter, read_expression
from dm.config.subtask import Share, SubtaskConfig
from dm.ident import TableName
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.schema.translation import Translation
from dm.rules.block_allow import SYSTEM_SCHEMAS, TableSelection
from dm.rules.event_filter import EventFilter, Verdict
from dm.rules.router import ExtractedColumn, OnlineTables, Router, Scattering
from dm.rules.row_filter import Judges, RowFilter

K = TypeVar("K")
V = TypeVar("V")
RowEvent = Literal["insert", "update", "delete"]


def has_table(share: Share, older: TableSelection | None, table: TableName) -> bool:
    """Whether a table is of the share; `older` is the list of before, where the share names one."""
    if older is not None:
        return not older.wanted(table)
    return (table.schema, table.table) in share.tables


_CACHED = 100_000  # decisions kept; a source with more tables pays for the decision again


class _Selection(Protocol):
    def wanted(self, name: TableName) -> bool: ...


class _OfShare:
    """What a list and a share both want."""

    def __init__(self, lists: _Selection, share: Share, *, case_sensitive: bool) -> None:
        self._lists = lists
        self._share = share
        self._older = None if share.older is None else TableSelection(share.older, case_sensitive=case_sensitive)

    def wanted(self, name: TableName) -> bool:
        return self._lists.wanted(name) and has_table(self._share, self._older, name)


SCRATCH: Final = "_check_"
"""Between the name of a meta schema and a number: a schema in which a check tries something out."""


class _BesideProgress:
    """What is wanted of a source that another task writes to: not the progress of that."""

    def __init__(self, lists: _Selection, meta_schema: str) -> None:
        self._lists = lists
        self._meta_schema = meta_schema.lower()

    def wanted(self, name: TableName) -> bool:
        schema = name.schema.lower()
        own = schema == self._meta_schema or schema.startswith(self._meta_schema + SCRATCH)
        return not own and self._lists.wanted(name)


class TableRules:
    """The rules of one subtask; pure, safe to share between threads (decisions are cached, and equal each time)."""

    def __init__(self, subtask: SubtaskConfig) -> None:
        case_sensitive = subtask.case_sensitive
        selection: _Selection = TableSelection(subtask.block_allow_list, case_sensitive=case_sensitive)
        if subtask.opposite:
            selection = _BesideProgress(selection, subtask.opposite_meta_schema)
        self._of_task = selection.wanted  # whichever of its streams has them
        if subtask.share is not None:
            selection = _OfShare(selection, subtask.share, case_sensitive=case_sensitive)
        self._chosen = self.asked_of_dump = selection.wanted
        if subtask.mode in ("full", "dump", "all") and subtask.dumper.chooses:
            self.asked_of_dump = DumpSelection(subtask.dumper, selection.wanted, case_sensitive=case_sensitive).wanted
        if subtask.mode in ("full", "dump"):  # nothing is followed: what the dump is told decides
            self._chosen = self.asked_of_dump
        self._router = Router(subtask.routes, case_sensitive=case_sensitive, source_id=subtask.source.source_id)
        self._filter = EventFilter(subtask.filters, case_sensitive=case_sensitive)
        self.online = (
            OnlineTables(subtask.shadow_table_rules, subtask.trash_table_rules)
            if subtask.online_ddl
            else OnlineTables()
        )
        self.translation = Translation.of(subtask.collation_map, subtask.engine_map)
        self._expressions = subtask.expression_filters
        self._case_sensitive = case_sensitive
        self._zone = subtask.timezone
        self._wanted: dict[TableName, bool] = {}
        self._routed: dict[TableName, TableName] = {}
        self._rows: dict[tuple[TableName, RowEvent], Verdict] = {}

    @property
    def second(self) -> bool:
        """Whether they are those of a second pass of a shard merge."""
        return False

    @property
    def of_pass(self) -> frozenset[TableName]:
        """The tables that a second pass of a shard merge has yet."""
        return frozenset()

    def elsewhere(self, table: TableName) -> bool:
        """Whether the statements on a table count in another reading of a shard merge."""
        return False

    def in_another_stream(self, table: TableName) -> bool:
        """Whether a table is the task's, but in another stream or reading of it: a share's, a branch's."""
        return self._of_task(self.online.real(table)) and not self.followed(table)

    def wanted(self, table: TableName) -> bool:
        """Whether the rows of a table are migrated; an empty table asks for the schema as a whole.

        The block-allow-list decides, or what the dump is told in its place. Tables of an online DDL tool never take
        part.
        """
        known = self._wanted.get(table)
        if known is None:
            known = self._chosen(table) and self.online.kind(table) == "real"
            _keep(self._wanted, table, known)
        return known

    def followed(self, table: TableName) -> bool:
        """Whether the statements on a table count: those on its ghost do where those on the real table do."""
        return self._chosen(self.online.real(table))

    def owned(self, table: TableName) -> bool:
        """Whether the table's events are for the stream that has these rules."""
        del table
        return True

    def keeps_schema(self, schema: str) -> bool:
        """Whether another stream of the task has tables in a schema, so that this one can't drop it."""
        del schema
        return False

    def route(self, table: TableName) -> TableName:
        """The target's name of a source table; raises DMError `route-ambiguous`, or `table-scattered`."""
        known = self._routed.get(table)
        if known is None:
            known = self._router.route(table)
            _keep(self._routed, table, known)
        return known

    def scattered(self, table: TableName) -> Scattering | None:
        """The tables that the rows of this one go to by their values; None where all go to one table."""
        return self._router.scattered(table)

    def scattered_columns(self, table: TableName) -> tuple[str, ...]:
        """The columns that name the table of a row, in lower case; none where all go to one table."""
        scattered = self.scattered(table)
        return () if scattered is None else scattered.columns

    def destinations(self, table: TableName) -> tuple[TableName, ...]:
        """The target's names of a source table: more than one where its rows are scattered."""
        scattered = self.scattered(table)
        return (self.route(table),) if scattered is None else tuple(scattered.tables.values())

    def extracted(self, table: TableName) -> tuple[ExtractedColumn, ...]:
        """Columns of the target that hold parts of the names; raises DMError `route-extract-unmatched`."""
        return self._router.extracted(table)

    def names_source(self, table: TableName, others: Iterable[str]) -> bool:
        """Whether one of them says of a row that it is of this source and of none of the others."""
        return self._router.names_source(table, others)

    def filled(self, table: TableName) -> frozenset[str]:
        """The names of these columns in lower case; raises DMError `route-extract-unmatched`."""
        return frozenset(each.column.lower() for each in self.extracted(table))

    def row_event(self, table: TableName, event: RowEvent) -> Verdict:
        """What the event filter says of row changes; raises DMError `event-refused` for `action: Error`."""
        known = self._rows.get((table, event))
        if known is None:
            known = self._filter.decide(table, event)
            _keep(self._rows, (table, event), known)
        return known

    def ddl_event(self, table: TableName, event: str, sql: str, *, alters: bool = False) -> Verdict:
        """What the event filter says of one DDL operation; `sql` is the original statement, whole and as written.

        `alters`: the operation is one of an ALTER TABLE, so that `alter table` names it too.
        """
        return self._filter.decide(table, event, sql, alters=alters)

    def sql_pattern_ignores(self, sql: str) -> bool:
        """Whether a statement that can't be understood is skipped by a rule for every schema with a `sql-pattern`."""
        return self._filter.ignores_text(sql)

    def keeps_rows(self, *, replaces: bool) -> str:
        """By which event filter the target may have rows that the source has removed (`EventFilter.keeps_rows`)."""
        return self._filter.keeps_rows(replaces=replaces)

    def row_filter(
        self, table: TableSchema, columns: Sequence[Column] | None = None, judges: Judges | None = None
    ) -> RowFilter | None:
        """The expression filters of a table compiled for rows of these columns (all of the table's when not given)."""
        rules = [rule for rule in self._expressions if self.concerns(rule, table.name)]
        judges = judges or Judges()
        return RowFilter.compile(rules, columns or table.columns, judges, self._zone or judges.zone) if rules else None

    def filters_rows(self, table: TableName) -> bool:
        """Whether there is an expression filter for the table."""
        return any(self.concerns(rule, table) for rule in self._expressions)

    def columns_of_filters(self, table: TableName) -> Iterator[tuple[str, frozenset[str]]]:
        """The names of the table's expression filters, each with the columns that it refers to, in lower case."""
        for rule in self._expressions:
            if self.concerns(rule, table):
                columns = (read_expression(text).columns for _, text in rule.expressions)
                yield rule.name or rule.table, frozenset[str]().union(*columns)

    def concerns(self, rule: ExpressionFilter, table: TableName) -> bool:
        """Whether an expression filter is one of this table."""
        named = TableName(self._folded(rule.schema_name), self._folded(rule.table))
        return named == TableName(self._folded(table.schema), self._folded(table.table))

    @property
    def _folded(self) -> Callable[[str], str]:
        return str if self._case_sensitive else str.lower


def _keep(cache: dict[K, V], key: K, value: V) -> None:
    if len(cache) >= _CACHED:
        cache.clear()
    cache[key] = value


_Wanted = Callable[[TableName], bool]


class DumpSelection:
    """Decides which tables a dump has; an empty table asks for the schema as a whole."""

    def __init__(self, dumper: DumperConfig, lists: _Wanted, *, case_sensitive: bool) -> None:
        self._folded: Callable[[str], str] = str if case_sensitive else str.lower
        self._lists = lists
        self._schemas = frozenset(map(self._folded, dumper.databases))
        self._tables = frozenset(TableName(*self._folded(name).split(".", 1)) for name in dumper.tables)
        self._filters = [TableFilter.parse(rule, case_sensitive=case_sensitive) for rule in dumper.table_filters]

    def wanted(self, name: TableName) -> bool:
        """Whether the dump has the table."""
        folded = TableName(self._folded(name.schema), self._folded(name.table))
        if self._schemas and folded.schema not in self._schemas:
            return False
        if not self._tables and not self._filters:
            return self._lists(name)
        if name.schema.lower() in SYSTEM_SCHEMAS:
            return False
        if self._tables:
            return folded in self._tables or (
                not name.table and any(folded.schema == one.schema for one in self._tables)
            )
        return self._passes(name)

    def _passes(self, name: TableName) -> bool:
        for rule in reversed(self._filters):
            decides = rule.table(name.table) if name.table else rule.positive or rule.every_table
            if decides and rule.schema(name.schema):
                return rule.positive
        return False


class OwnedTables(TableRules):
    """Main has all tables but those that are held; a second pass has just its own.

    Main's reader keeps the rows of held tables, since an XA transaction that was prepared while its table is held may
    be committed when it is not. The dispatcher leaves them out (`owned`). The tables of an online DDL tool belong to
    whoever has the real one.
    """

    def __init__(
        self, subtask: SubtaskConfig, *, held: Iterable[TableName] = (), only: Iterable[TableName] | None = None
    ) -> None:
        super().__init__(subtask)
        self._held = set(held)
        self._only = None if only is None else frozenset(map(self.online.real, only))

    def owned(self, table: TableName) -> bool:
        """Whether the table's events are this stream's."""
        real = self.online.real(table)
        return real not in self._held and (self._only is None or real in self._only)

    def wanted(self, table: TableName) -> bool:
        """Whether the rows of a table are to be read."""
        return super().wanted(table) and (self._only is None or table in self._only)

    def followed(self, table: TableName) -> bool:
        """Whether the statements on a table count here."""
        return super().followed(table) and self.owned(table)

    def elsewhere(self, table: TableName) -> bool:
        """Whether the statements on a table count in another reading."""
        return super().followed(table) and not self.owned(table)

    @property
    def second(self) -> bool:
        """Whether they are those of a second pass."""
        return self._only is not None

    def hold(self, table: TableName) -> None:
        """The table is held from here on."""
        self._held.add(table)

    @property
    def of_pass(self) -> frozenset[TableName]:
        """The tables that a second pass has yet."""
        return frozenset() if self._only is None else self._only - self._held

    @property
    def left(self) -> bool:
        """Whether there is a table yet: main always has one to come."""
        return self._only is None or bool(self.of_pass)


class BesideShare(TableRules):
    """Main's rules, while tables are in streams of their own.

    Its reader keeps the rows of these shares, since an XA transaction that is prepared now may be committed when the
    tables are main's. The dispatcher leaves them out (`owned`).
    """

    def __init__(self, subtask: SubtaskConfig, shares: Sequence[Share]) -> None:
        super().__init__(subtask)
        self._shares = [
            (one, None if one.older is None else TableSelection(one.older, case_sensitive=subtask.case_sensitive))
            for one in shares
        ]

    def owned(self, table: TableName) -> bool:
        """Whether the table's events are main's."""
        real = self.online.real(table)
        return not any(has_table(share, older, real) for share, older in self._shares)

    def followed(self, table: TableName) -> bool:
        """Whether the statements on a table count for main."""
        return super().followed(table) and self.owned(table)

    def keeps_schema(self, schema: str) -> bool:
        """Whether tables of a share may be in a schema that main has."""
        return any(
            share.older is not None or any(name == schema for name, _ in share.tables) for share, _ in self._shares
        )
