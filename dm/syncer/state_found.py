"""What a run finds stored at its start, as one immutable object.

The order of reads and writes is part of the crash protocol (`dm.progress.protocol`). First the older run is ended and
its lanes are taken over, so nothing changes while the state is read. Then:

1. The list of XA transactions is opened for this epoch; rows that are not on this host are read again. The checkpoint L
   is read, or a first one is written. A note on the host's disk says that there is one, so that a loss of the progress
   is noticed (`StartRecord`).
2. The bound B is joined from what all lanes committed, and stored before anything is dispatched.
3. It is stored how far runs have got, before any table can be changed in order.
4. Files and rows that L has passed are released.
5. The record of undone changes is deleted after everything else that may fail at the source: a run that dies later
   leaves none.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.event import RawEvent, SourceEvent, SourceRun
from dm.mysql.binlog.header import EventType
from dm.mysql.binlog.reader import EventParser, GtidEvent, Query, TransactionPayload
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.effect_on_rows import effect_of
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, CheckpointWriter, TablePoint, write_new
from dm.progress.intent import Intent, OnlineRecord, read_online
from dm.progress.lane_rows import CONTROL, LaneClaim, OrderedRecord, read_ordered, store_begun
from dm.progress.operators import Operator, read_operators
from dm.progress.prepared_places import read_prepared
from dm.progress.takeover import Takeover, Undone, store_bound, take_undone
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.prepared_again import ReadingAgain
from dm.sourcelog.stream.source_log import Space
from dm.sourcelog.stream.source_server import SourceServer
from dm.syncer.apply.lanes import Stopped
from dm.syncer.apply.row_placing import DoneInOrder
from dm.syncer.resources import Resources

_LOOKED_AT: Final = 1 << 20  # bytes between the place where a task begins and the end of the source's log
_LOOK_SECONDS: Final = 5.0  # that a relay may be behind it
_READ: Final = frozenset(
    {EventType.FORMAT_DESCRIPTION, EventType.TRANSACTION_PAYLOAD, EventType.QUERY, EventType.MARIADB_QUERY_COMPRESSED}
)
_BEGINNING: Final = frozenset({EventType.GTID, EventType.GTID_TAGGED, EventType.ANONYMOUS_GTID, EventType.MARIADB_GTID})
_OF_TRANSACTIONS: Final = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA ", "START TRANSACTION")


@dataclass(frozen=True, slots=True)
class StateFound:
    """Where a run begins, and what earlier runs did beyond."""

    checkpoint: Checkpoint  # L, with B as stored now
    writer: CheckpointWriter  # it holds the control lane
    claims: Mapping[str, LaneClaim]
    tracker: SchemaTracker  # the source's structures at L; the run updates it from there
    intent: Intent | None  # of the interrupted DDL
    dumped_until: Position | None  # the end of the dump's window, if no run has passed it
    done: DoneInOrder
    ordered: OrderedRecord
    operators: Sequence[Operator]
    online: Mapping[TableName, OnlineRecord]
    undone: Undone

    @property
    def start(self) -> Position:
        """L."""
        return self.checkpoint.position

    @property
    def replays_in_order(self) -> bool:
        """Whether changes beyond L of tables changed in order may be done already."""
        return self.ordered.reached is not None or self.done.ordered is not None


def find_state(
    taken: Takeover, control: TargetConnection, server: SourceServer, resources: Resources, first: FirstCheckpoint
) -> StateFound:
    """Read what is stored, store that a run begins; raises DMError, or Stopped."""
    claim = taken.claims[CONTROL]
    key = claim.key
    _open_prepared(taken, control, server, resources, first)
    checkpoint = taken.checkpoint or first.make(control, claim, server)
    resources.record.put(first.subtask.meta)
    writer = CheckpointWriter(control, claim)
    beyond = (taken.bound(), taken.keyless_done())
    switched = server.switch_bound(checkpoint.position, *beyond)
    # After a clean stop nothing is beyond L: nothing has to be found on another server, or repeated.
    unsure = taken.intent is not None or any(each is not None for each in beyond)
    bound = (switched if unsure else None) or taken.bound()
    ordered = read_ordered(control, key)
    reached = taken.reached(ordered.reached) if ordered.kept else None
    checkpoint, taken = _continued(checkpoint, taken, server)
    server.demand_same_file(checkpoint.position)
    store_bound(writer, checkpoint, bound)
    known = ordered.kept and reached == ordered.reached and (ordered.done is None or ordered.taken_again)
    ordered = replace(ordered, reached=reached)
    if not known:
        store_begun(control, claim, ordered)
    resources.stored(checkpoint.position)
    operators = read_operators(control, key)
    tracker = server.tracker(point.schema for point in checkpoint.tables.values() if point.schema is not None)
    undone = take_undone(control, claim)
    online = read_online(control, key)
    return StateFound(
        checkpoint=replace(checkpoint, bound=bound),
        writer=writer,
        claims=taken.claims,
        tracker=tracker,
        intent=taken.intent,
        # After a crash the bound is not beyond the last DDL.
        dumped_until=taken.bound() if taken.checkpoint is not None else None,
        done=DoneInOrder(taken.keyless_done(), taken.atomic_done()),
        ordered=ordered,
        operators=operators,
        online=online,
        undone=undone,
    )


def _open_prepared(
    taken: Takeover, control: TargetConnection, server: SourceServer, resources: Resources, first: FirstCheckpoint
) -> None:
    claim, prepared = taken.claims[CONTROL], resources.prepared
    if taken.checkpoint is None:
        prepared.open(claim.epoch, None)
        return
    stored = taken.checkpoint.position
    prepared.open(claim.epoch, stored, read_prepared(control, claim.key))
    if prepared.without_rows():
        space = Space(first.subtask.syncer.reading_quota, resources.directory / "again", resources.clock)
        ReadingAgain(server.sources_of_files(), first.rules.wanted, space, first.stop).restore(prepared, stored)


def _continued(checkpoint: Checkpoint, taken: Takeover, server: SourceServer) -> tuple[Checkpoint, Takeover]:
    """Both as positions on the present server, if GTIDs are not ordered; raises DMError."""
    if server.facts.gtid_ordered:
        return checkpoint, taken
    start = checkpoint.position
    beginning = server.here(start)
    tables = {
        name: replace(table, point=beginning if start.at_or_after(table.point) else server.here(table.point))
        if table.point is not None
        else table
        for name, table in checkpoint.tables.items()
    }
    return replace(checkpoint, position=beginning, tables=tables), taken.with_exact_lanes(server.here)


@dataclass(frozen=True, slots=True)
class FirstCheckpoint:
    """How a task without a checkpoint gets its first one."""

    subtask: SubtaskConfig
    rules: TableRules
    resources: Resources
    stop: threading.Event

    def make(self, control: TargetConnection, claim: LaneClaim, server: SourceServer) -> Checkpoint:
        """At `meta`'s position, else at the source's present end; stored. Raises DMError, or Stopped.

        Loads and runs leave a checkpoint. If it is gone, beginning at the source's end would lose rows.
        """
        mode, task, source = self.subtask.mode, self.subtask.task, self.subtask.source_id
        meta = None if mode == "all" else self.subtask.meta
        if meta is None and mode != "incremental":
            raise DMError("checkpoint-gone", task=task, source=source)
        self.resources.record.demand_new(meta, task, source)
        if meta is not None:
            start = server.start_of(meta)
            checkpoint = Checkpoint(start, tables=self._tables_at(start, server))
        else:
            end, tables = self._present(server)
            checkpoint = Checkpoint(end, tables=tables)
        hold = self.resources.hold
        if hold is not None:  # a hold must not stay at the place where the task would begin
            hold.keep_from(checkpoint.position)
        write_new(control, claim.key, checkpoint, validated=self.subtask.validator.mode != "none")
        return checkpoint

    def _present(self, server: SourceServer) -> tuple[Position, dict[TableName, TablePoint]]:
        found = server.present(self.rules.wanted, self.stop)
        if found is None:
            raise Stopped
        end, structures = found
        return end, {table: TablePoint(schema) for table, schema in structures.items()}

    def _tables_at(self, start: Position, server: SourceServer) -> dict[TableName, TablePoint]:
        """The tables at a place, where the source's log shows that they are still the same; else none.

        Without them a table is learned when its first rows come, and may have been altered by then.
        """
        if not self._unaltered(start, server.end(), server):  # most of the log need not be read for that
            return {}
        end, tables = self._present(server)
        return tables if self._unaltered(start, end, server) else {}

    def _unaltered(self, start: Position, end: Position, server: SourceServer) -> bool:
        """Whether no statement between two places is about a wanted table, as far as a short look tells.

        From a start that is only a GTID set a relay is read from a file's beginning: what the set has is before it.
        """
        if start.reaches(end):
            return True
        if (start.server_uuid, start.file) == (end.server_uuid, end.file) and end.offset - start.offset > _LOOKED_AT:
            return False
        room, clock = self.subtask.syncer.reading_quota, self.resources.clock
        parser, left, until = EventParser(largest_unpacked=room), _LOOKED_AT, clock.monotonic() + _LOOK_SECONDS
        before = False
        for found in server.event_source().runs(start, self.stop):
            if found is None:
                if clock.monotonic() > until:  # the relay has not got so far
                    return False
                continue
            reached = Position(found.server_uuid, found.file, found.end_offset).reaches(end)
            for raw in _before(end, found) if reached else _raws(found):
                if raw.header.type in _BEGINNING and not start.file:
                    before = _is_in(start, parser.parse(raw))
                left -= 0 if before else len(raw.data)
                if left < 0:
                    return False
                if before and raw.header.type != EventType.FORMAT_DESCRIPTION:
                    continue
                if raw.header.type in _READ and any(self._alters(each, server) for each in _queries(parser, raw, room)):
                    return False
            if reached:
                return True
        return False

    def _alters(self, query: Query, server: SourceServer) -> bool:
        if query.readable.lstrip().upper().startswith(_OF_TRANSACTIONS):
            return False
        if query.undecodable is not None or len(query.readings) > 1:
            return True
        effect = effect_of(query.text, server.context_of(query), lambda table: True)
        return effect.unknown or any(self.rules.wanted(table) for table in effect.named)


def _raws(found: SourceEvent | SourceRun) -> Sequence[RawEvent]:
    return found.events if isinstance(found, SourceRun) else (found.raw,)


def _before(end: Position, found: SourceEvent | SourceRun) -> Iterator[RawEvent]:
    """The events that begin before this place."""
    for event in found.apart() if isinstance(found, SourceRun) else (found,):
        if Position(event.server_uuid, event.file, event.end_offset - len(event.raw.data)).reaches(end):
            return
        yield event.raw


def _is_in(start: Position, event: object) -> bool:
    return isinstance(event, GtidEvent) and event.gtid is not None and event.gtid in start.gtid_set


def _queries(parser: EventParser, raw: RawEvent, room: int) -> Iterator[Query]:
    event = parser.parse(raw)
    for each in map(parser.parse, event.events(room)) if isinstance(event, TransactionPayload) else (event,):
        if isinstance(each, Query):
            yield each
