"""From row events to lanes: look up the table, decode, convert, place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dm.changes.keys import keys_of
from dm.changes.native_changes import change_maker
from dm.changes.row_change import ChangeKind, RowChange
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.decode import RowPair
from dm.position import Position
from dm.sourcelog.stream.memory_quota import CHANGE_COST, DECODED_FACTOR, RAW_FACTOR
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction, TransactionRun
from dm.syncer.apply.completion import RunTickets, Ticket
from dm.syncer.apply.lanes import Lanes
from dm.syncer.apply.learned_tables import LearnedTables
from dm.syncer.apply.ordered_lane import ChangeStream, OrderedRows, OrderedTables
from dm.syncer.apply.safe_mode_window import Repetition, WindowReplay
from dm.syncer.apply.scattered_table import ScatteredTable
from dm.syncer.apply.source_table import KINDS, SourceTable


@dataclass(frozen=True, slots=True)
class DoneInOrder:
    """What the ordered lanes of earlier runs have done beyond L; exactly these changes are skipped."""

    ordered: Position | None  # for tables changed in order
    atomic: Position | None  # for all tables, if a run kept transactions whole


@dataclass(frozen=True, slots=True)
class RunChanges:
    """The changes of a run's transactions, one after the other."""

    changes: list[RowChange]
    cost: int  # the memory of each
    ends: list[int]  # for each transaction, how many of them end with it


class RowPlacing:
    """Turns row events into placed changes."""

    def __init__(
        self,
        tables: LearnedTables,
        ordered: OrderedTables,
        replay: WindowReplay,
        done: DoneInOrder,
        lanes: Lanes,
        *,
        atomic: bool,
    ) -> None:
        self._tables = tables
        self._known = tables.known
        self._direct = tables.direct
        self._ordered = ordered
        self._replay = replay
        self._safe_mode = replay.safe_mode
        self._ordered_done = done.ordered
        self._atomic_done = done.atomic
        self._lanes = lanes
        self._atomic = atomic  # every table goes to the ordered lane
        raw = DECODED_FACTOR if lanes.reads_all else RAW_FACTOR
        self._maker = None if atomic else change_maker(DECODED_FACTOR, raw, CHANGE_COST)
        self._filtered = FilteredRows()
        self._before = 0  # row events of the current transaction before its last DDL
        # After that.
        self._taken = 0  # row events
        self._collected = OrderedRows()

    def forget(self) -> None:
        """Drop everything derived from structures; called after every DDL."""
        self._tables.forget()
        self._ordered.after_drain()

    def take(self, items: list[RowsItem], ticket: Ticket, transaction: SourceTransaction) -> int:
        """Place changes on worker lanes, and collect those for the ordered lane; returns how many were placed."""
        gtid, end = transaction.gtid, transaction.end
        if self._atomic_done is not None and self._atomic_done.has_processed(gtid, end):
            return 0  # I9: already done, on either route
        how = self._replay.of(transaction)
        safe, maker = how.safe, self._maker if how.strict_keys is None else None
        given = at = 0
        meant = items  # whose tables an error may concern
        self._filtered.begin(items)
        try:
            while at < len(items):
                if maker is not None:
                    meant = items[at:]  # the compiled loop does not say how far it came
                    changes, cost, at, _ = maker(items, at, self._direct, safe)
                    if changes:
                        self._lanes.place_all(changes, cost // len(changes), ticket)
                        given += len(changes)
                    if at == len(items):
                        break
                meant = items[at : at + 1]
                given += self._take_item(items[at], at, ticket, transaction, how)
                at += 1
        except DMError as error:
            maps = [item.table_map for item in meant]
            error.tables = error.tables or frozenset(TableName(each.schema, each.table) for each in maps)
            raise
        self._taken += len(items)
        if safe:
            self._safe_mode.rows += given
        return given

    def changes_of_run(self, run: TransactionRun) -> RunChanges | None:
        """The changes of a run; None where one of them needs to be looked at by itself, or can't be read."""
        maker = self._maker
        if maker is None or self._atomic_done is not None or not self._replay.is_first_time(run.begin):
            return None
        items, known = run.items, self._direct.keys()
        if not known >= {id(item.table_map) for item in items}:
            return None  # at once: what was made up to there would be made again
        try:
            changes, cost, end, made = maker(items, 0, self._direct, False)
        except DMError:
            return None  # the transaction by itself says where
        if end < len(items):
            return None
        ends = [made[at - 1] if at else 0 for at in run.ends]
        return RunChanges(changes, cost // (len(changes) or 1), ends)

    def place(self, made: RunChanges, tickets: RunTickets) -> None:
        """Place the changes of a run on worker lanes."""
        self._lanes.place_run(made.changes, made.cost, tickets, made.ends)

    def _take_item(
        self, item: RowsItem, at: int, ticket: Ticket, transaction: SourceTransaction, how: Repetition
    ) -> int:
        table = self._known.get(id(item.table_map)) or self._tables.learn(item.table_map, ticket, transaction)
        if table is None:
            return 0
        kind, point = item.rows.kind, table.point
        if not table.wanted_kinds[kind] or (
            point is not None and point.has_processed(transaction.gtid, transaction.end)
        ):
            return 0
        if isinstance(table, ScatteredTable):
            return self._take_scattered(table, item, self._taken + at, ticket, transaction, how)
        plan, safe, strict = table.plan_of(item), how.safe, how.strict_keys
        if self._atomic or plan.ordered:
            self._collect(table, item, self._taken + at, transaction, safe=safe)
            return 0
        unchecked = table.unchecked(item, safe=safe)
        pairs = self._filtered.pairs(at, table, transaction, safe=safe)
        raws = table.raw_images(item, len(pairs), safe=safe)
        cost = DECODED_FACTOR * len(item.rows.data) // (len(pairs) or 1) + CHANGE_COST  # its values are read
        for (before, after), (raw_before, raw_after) in zip(pairs, raws, strict=True):
            change = RowChange(
                plan, KINDS[kind], before, after, safe, unchecked, raw_before=raw_before, raw_after=raw_after
            )
            if strict is not None and strict.hold(keys_of(change)):
                change.safe = False
            self._lanes.place(change, cost, ticket)
        return len(pairs)

    def _take_scattered(
        self,
        table: ScatteredTable,
        item: RowsItem,
        number: int,
        ticket: Ticket,
        transaction: SourceTransaction,
        how: Repetition,
    ) -> int:
        rows, strict = table.placed(item, transaction, safe=how.safe, all_in_order=self._atomic), how.strict_keys
        cost = DECODED_FACTOR * len(item.rows.data) // (len(rows) or 1) + CHANGE_COST
        done, given = dict[int, bool](), 0
        collected, key = self._collected, id(item.table_map)
        for row in rows:
            to = row.table
            if row.in_order:
                if id(to) not in done:
                    done[id(to)] = self._is_done(to, self._before + number, transaction)
                if done[id(to)]:
                    continue
                collected.tables[key] = table
                collected.begins.setdefault((key, to.plan.target), number)
                if not collected.too_many:
                    collected.changes.append(row.change(item))
                    collected.cost += cost
                else:
                    collected.changes.clear()
                continue
            change = row.change(item)
            if strict is not None and strict.hold(keys_of(change)):
                change.safe = False
            self._lanes.place(change, cost, ticket)
            given += 1
        return given

    def _is_done(self, table: SourceTable, number: int, transaction: SourceTransaction) -> bool:
        """Whether the ordered lane has done these rows in an earlier run.

        The lane's row names exactly what it has done (I5): skip that, and not a row more. After a switch of servers,
        transactions may come in another order, so each one is checked.
        """
        ordered = table.plan.ordered
        if ordered and self._ordered.is_done(table.plan, transaction, number, lost_key=table.lost_key):
            return True
        done = self._ordered_done if ordered else None
        return done is not None and done.has_processed(transaction.gtid, transaction.end)

    def _collect(
        self, table: SourceTable, item: RowsItem, number: int, transaction: SourceTransaction, *, safe: bool
    ) -> None:
        if self._is_done(table, self._before + number, transaction):
            return
        if table.mistaken and KINDS[item.rows.kind] is not ChangeKind.INSERT:
            raise DMError(
                "shard-rows-alike",
                shard=table.plan.source,
                target=table.plan.target,
                columns=", ".join(table.mistaken),
                position=str(transaction.end),
            )
        collected, key = self._collected, id(item.table_map)
        collected.tables[key] = table
        collected.begins.setdefault((key, table.plan.target), number)
        if not collected.too_many:
            changes = table.ordered_changes(item, transaction, safe=safe)
            collected.changes += changes
            collected.cost += DECODED_FACTOR * len(item.rows.data) + CHANGE_COST * len(changes)
        else:
            collected.changes.clear()

    def finish(self, first: int, last: int, ticket: Ticket, transaction: SourceTransaction) -> int:
        """Give the changes collected between these items to the ordered lane, as one target transaction.

        Returns how many changes they count as.
        """
        self._before = 0 if last == len(transaction.items) else self._before + self._taken
        self._taken = 0
        collected = self._collected
        if not collected.tables:
            return 0
        self._collected = OrderedRows()
        if collected.too_many:
            safe = self._safe_mode.covers_change(transaction.begin)
            stream = ChangeStream(transaction, (first, last), collected, self._lanes.memory, safe=safe)
            self._lanes.stream_ordered(stream, ticket)
            return 1
        if collected.changes:
            self._lanes.place_ordered(collected.changes, collected.cost, ticket)
        return len(collected.changes)


class FilteredRows:
    """The rows that expression filters keep, for one part of a transaction at a time; belongs to the dispatcher.

    A filter that the target evaluates costs a round trip, and a transaction of many small statements has as many row
    events. So one question covers all similar events of the part: the same table, kind and second. Their rows are kept
    until their turn, so the lanes get them in the source's order.
    """

    def __init__(self) -> None:
        self._items: Sequence[RowsItem] = ()
        self._known: dict[int, tuple[SourceTable, list[RowPair]]] = {}  # by the event's number

    def begin(self, items: Sequence[RowsItem]) -> None:
        """Start another part."""
        self._items = items
        self._known.clear()

    def pairs(self, at: int, table: SourceTable, transaction: SourceTransaction, *, safe: bool) -> list[RowPair]:
        """The wanted rows of an event, before and after; raises DMError."""
        row_filter = table.row_filter
        if row_filter is None or not row_filter.asks:
            return table.wanted(self._items[at : at + 1], transaction, safe=safe)[0]
        owner, pairs = self._known.pop(at, (None, []))
        if owner is table:
            return pairs
        # Not asked yet, or the table was learned again in between.
        similar = [at, *self._similar(at)]
        wanted = table.wanted([self._items[number] for number in similar], transaction, safe=safe)
        for number, kept in zip(similar[1:], wanted[1:], strict=True):
            self._known[number] = (table, kept)
        return wanted[0]

    def _similar(self, at: int) -> list[int]:
        table_map, rows = self._items[at]
        return [
            number
            for number, item in enumerate(self._items[at + 1 :], at + 1)
            if item.table_map is table_map and item.rows.kind == rows.kind and item.rows.timestamp == rows.timestamp
        ]
