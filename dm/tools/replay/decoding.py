"""Reads a backlog: a task per piece of the relay, which reduces the piece to the net effect on each row.

A piece ends before the first transaction that a replay does not take: a statement on a table of the task, an XA
transaction, or anything that can't be read or understood. The syncer meets that transaction next and reports what is
wrong with it, if anything is. Later pieces are read for nothing; that is rare, and cheaper than reading everything
twice.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from dm import faults
from dm.changes.native_changes import change_maker
from dm.changes.plan import TablePlan
from dm.changes.row_change import RowChange
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.query import Query
from dm.mysql.binlog.value import ABSENT, Row
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.effect_on_rows import effect_of
from dm.mysql.sql.statement import classify
from dm.position import Position
from dm.progress.opposite import marks_of
from dm.progress.replayed import RelayRange
from dm.progress.replication_loop import asking
from dm.rules.table_rules import TableRules
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.sourcelog.stream.memory_quota import CHANGE_COST, DECODED_FACTOR
from dm.sourcelog.stream.prepared import UnheldXa
from dm.sourcelog.stream.source_log import SourceLog, Space
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction, StatementItem, TransactionItems
from dm.sourcelog.upstream.connection import connect
from dm.syncer.apply.source_table import KINDS
from dm.syncer.ddl.planner import changes_rows
from dm.tools.replay.reduction import Net, Reduction, ReplayContext, Section, SpilledTable, SpillWriter, bucket_of
from dm.tools.replay.tables import ReplayTables

_ITEMS: Final = 512  # of a transaction that are decoded together
_ROWS: Final = 200_000  # of a round, in memory
_BYTES: Final = 64 << 20  # of what it was read from


class _Barrier(Exception):
    """A transaction that a replay does not take."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Decoded:
    """What came of a piece."""

    piece: RelayRange  # as far as it was taken
    changes: int
    rows: int  # that were touched
    barrier: str = ""  # why it ends before its end
    taken: tuple[tuple[TableName, TableName], ...] = ()  # tables of the source with changes, and the target's
    left: tuple[tuple[TableName, str], ...] = ()  # tables with changes that are the syncer's, and why
    first: tuple[TableName, ...] = ()  # of those taken, the ones that need removals before writes


@dataclass(frozen=True)
class PieceDecoder:
    """Reads pieces, each into a file."""

    around: ReplayContext
    buckets: int

    def __call__(self, piece: RelayRange) -> Decoded:
        """Reduce a piece; its file is there when this returns, for what was taken of it."""
        with self.around.tables() as tables:
            decoded = self._read(piece, tables)
            if decoded.barrier and decoded.piece.end > piece.begin:
                # The rows of the refused transaction are among those that were reduced.
                again = self._read(decoded.piece, tables)
                decoded = Decoded(
                    decoded.piece, again.changes, again.rows, decoded.barrier, again.taken, again.left, again.first
                )
        faults.hit("replay.decoded")
        return decoded

    def _read(self, piece: RelayRange, tables: ReplayTables) -> Decoded:
        tables.forget()
        writer = SpillWriter(self.around.spill(piece))
        reading = _Reading(tables, self.around, writer, self.buckets)
        scratch = Path(tempfile.mkdtemp(prefix="dm-replay-"))
        try:
            there, why = reading.take(piece, scratch)
            if why:
                return Decoded(RelayRange(piece.file, piece.begin, there), 0, 0, why)
            reading.round()
            writer.finish()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            writer.close()
        return Decoded(
            piece,
            reading.changes,
            reading.rows,
            "",
            tuple((name, table.plan.target) for name, table in tables.taken.items()),
            tuple(tables.left.items()),
            tuple(name for name, table in tables.taken.items() if table.removals_first),
        )


class _Reading:
    """One pass over a piece."""

    def __init__(self, tables: ReplayTables, around: ReplayContext, writer: SpillWriter, buckets: int) -> None:
        self._tables = tables
        self._around = around
        self._rules: TableRules = tables.rules
        self._maker = change_maker(DECODED_FACTOR, DECODED_FACTOR, CHANGE_COST)
        self._reductions: dict[TableName, Reduction] = {}
        self._buckets = buckets
        self._writer = writer
        self._bytes = 0  # since the last round
        self.changes = self.rows = 0

    def take(self, piece: RelayRange, scratch: Path) -> tuple[int, str]:
        """Reduce the piece; gives where it ends, and why there if it is not its end."""
        around, there = self._around, piece.begin
        start = Position(around.server_uuid, piece.file, piece.begin)
        subtask = around.subtask
        source = partial(connect, subtask.source.endpoint)
        log = SourceLog(
            RelayEventSource(around.relay, around.facts.flavor),
            self._rules.wanted,
            UnheldXa(_Barrier),  # the rows of an XA transaction lie before the place where they count
            gtids_ordered=around.facts.gtid_ordered,
            brought_back=asking(source, subtask.target),
            marks=marks_of(subtask, around.facts, source),
        )
        transactions = log.transactions(start, Space(subtask.syncer.reading_quota, scratch), threading.Event())
        try:
            for transaction in transactions:
                end = transaction.end
                if end.file != piece.file or end.offset > piece.end:
                    break
                self._transaction(transaction)
                there = end.offset
                if there == piece.end:
                    break
        except _Barrier as barrier:
            return there, barrier.why
        except DMError as error:
            if error.retryable:
                raise
            return there, error.message
        return piece.end, ""

    def _transaction(self, transaction: SourceTransaction) -> None:
        for items in _runs(transaction.items):
            if isinstance(items, StatementItem):
                self._statement(items)
                continue
            self._rows_of(items, transaction)
            self._bytes += sum(len(item.rows.data) for item in items)
            if self._bytes >= _BYTES or sum(map(len, self._reductions.values())) >= _ROWS:
                self.round()  # also inside a transaction: of a refused one nothing is kept

    def _statement(self, item: StatementItem) -> None:
        query, around = item.query, self._around
        if concerns(query, around.context_of(query), self._rules, around.views.__contains__):
            raise _Barrier(shown(query))

    def _rows_of(self, items: Sequence[RowsItem], transaction: SourceTransaction) -> None:
        tables, maker, at = self._tables, self._maker, 0
        while at < len(items):
            if maker is not None:
                made, _, at, _ = maker(items, at, tables.direct, False)
                self._add(made)
                if at == len(items):
                    return
            item = items[at]
            at += 1
            known = tables.by_map
            key = id(item.table_map)
            table = known[key] if key in known else tables.learn(item.table_map, transaction.end)
            if table is None:
                continue
            source, kind = table.table, KINDS[item.rows.kind]
            pairs = source.pairs(item, transaction, safe=False)
            if not item.rows.whole and any(_lacks(source.plan, before, after) for before, after in pairs):
                raise DMError("replay-partial-image", table=source.plan.source)
            raws = source.raw_images(item, len(pairs), safe=False)
            self._add(
                [
                    RowChange(source.plan, kind, before, after, False, keys=(), raw_before=first, raw_after=second)
                    for (before, after), (first, second) in zip(pairs, raws, strict=True)
                ]
            )

    def _add(self, changes: Sequence[RowChange]) -> None:
        reductions = self._reductions
        for change in changes:
            plan = change.plan
            reduction = reductions.get(plan.source)
            if reduction is None:
                reduction = reductions[plan.source] = Reduction(plan)
            reduction.add(change)
        self.changes += len(changes)

    def round(self) -> None:
        """Write what was reduced so far, and begin anew; raises DMError."""
        sections: defaultdict[Section, list[SpilledTable]] = defaultdict(list)
        for name, reduction in self._reductions.items():
            table = self._tables.taken[name]
            cut: list[list[Net]] = [[] for _ in range(self._buckets)]
            for net in reduction.nets():
                cut[bucket_of(net.key, self._buckets)].append(net)
            for bucket, nets in enumerate(cut):
                if nets:
                    section = bucket, table.removals_first
                    sections[section].append(SpilledTable(name, table.table.table_map, nets))
            self.rows += len(reduction)
        self._reductions.clear()
        self._bytes = 0
        self._writer.round(sections)


def _lacks(plan: TablePlan, before: Row | None, after: Row | None) -> bool:
    """Whether a value is missing that a later change, or the search for the row by all its keys, needs."""
    if after is not None and ABSENT in after:
        return True
    return before is not None and any(before[at] is ABSENT for at in plan.key_columns)


def _runs(items: TransactionItems) -> Iterator[StatementItem | list[RowsItem]]:
    """Statements one by one, and runs of row events that are not too long."""
    run: list[RowsItem] = []
    for item in items:
        if isinstance(item, StatementItem):
            if run:
                yield run
            run = []
            yield item
            continue
        run.append(item)
        if len(run) >= _ITEMS:
            yield run
            run = []
    if run:
        yield run


_SHOWN: Final = 200  # characters of a statement


class Followed(Protocol):
    """What a task wants, by name."""

    def wanted(self, table: TableName) -> bool:
        """Whether rows of the table matter."""
        ...

    def followed(self, table: TableName) -> bool:
        """Whether statements on it do."""
        ...


def concerns(query: Query, context: SourceContext, rules: Followed, is_view: Callable[[TableName], bool]) -> bool:
    """Whether a statement may be about tables of the task.

    Statements about other tables are passed over by the syncer's rules, including its question about views.
    """
    if query.undecodable is not None or len(query.readings) > 1:
        return True
    with suppress(DMError):
        statement = classify(query.text, context)
        if statement.kind == "dml":
            return changes_rows(query, statement.tables, rules.wanted, is_view)
    effect = effect_of(query.text, context, rules.wanted)
    return effect.unknown or any(map(rules.followed, effect.named))


def shown(query: Query) -> str:
    """The statement for people, in one line."""
    text = " ".join(query.readable.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
