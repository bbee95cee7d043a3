"""From events to transactions.

The assembler knows where transactions begin and end. All later stages work on whole transactions, so a position is
always between two of them, and a connection that breaks inside one costs only reading it again.

  MySQL:    GTID or ANONYMOUS_GTID, then QUERY(BEGIN) .. XID | QUERY(COMMIT) | QUERY(ROLLBACK) | XA_PREPARE,
            or one QUERY with a DDL. CREATE TABLE .. SELECT is a QUERY inside BEGIN .. XID (atomic DDL).
            TRANSACTION_PAYLOAD holds the events from BEGIN to XID, compressed.
  MariaDB:  GTID begins the group (no BEGIN follows); flag FL_STANDALONE says that one QUERY is the whole group.
  XA:       MySQL has QUERY(XA START) for BEGIN; both have QUERY(XA END), XA_PREPARE at the end. A later group is one
            QUERY(XA COMMIT | XA ROLLBACK). COMMIT ONE PHASE is an XA_PREPARE with a flag in MySQL, an XID in MariaDB.
            An XA transaction without changes, or rolled back unprepared, is not logged. See `prepared.py`.

Rows of unwanted tables are dropped here, by their table map, before they cost memory. So are the transactions that the
opposite task has written (`marks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dm.errors import DMError
from dm.gtid import Gtid, GtidSet
from dm.ident import TableName
from dm.mysql.binlog.event import RawEvent, SourceEvent, SourceRun
from dm.mysql.binlog.header import LOG_EVENT_ARTIFICIAL_F
from dm.mysql.binlog.reader import (
    Event,
    EventParser,
    FormatDescription,
    FoundTransaction,
    GtidEvent,
    GtidList,
    Heartbeat,
    MariadbBinlogCheckpoint,
    PreviousGtids,
    Query,
    Rotate,
    Rows,
    TableMap,
    TableMapEvent,
    TransactionPayload,
    XaPrepare,
    Xid,
)
from dm.mysql.binlog.row_events import gtid_of
from dm.mysql.dialect import dialect
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.stream.file_births import FileBirth, FileBirths
from dm.sourcelog.stream.marks import Marks, OpenMarks, Writer
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.prepared import PreparedItems, UndecidedXa
from dm.sourcelog.stream.spool import OpenItems
from dm.sourcelog.stream.transaction import BroughtBackCheck, RowsItem, SourceTransaction, StatementItem, TransactionRun

_BEGIN = (b"BEGIN", b"begin")
QUOTA_BYTES = 64 << 20  # the default
# A table gets another id each time the source opens it, so ids are endless. Between transactions none is needed.
MAPS_KEPT = 16384


class TransactionAssembler:
    """Takes events in order, yields transactions; remembers the position after the last complete one."""

    def __init__(
        self,
        start: Position,
        wanted: Callable[[TableName], bool],
        xa: UndecidedXa,
        items: OpenItems | None = None,
        *,
        gtids_ordered: bool = True,
        births: FileBirths | None = None,
    ) -> None:
        self.timed = False  # its transactions have the moment of their commit
        self.brought_back: BroughtBackCheck | None = None  # where what comes from the target is not to be applied there
        self._progress: dict[int, TableName] = {}  # tables of tasks that write to the source, in the open transaction
        self._opposite: OpenMarks | None = None  # where what the opposite task has written is left out
        self._moment = 0  # of the open transaction, where the source says it
        self._position = start
        self._wanted = wanted
        self._gtids_ordered = gtids_ordered
        self._gtids_known = bool(start.gtid_set) or start.offset <= MAGIC_SIZE
        self._adopt_gtids = not start.gtid_set and start.offset <= MAGIC_SIZE
        self._maps: dict[int, TableMap | None] = {}  # None: unwanted
        self._gtid: Gtid | None = None
        self._announced_only = False
        self._in_transaction = False
        self._open = False  # the end of an open transaction is not read yet
        self._items = OpenItems(MemoryQuota(QUOTA_BYTES), None) if items is None else items
        self._parser = EventParser(largest_unpacked=self._items.room)
        self._size = 0
        self._xa = xa
        self._births = births or FileBirths()
        self._xid = ""  # as XA END spells it: the open transaction is an XA transaction
        self._left_out: set[TableName] = set()
        self._starts = 0  # starts of the server, as seen in its files

    @property
    def position(self) -> Position:
        """The end of the last complete transaction."""
        return self._position

    def leave_out(self, marks: Marks | None) -> None:
        """Leave out what the opposite task has written; None: there is no such task."""
        self._opposite = None if marks is None else OpenMarks(marks)

    def restart(self) -> None:
        """Drop the open transaction: the events after `position` come again, from its first."""
        self._maps.clear()
        self._gtid = None
        self._announced_only = False
        self._in_transaction = self._open = False
        self._items.discard()
        self._size = 0
        self._xid = ""
        self._left_out.clear()
        self._progress.clear()
        self._forget_marks()

    def feed(self, event: SourceEvent) -> SourceTransaction | None:
        """Take the next event; returns a transaction when the event completes one that is not processed yet."""
        raw = event.raw
        if not self._gtids_ordered and self._position.file and event.server_uuid != self._position.server_uuid:
            # Numbers don't tell what this server repeats; the next run asks it where to continue.
            raise DMError("source-switched", now=event.server_uuid, before=self._position.server_uuid)
        self._size += len(raw.data)
        parsed = self._parse(raw, event)
        # Nearly all events are rows, or a known table map.
        if type(parsed) is Rows:
            self._rows(parsed, event)
            return None
        if type(parsed) is TableMapEvent and self._maps.get(parsed.table_id) is parsed.table_map:
            return None
        if isinstance(parsed, TransactionPayload):
            completed = None
            for inner in parsed.events(self._items.room):
                completed = self._take(self._parse(inner, event), event, inner.header.timestamp) or completed
            return completed
        return self._take(parsed, event, raw.header.timestamp)

    def feed_run(self, run: SourceRun) -> Iterator[SourceTransaction]:
        """Take consecutive events; yields the transactions they complete, each as soon as it is complete."""
        return (found for found in self.feed_together(run, most=0) if isinstance(found, SourceTransaction))

    def feed_together(self, run: SourceRun, *, most: int) -> Iterator[SourceTransaction | TransactionRun]:
        """The same, with runs of transactions that take `most` bytes of memory."""
        events, uuid, file, offset, _ = run
        at = 0
        while at < len(events):
            if not self._open and self._gtids_ordered and not self.timed:
                found, at = self._parser.transactions_of(events, at, self._maps, RowsItem, self._items.step)
                together = self._together(found, uuid, file, offset, most) if most and len(found) > 1 else None
                if together is not None:
                    offset, found = together.end.offset, []
                    yield together
                for plain in found:
                    offset += plain.length
                    transaction = self._whole(plain, uuid, file, offset)
                    if transaction is not None:
                        yield transaction
                if at == len(events):
                    return
            # Outside of a transaction each event is looked at: a table map alone is refused. So is it after a mark.
            if self._open and (self._opposite is None or not self._opposite.tables):
                items, rows_size, size, after = self._parser.rows_of(events, at, self._maps, RowsItem)
                if items:
                    self._items.add_run(items, rows_size)
                self._size += size
                offset += size
                at = after
                if at == len(events):
                    return
            raw = events[at]
            at += 1
            offset += len(raw.data)
            completed = self.feed(SourceEvent(raw, uuid, file, offset))
            if completed is not None:
                yield completed

    def _parse(self, raw: RawEvent, event: SourceEvent) -> Event:
        try:
            return self._parser.parse(raw)
        except DMError as error:
            if error.position is None:
                error.position = f"({event.file}, {event.end_offset - raw.header.size})"
            raise

    def _take(self, event: Event, at: SourceEvent, timestamp: int) -> SourceTransaction | None:
        if isinstance(event, Rows):
            self._rows(event, at)
        elif isinstance(event, TableMapEvent):
            self._expect_open(at)
            self._table_map(*event)
        elif isinstance(event, Query):
            return self._query(event, at, timestamp)
        elif isinstance(event, Xid):
            self._expect_open(at)
            return self._end(at, timestamp)
        elif isinstance(event, GtidEvent):
            self._begin_group(event)
        elif isinstance(event, XaPrepare):
            self._expect_open(at)
            return self._xa_prepare(event, at, timestamp)
        elif isinstance(event, Rotate):
            return self._rotate(event, at, timestamp)
        elif isinstance(event, PreviousGtids | GtidList):
            self._file_start(event.gtid_set, at)
            return self._between(at, timestamp)
        elif isinstance(event, MariadbBinlogCheckpoint | Heartbeat):
            return self._between(at, timestamp)
        elif isinstance(event, FormatDescription):
            new = self._births.seen(FileBirth(at.server_uuid, at.file, timestamp))
            self._maps.clear()  # a restarted server may reuse the numbers
            at_start = new and bool(event.created)  # a lost connection sends the same file again
            if at_start:
                self._starts += 1
            if self._opposite is not None:
                place, server_id = self._position, at.raw.header.server_id
                follows = (place.server_uuid, place.file) == (at.server_uuid, at.file)
                self._opposite.marks.file_begins(place, server_id, timestamp, at_start=at_start, follows=follows)
        return None

    def _table_map(self, table_id: int, table_map: TableMap) -> None:
        name = TableName(table_map.schema, table_map.table)
        if self._opposite is not None and self._opposite.takes(table_id, name, table_map):
            # Forgotten with the transaction, as the progress of others is.
            self._maps[table_id] = None
            return
        if self.brought_back is not None and self.brought_back.is_progress(name):
            # Forgotten with the transaction, so that it is seen in the next one, too: the compiled loops take
            # transactions whose maps are all known.
            self._progress[table_id] = name
            self._maps[table_id] = table_map if self._wanted(name) else None
        elif self._wanted(name):
            self._maps[table_id] = table_map
            self._parser.want(table_map)
        else:
            self._maps[table_id] = None
            self._left_out.add(name)

    def _begin_group(self, event: GtidEvent) -> None:
        self._gtid = event.gtid
        # Of a replica's transaction the time at its first server: replicas of shards are behind by unequal times.
        self._moment = event.original_commit_timestamp_us or event.commit_timestamp_us or 0
        if self._gtid is not None and not self._gtids_ordered:
            self._gtid = self._gtid._replace(ordered=False)
        # MariaDB, binlog_alter_two_phase: a statement is logged at its start and at its end; the end counts.
        self._announced_only = event.alter_phase in ("start", "rollback")
        self._items.discard()
        self._forget_progress()
        self._forget_marks()
        begins = self._gtid is not None and dialect(self._gtid.flavor).gtid_begins
        self._in_transaction = begins and not event.is_ddl_standalone
        self._open = True
        self._size = 0
        self._xid = ""
        self._left_out.clear()

    def _file_start(self, gtid_set: GtidSet, at: SourceEvent) -> None:
        # Another server's file says nothing of what was read.
        here = self._position.server_uuid in ("", at.server_uuid)
        if here and (self._adopt_gtids or not self._gtids_known):
            self._position = replace(self._position, gtid_set=gtid_set)
            self._gtids_known = True
            self._adopt_gtids = False

    def _expect_open(self, at: SourceEvent) -> None:
        """Raise DMError if the start is inside a transaction: the rest of it alone is never applied."""
        if not self._open:
            place = f"({at.file}, {at.end_offset - at.raw.header.size})"
            raise DMError("event-outside-transaction", place=place, start=self._position, position=self._position)

    def _rows(self, event: Rows, at: SourceEvent) -> None:
        table_map = self._maps.get(event.table_id)
        opposite = self._opposite
        if opposite is not None and event.table_id in opposite.tables:
            opposite.rows(
                event, at.raw.header.server_id, self._position,
                begins=not len(self._items), processed=lambda: self._was_processed(at),
            )  # fmt: skip
        elif table_map is not None and opposite is not None and opposite.source_id is not None:
            opposite.other_rows()
        elif table_map is not None:
            self._items.add_rows(RowsItem(table_map, event), len(event.data))
        elif event.table_id not in self._maps:
            self._expect_open(at)
            raise DMError("table-map-missing", table_id=event.table_id, position=self._position)

    def _was_processed(self, at: SourceEvent) -> bool:
        """Whether the open transaction lies before the start; its events stand there if its end does."""
        here, gtid = self._end_at(at), self._gtid
        return self._position.reaches(here) or (gtid is not None and self._position.has_processed(gtid, here))

    def _query(self, event: Query, at: SourceEvent, timestamp: int) -> SourceTransaction | None:
        sql = event.sql.strip()
        if sql in _BEGIN:
            self._in_transaction = self._open = True
            return None
        word = sql[:24].upper().rstrip(b";").strip()
        if word == b"COMMIT":
            self._expect_open(at)
            return self._end(at, timestamp)
        if word == b"ROLLBACK":
            self._expect_open(at)
            return self._rollback(at, timestamp)
        if word.startswith((b"XA START", b"XA BEGIN")):
            self._in_transaction = self._open = True
            return None
        if word.startswith(b"XA END"):
            self._xid = _xid(sql, b"XA END")
            return None
        if word.startswith((b"ROLLBACK TO", b"ROLLBACK WORK TO")):
            raise DMError("rollback-to-savepoint", position=self._position)
        if word.startswith(b"SAVEPOINT"):
            return None
        if word.startswith(b"XA COMMIT"):
            return self._xa_commit(_xid(sql, b"XA COMMIT"), at, timestamp)
        if word.startswith(b"XA ROLLBACK"):
            return self._xa_rollback(_xid(sql, b"XA ROLLBACK"), at, timestamp)
        event.in_transaction = self._in_transaction
        if self._opposite is not None:
            self._opposite.statement(at.raw.header.server_id, event.thread_id)
        if not self._announced_only:
            self._items.add_statement(StatementItem(event, at.end_offset - at.raw.header.size))
        if self._in_transaction:
            return None
        return self._end(at, timestamp)

    def _rollback(self, at: SourceEvent, timestamp: int) -> SourceTransaction | None:
        if self._items.table is not None:
            table = TableName(self._items.table.schema, self._items.table.table)
            raise DMError("rolled-back-rows", table=str(table), position=self._position)
        return self._end(at, timestamp)

    def _xa_prepare(self, event: XaPrepare, at: SourceEvent, timestamp: int) -> SourceTransaction | None:
        end = self._end_at(at)
        if event.one_phase or self._position.has_processed(self._gtid, end):
            return self._end(at, timestamp)
        # The event has 32 bits of the format id, the statements have all of it.
        xid = self._xid or event.xid
        items = self._items.finish(end, timestamp)
        left_out = frozenset(self._left_out)
        self._xa.hold(xid, items, end=end, gtid=self._gtid, timestamp=timestamp, left_out=left_out)
        items.release()
        return self._end(at, timestamp)  # the rows come with the XA COMMIT

    def _xa_commit(self, xid: str, at: SourceEvent, timestamp: int) -> SourceTransaction | None:
        end = self._end_at(at)
        if self._position.has_processed(self._gtid, end):
            return self._end(at, timestamp)
        rows = self._xa.commit(xid, end=end, gtid=self._gtid, wanted=self._wanted)
        transaction = self._end(at, timestamp)
        if transaction is not None and rows is not None:
            transaction.items = PreparedItems(rows, transaction.items)
        return transaction

    def _xa_rollback(self, xid: str, at: SourceEvent, timestamp: int) -> SourceTransaction | None:
        end = self._end_at(at)
        if not self._position.has_processed(self._gtid, end):
            self._xa.rollback(xid, end=end, gtid=self._gtid)
        return self._end(at, timestamp)

    def _rotate(self, event: Rotate, at: SourceEvent, timestamp: int) -> SourceTransaction | None:
        if event.artificial:
            # Sent at the start of every stream; it only names the next file (timestamp 0, no place in a file).
            return None
        if self._open:
            self.restart()  # a server died inside a transaction in the last file; it was never committed
        end = Position(at.server_uuid, event.next_file, event.next_offset, self._position.gtid_set)
        return self._moved(end, timestamp)

    def _between(self, at: SourceEvent, timestamp: int) -> SourceTransaction | None:
        """Move past an event outside any transaction: an idle server's binlog ends after it."""
        header = at.raw.header
        if self._open or not header.end or header.flags & LOG_EVENT_ARTIFICIAL_F:
            return None
        return self._moved(Position(at.server_uuid, at.file, at.end_offset, self._position.gtid_set), timestamp)

    def _with_progress(self, begin: Position, *, applied: bool) -> None:
        progress = tuple(self._progress.values())
        self._forget_progress()
        if not applied or self.brought_back is None:
            return
        for table in progress:
            self.brought_back.demand_none(table, self._items.tables(), begin)

    def _forget_progress(self) -> None:
        for table_id in self._progress:
            self._maps.pop(table_id, None)
        self._progress.clear()

    def _with_marks(self, begin: Position, end: Position, *, applied: bool) -> Writer:
        """What the open transaction says of the opposite task; gives who has executed its statement."""
        opposite = self._opposite
        if opposite is None:
            return "others"
        writer = opposite.end(begin, end, applied=applied, empty=not len(self._items))
        if opposite.source_id is not None:
            self._items.discard()
        self._forget_marks()
        return writer

    def _forget_marks(self) -> None:
        if self._opposite is not None:
            for table_id in self._opposite.forget():
                self._maps.pop(table_id, None)

    def _moved(self, end: Position, timestamp: int) -> SourceTransaction | None:
        moved = self._complete(end, None, timestamp)
        if moved is not None:
            moved.moves = True
            moved.moment = 0
        return moved

    def _end_at(self, at: SourceEvent) -> Position:
        gtids = self._after(self._gtid)
        return Position(at.server_uuid, at.file, at.end_offset, gtids)

    def _after(self, gtid: Gtid | None) -> GtidSet:
        """The set after one more transaction."""
        gtids = self._position.gtid_set
        if gtid is None:
            return gtids.then_anonymous()
        return gtids.with_gtid(gtid) if self._gtids_known else gtids

    def _end(self, at: SourceEvent, timestamp: int) -> SourceTransaction | None:
        return self._complete(self._end_at(at), self._gtid, timestamp)

    def _together(
        self, found: Sequence[FoundTransaction[RowsItem]], uuid: str, file: str, offset: int, most: int
    ) -> TransactionRun | None:
        """What `_whole` makes of each, in one; None where one of them may be known, or is not like the others."""
        begin = self._position
        if self._opposite is not None or self._progress or not begin.same_place(uuid, file) or begin.offset > offset:
            return None
        gtids = TransactionRun.gtids_after(found, begin.gtid_set, known=self._gtids_known)
        end = Position(uuid, file, offset + sum([each.length for each in found]), gtids or begin.gtid_set)
        if gtids is None or (memory := self._items.run(found, end, most)) is None:
            return None
        self._announced_only, self._xid, self._gtid = False, "", None
        self._size = self._moment = 0
        self._left_out.clear()
        self._position = end
        return TransactionRun(found, begin, end, offset, self._starts, memory)

    def _whole(self, plain: FoundTransaction[RowsItem], uuid: str, file: str, offset: int) -> SourceTransaction | None:
        """What `feed` returns for the events of the transaction."""
        self._announced_only, self._xid = False, ""
        self._left_out.clear()
        gtid = gtid_of(plain)
        end = Position(uuid, file, offset, self._after(gtid))
        return self._complete(end, gtid, plain.timestamp, plain)

    def _complete(
        self, end: Position, gtid: Gtid | None, timestamp: int, plain: FoundTransaction[RowsItem] | None = None
    ) -> SourceTransaction | None:
        begin = self._position
        size, self._size = self._size if plain is None else plain.size, 0
        moment, self._moment = self._moment or timestamp * 1_000_000, 0
        self._gtid = None
        self._in_transaction = self._open = False
        if len(self._maps) > MAPS_KEPT:
            self._maps.clear()
        # A transaction in the starting GTID set was processed, at this place or on another server, and so was
        # everything before it, since the stream is in order. So nothing is applied, and the position moves past it. An
        # event outside transactions (a file's start) is at the place where the stream is, even if the source's
        # `log_bin` was changed and places alone can't be compared.
        nothing = gtid is None and not len(self._items) and not (plain and plain.items) and bool(begin.gtid_set)
        known = not nothing and begin.has_processed(gtid, end)
        passed = begin.reaches(end)
        writer = self._with_marks(begin, end, applied=not (known or passed))
        if self._progress:
            self._with_progress(begin, applied=not (known or passed))
        if known or passed:
            self._items.discard()
        if passed:
            return None
        self._position = end
        if plain is None or known:
            items = self._items.finish(end, timestamp)
        else:
            items = self._items.whole(plain.items, plain.rows_size, end)
        transaction = SourceTransaction(begin, end, gtid, timestamp, items, size, self._starts)
        transaction.writer = writer
        if self._opposite is not None and self._opposite.marks.places is not None:
            transaction.brought = self._opposite.marks.places.now
        if self.timed:
            transaction.moment = moment
        return transaction


def _xid(sql: bytes, verb: bytes) -> str:
    """The xid of an XA statement: both flavours print it the same way in each statement of a transaction."""
    return sql[len(verb) :].strip().decode("ascii", "backslashreplace")
