"""What others write at the target, by its own binlog: what `conflicts: target-wins` decides by.

The rule. A write of the source to a row loses if the target's binlog has a write to that row by anybody but this task
after the place up to which the source had the target's writes when its own was made (`dm.sourcelog.stream.brought`).
Else its writer had seen what the target has, and it is applied. The opposite task, whose source is this target, sets
its rows whatever it finds. So where the last write of a row is the target's, both sides end with that one: the source's
earlier ones have lost here, and are overwritten there. Where it is the source's, its writer had the last one of the
target, and on neither side does that come after it. Comparing values would not do: a row that is deleted and inserted
again looks as before. `tests/testbed/conflicts_model.py` walks all orders of all steps, with crashes.

Exact to the end. The answer has to hold until the commit. So the lane first applies what does not lose, which locks
these rows, then asks where the target's binlog ends, waits until it is read up to there, looks again, and commits. A
server writes a transaction to its binlog before it lets go of the transaction's locks. If the second look finds more,
the attempt is rolled back and made again without that. What has lost once has lost for ever.

Every row is judged by itself: a row that moves is one that goes and one that comes.

The binlog is read by a thread of its own, from the opposite's place on. What this task has written is left out by its
marks, as the opposite leaves it out. What the opposite has passed is forgotten.

Statements of others count as writes to all rows of the tables that they empty or change; what the source wrote before
it had such a statement can't be judged, and pauses the task. So do rows that were written with a structure that is not
known: without column names in the binlog (`binlog_row_metadata`), the structure of now tells only of rows after the
last statement on their table.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import RowChange
from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import ServerWeights
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.table_map import TableMap, mismatch
from dm.mysql.schema.table import Column, wire_columns
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.effect_on_rows import effect_of, keeps_each_row
from dm.position import Position
from dm.progress.opposite import Opposite
from dm.sourcelog.stream.marks import Marks
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.source_log import SourceLog, SourceLogReader
from dm.sourcelog.stream.spool import OpenItems, Spool
from dm.sourcelog.stream.statement_context import query_context
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction, StatementItem
from dm.sourcelog.upstream.connection import connect, identity_for
from dm.sourcelog.upstream.facts import ServerFacts, binlog_end, collation_names, read_facts
from dm.sourcelog.upstream.remote_source import RemoteEventSource
from dm.syncer.apply.written_rows import RowDigests, WrittenRows

_ROOM: Final = 16 << 20  # bytes of a transaction in memory
_MAPS: Final = 10_000  # a table gets another map each time the server opens it
_FILE: Final = 1 << 40  # more bytes than a file has


def _order(position: Position) -> int:
    """A place in the target's binlog as one number."""
    number, offset = position.order
    return number * _FILE + offset


@dataclass(frozen=True, slots=True)
class Losing:
    """Where the target wrote the rows of a change after what the source had; None: nowhere."""

    before: int | None  # the row as it was
    after: int | None  # the row as it is, where that is another one
    moves: bool = False  # there are two rows


def place_text(place: int) -> str:
    """For the record: the file's number and the offset."""
    return f"({place // _FILE:06}, {place % _FILE})"


class _OwnSource:
    """This task's marks: what it brings from its other sources is anybody's to the opposite."""

    def __init__(self, source_id: str) -> None:
        self._source_id = source_id

    def of_others(self, source_id: str) -> bool:
        """Whether it is another source."""
        return source_id != self._source_id

    def demand(self, source_id: str, position: Position) -> None:
        """All is known."""

    def ask_again(self) -> None:
        """Nothing is asked."""


@dataclass(frozen=True, slots=True)
class _DecodedTable:
    """A table, as rows of the target's binlog are read."""

    table_map: TableMap  # kept alive: its identity is the key
    plan: TablePlan
    decoder: RowDecoder
    until: int | None  # a later statement on it says that rows up to there had another structure; None: named columns


class _DecodedTables:
    """The tables of the target by their table maps; belongs to the reading thread."""

    def __init__(
        self, schemas: TargetSchemas, facts: ServerFacts, options: PlanOptions, end: Callable[[], int]
    ) -> None:
        self._schemas = schemas
        self._facts = facts
        self._options = options
        self._end = end
        self._known: dict[int, _DecodedTable | TableMap] = {}

    def of(self, table_map: TableMap) -> _DecodedTable | None:
        """How its rows are read; None for a table without a key. Raises DMError where its structure is not known."""
        found = self._known.get(id(table_map))
        if found is None:
            if len(self._known) >= _MAPS:
                self._known.clear()
            found = self._known[id(table_map)] = self._learn(table_map) or table_map
        return found if isinstance(found, _DecodedTable) else None

    def statement(self, tables: frozenset[TableName], place: int) -> list[TableName]:
        """Forget what is known; gives the tables whose rows up to the place were read with a later structure."""
        late = [
            each.plan.target
            for each in self._known.values()
            if isinstance(each, _DecodedTable)
            and each.until is not None
            and place <= each.until
            and each.plan.target in tables
        ]
        self._known.clear()
        self._schemas.invalidate_all()
        return late

    def _learn(self, table_map: TableMap) -> _DecodedTable | None:
        name = TableName(table_map.schema, table_map.table)
        target = self._schemas.get(name)
        if target is None:
            raise DMError("conflicts-structure", table=name, why="the table is gone")
        wire = _in_order_of(table_map, wire_columns(target.schema, self._facts.flavor))
        why = mismatch(table_map, wire)
        if why is not None:
            raise DMError("conflicts-structure", table=name, why=why)
        plan = build_plan(target.schema, wire, target, self._options)
        if not plan.keyed:
            return None
        until = None if table_map.names is not None else self._end()
        return _DecodedTable(table_map, plan, RowDecoder(table_map, wire), until)


def _in_order_of(table_map: TableMap, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns that the map names, if it names any and all of them are there now."""
    by_name = {column.name: column for column in columns}
    if table_map.names is None or any(name not in by_name for name in table_map.names):
        return columns
    return tuple(by_name[name] for name in table_map.names)


class Ended(Exception):
    """The run ends while a lane waits for what is to be read."""


class TargetWrites:
    """Reads the target's binlog in a thread of its own; lanes ask."""

    def __init__(
        self,
        subtask: SubtaskConfig,
        open_session: Callable[[], TargetConnection],
        scratch: Path,
        clock: Clock,
        failed: Callable[[BaseException], None],
    ) -> None:
        self._subtask = subtask
        self._clock = clock
        self._failed = failed
        self._scratch = scratch
        self._session = connect(subtask.target, role="target")
        self._facts = facts = read_facts(self._session)
        self._asking = threading.Lock()
        self._collations = collation_names(self._session, facts)
        self._schemas = TargetSchemas(open_session)
        self._weights = ServerWeights(open_session)
        options = PlanOptions(flavor=facts.flavor, weights=self._weights, version=facts.version)
        self._tables = _DecodedTables(self._schemas, facts, options, self._end)
        self._digests = RowDigests(folded=facts.lower_case_table_names != 0)
        self._rows = WrittenRows()
        self._altered: dict[TableName | None, tuple[int, str]] = {}  # where tables were last changed as a whole
        self._read = 0
        self._news = threading.Condition()
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self, brought: Position) -> None:
        """Read from this place on; raises DMError where it is another server's."""
        self._demand_here(brought)
        start = brought
        self._read = _order(start)
        self._thread = threading.Thread(target=self._run, args=(start,), name="target-writes", daemon=True)
        self._thread.start()

    def let_go(self) -> None:
        """Have the thread end, and lanes not wait any more."""
        self._stop.set()
        with self._news:
            self._news.notify_all()

    def close(self) -> None:
        """After the lanes: wait for the thread."""
        self.let_go()
        if self._thread is not None:
            self._thread.join()
        self._session.close()
        self._schemas.close()
        self._weights.close()
        self._rows.close()

    # -- Lanes

    def losing(self, change: RowChange, brought: Position) -> Losing | None:
        """Whether a change of the source loses, by what is read; None if nothing of it does. Raises DMError."""
        plan = change.plan
        if not plan.keyed or change.safe:
            return None
        self._demand_here(brought)
        self._demand_judged(change, brought)
        place = _order(brought)
        before = self._digests.of(plan, change.before)
        after = self._digests.of(plan, change.after, change.before)
        lost = Losing(
            None if before is None else self._rows.after(before, place),
            None if after in (None, before) else self._rows.after(after, place),
        )
        moves = before is not None and after is not None and after != before
        return None if lost.before is None and lost.after is None else replace(lost, moves=moves)

    def catch_up(self) -> None:
        """Wait until all is read that the target has committed before the call; raises DMError, or Ended."""
        end = self._end()
        with self._news:
            while self._read < end:
                if self._error is not None:
                    raise self._error
                if self._stop.is_set():
                    raise Ended
                self._news.wait()

    def passed(self, brought: Position) -> None:
        """Nobody asks for an earlier place any more."""
        self._rows.passed(_order(brought))

    def _demand_here(self, brought: Position) -> None:
        if brought.server_uuid != self._facts.server_uuid:
            target = self._subtask.target.address
            raise DMError("opposite-elsewhere", task=self._subtask.opposite, target=target, position=brought)

    def _demand_judged(self, change: RowChange, brought: Position) -> None:
        if not self._altered:
            return
        had = _order(brought)
        table = self._digests.table(change.plan.target)
        for name in (table, TableName(table.schema, ""), None):
            place, why = self._altered.get(name, (0, ""))
            if place > had:
                raise DMError("conflicts-structure", table=change.plan.target, why=why)

    def _end(self) -> int:
        with self._asking:
            return _order(binlog_end(self._session, self._facts, exact=False))

    # -- The thread

    def _run(self, start: Position) -> None:
        try:
            self._follow(start)
        except BaseException as error:  # handed to the lanes, and to the owner
            if isinstance(error, DMError) and not error.retryable and error.name != "conflicts-structure":
                error = DMError("conflicts-unread", place=start, why=error.message)
            with self._news:
                self._error = error
                self._news.notify_all()
            if not self._stop.is_set():
                self._failed(error)

    def _follow(self, start: Position) -> None:
        subtask = self._subtask
        identity = identity_for(f"{subtask.task}~conflicts", subtask.source_id)
        prepared = PreparedTransactions(self._scratch / "prepared", ignores_earlier=True)
        prepared.open(0, None)
        own = Opposite(subtask.meta_schema, subtask.task)
        marks = Marks(own.tables(folded=self._facts.lower_case_table_names != 0), _OwnSource(subtask.source_id))
        log = SourceLog(
            RemoteEventSource(subtask.target, identity, clock=self._clock),
            lambda table: table.schema.lower() not in _SYSTEM and table.schema != subtask.meta_schema,
            prepared,
            gtids_ordered=self._facts.gtid_ordered,
            marks=marks,
        )
        spool = Spool(self._scratch / "spool", self._clock)
        spool.wipe()
        reader: SourceLogReader = log.open(start, OpenItems(MemoryQuota(_ROOM), spool))
        try:
            for found in reader.arrivals(self._stop):
                if found is None:
                    continue
                for transaction in reader.completed(found):
                    self._note(transaction)
                    transaction.items.release()
                    spool.passed(transaction.end)
                with self._news:
                    self._read = _order(reader.position)
                    self._news.notify_all()
        finally:
            spool.close()

    def _note(self, transaction: SourceTransaction) -> None:
        place = _order(transaction.end)
        for item in transaction.items:
            if isinstance(item, RowsItem):
                self._note_rows(item, place)
            elif isinstance(item, StatementItem):
                self._note_statement(item, place)

    def _note_rows(self, item: RowsItem, place: int) -> None:
        try:
            table = self._tables.of(item.table_map)
        except DMError as error:
            if error.retryable:
                raise
            name = TableName(item.table_map.schema, item.table_map.table)
            self._altered[self._digests.table(name)] = place, error.message
            return
        if table is None:
            return
        digests = set[bytes]()
        for before, after in table.decoder.decode(item.rows):
            for row, other in ((before, None), (after, before)):
                digest = self._digests.of(table.plan, row, other)
                if digest is not None:
                    digests.add(digest)
        self._rows.note(digests, place)

    def _note_statement(self, item: StatementItem, place: int) -> None:
        query = item.query
        context = query_context(self._facts, query, self._collations)
        effect = effect_of(query.text, context, lambda _: True)
        why = f"a statement at {place_text(place)} of the target's binlog has changed it"
        if effect.unknown:
            self._altered[None] = place, why
        elif effect.named and not _keeps(query.text, context):
            self._altered.update(dict.fromkeys(map(self._digests.table, effect.named), (place, why)))
        for name in self._tables.statement(effect.named, place):
            self._altered[self._digests.table(name)] = place, why


def _keeps(text: str, context: SourceContext) -> bool:
    try:
        return keeps_each_row(text, context)
    except DMError:
        return False  # it is not understood


_SYSTEM: Final = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
