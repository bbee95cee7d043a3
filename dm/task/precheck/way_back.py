"""The binlog after the place where a task begins: whether it is still there, and who wrote it.

After a cut-over a task in the other direction, the way back, writes into the old source. If the first task continued
from its checkpoint, it would read these changes as new ones and apply them to the server that they came from: rows
without a key would be doubled.

The way back stores its progress in the database that it writes to (here the source), and names the server that it reads
(here the target). Each of its transactions begins with a row of its progress, the mark (`dm.progress.opposite`), so the
binlog tells them from those of applications. A task that is named as the opposite of this one is left out by its marks
and returns nothing. Only if the source has such progress, the check reads the binlog from the task's place to its
end, up to the first of these transactions.

A task that has rested for long has much to read, and a person waits for the answer. So the check ends after
READ_SECONDS and says how far it came. Nothing is lost by that: the run applies the same rule to each transaction
(dm/progress/replication_loop.py), also where no check is made (a resume, a start time, `ignore-checking-items`). The
check only reports the usual case before anything starts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dm.clock import Clock, SystemClock
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.binlog.compression import TransactionPayload
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.header import EventType
from dm.mysql.binlog.reader import Event, EventParser, TableMapEvent
from dm.position import MAGIC_SIZE, Position
from dm.progress.opposite import Opposite, opposite_of
from dm.progress.replication_loop import CHECKPOINT, reads_server
from dm.progress.shards.held_shards import earliest
from dm.session.answers import reads_answers
from dm.sourcelog.relaylog.relay_source import RelayEventSource, unbroken_end
from dm.sourcelog.stream.marks import MarkTables
from dm.sourcelog.upstream.connection import identity_for
from dm.sourcelog.upstream.dump_stream import DumpStart, DumpStream
from dm.sourcelog.upstream.facts import binlog_end, binlog_files
from dm.sourcelog.upstream.lineage import expect_all, still_has
from dm.sourcelog.upstream.locate import resume_after
from dm.sourcelog.upstream.packet_reader import StreamPosition
from dm.task.precheck.context import Answers, CheckResult, Context
from dm.task.progress import places_needed

READ_SECONDS: Final = 20.0  # as long as a person waits for an answer that a run would give as well
# Before and after a transaction; MySQL 5.6 writes nothing of the first kind for one without a GTID.
BETWEEN = frozenset(
    {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID, EventType.XID}
)


def unpacked(parser: EventParser, raw: RawEvent, room: int) -> Iterator[Event]:
    """The event, or those of a compressed transaction, which may have so many bytes."""
    parsed = parser.parse(raw)
    if isinstance(parsed, TransactionPayload):
        yield from (parser.parse(each) for each in parsed.events(room))
    else:
        yield parsed


@dataclass(slots=True)
class _Returned:
    """Looks for a transaction that has progress of the way back and rows of a table that goes to the target."""

    context: Context
    tasks: Mapping[str, MarkTables]
    parser: EventParser = field(init=False)
    task: str = ""  # of the open transaction
    table: TableName | None = None

    def __post_init__(self) -> None:
        self.parser = EventParser(largest_unpacked=self.room)

    @property
    def room(self) -> int:
        """What a run has for an event."""
        return self.context.config.syncer.reading_quota

    def takes(self, raw: RawEvent) -> bool:
        """Whether the event is the proof."""
        kind = raw.header.type
        if kind in BETWEEN:
            self.task, self.table = "", None
        elif kind in (EventType.FORMAT_DESCRIPTION, EventType.TABLE_MAP, EventType.TRANSACTION_PAYLOAD):
            for event in unpacked(self.parser, raw, self.room):
                if isinstance(event, TableMapEvent):
                    self._table(TableName(event.table_map.schema, event.table_map.table))
        return bool(self.task) and self.table is not None

    def _table(self, name: TableName) -> None:
        for task, tables in self.tasks.items():
            if self.table is None and tables.kind(name) == "row":
                self.task = task
        if self.table is None and self.context.rules.wanted(name):
            self.table = name


def nothing_returned(context: Context, answers: Answers, clock: Clock | None = None) -> Iterator[CheckResult]:
    """Whether what follows the place where the task begins was written by applications only."""
    clock = clock or SystemClock()
    start = _start(context)
    tasks = {} if start is None else dict(_tasks_from_target(context))
    if start is None or not tasks:
        yield answers.success()
        return
    returned = _Returned(context, tasks)
    deadline = clock.monotonic() + READ_SECONDS
    for raw, file, end_offset in events_after(context, start):
        if returned.takes(raw):
            place = Position("", file, max(end_offset - raw.header.size, MAGIC_SIZE))
            yield answers.failure(
                f"after {start} the source has changes of {returned.table} that task {returned.task} brought from this"
                f" target, the first at {place}: they would be applied once more",
                f"`dmctl stop-task {returned.task}` shows where the source's binlog ends then: put that place into"
                " `meta` of this task, and start it with `task-mode: incremental` and `--remove-meta`",
            )
            return
        if clock.monotonic() > deadline:
            yield answers.success(
                f"task {next(iter(tasks))} has brought nothing between {start} and ({file}, {end_offset}); there is"
                " more to read than a check has time for, and the task pauses where it comes to such changes"
            )
            return
    yield answers.success(f"task {next(iter(tasks))} has brought nothing after {start}")


def _start(context: Context) -> Position | None:
    """Where the task begins to read; None where nothing precedes that is not loaded."""
    facts, meta = context.source.facts, context.config.meta
    if context.at_time or not facts.log_bin or not context.target.facts.dialect.has_binlog:
        return None
    places = [] if context.anew else places_needed(context.config)
    if places:
        return earliest(places)
    if context.dumps or meta is None:
        return None
    if meta.binlog_gtid and (context.config.source.enable_gtid or not meta.binlog_name):
        return Position("", "", gtid_set=GtidSet.parse(meta.binlog_gtid, facts.flavor))
    return Position(facts.server_uuid, meta.binlog_name, max(meta.binlog_pos, MAGIC_SIZE))


@reads_answers
def _tasks_from_target(context: Context) -> Iterator[tuple[str, MarkTables]]:
    """The tasks with progress in the source that read this target, or a server whose transactions it has: each with
    its marks.
    """
    opposite, folded = opposite_of(context.config), context.source.facts.lower_case_table_names != 0
    left_out = None if opposite is None else opposite.tables(folded=folded)
    rows = context.source.query(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_name LIKE %s",
        "%" + CHECKPOINT.replace("_", r"\_"),
    )
    for schema, table in rows:
        name = TableName(str(schema), str(table))
        found = Opposite(name.schema, name.table.removesuffix(CHECKPOINT))
        tables = found.tables(folded=folded)
        if tables == left_out:
            continue
        if reads_server(context.source.connection, name, context.target.connection, context.target.facts):
            yield found.task, tables


def events_after(context: Context, start: Position) -> Iterator[tuple[RawEvent, str, int]]:
    """Each event after the place with its file and its end there, up to the source's present end."""
    connection, facts = context.source.connection, context.source.facts
    end = binlog_end(connection, facts, exact=False)
    here: Position | None = start
    if start.server_uuid and context.relay is not None and not still_has(connection, facts, start):
        relay = RelayEventSource(context.relay, facts.flavor)
        for found in relay.events(start, threading.Event()):
            if found is None:
                break
            yield found.raw, found.file, found.end_offset
        here = unbroken_end(context.relay, facts.flavor, start)
    if here is None or here.reaches(end):
        return
    wanted: DumpStart = (here.file, here.offset) if here.server_uuid == facts.server_uuid else here.gtid_set
    place = StreamPosition()
    with DumpStream(context.source.endpoint, identity_for("check", context.config.source_id), wanted) as stream:
        for raw in _raw(stream.batches()):
            in_file = place.advance(raw)
            # A start beyond 32 bits is requested as the start of the file.
            if not in_file or place.file != here.file or place.offset > here.offset:
                yield RawEvent.of(raw), place.file, place.offset
            if Position(end.server_uuid, place.file, place.offset).order >= end.order:
                return


def _raw(batches: Iterable[list[bytes]]) -> Iterator[bytes]:
    for batch in batches:
        yield from batch


_ANEW = (
    "start anew with `--remove-meta`: with a new full load into emptied tables, or with `task-mode: incremental` and "
    "`meta`, if the changes in between may be left out"
)


@dataclass(frozen=True)
class _Missing:
    """Why what follows a place can't be read, and the ways out: of lost files, unless an error has its own."""

    why: str
    ways_out: str = f"restore the missing binlog files at the source; or {_ANEW}"


def readable(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether source and relay have all that the task has yet to read.

    A task that rests for longer than the source keeps its binlog can't go on. That is said before anything starts,
    since a relay that connects goes on after the gap, and a run fails only when it comes there.
    """
    checked = not (context.anew or context.at_time) and context.source.facts.log_bin
    places = places_needed(context.config) if checked else []
    for place in places:
        missing = _missing(context, place)
        if missing is not None:
            yield answers.failure(missing.why, missing.ways_out)
            return
    yield answers.success(f"what follows {places[0]} is there" if places else "")


def _missing(context: Context, place: Position) -> _Missing | None:
    """Why the binlog after the place can't be read; None if it can."""
    try:
        at_source = _missing_at_source(context, place)
        return at_source and _missing_after_relay(context, place, at_source)
    except DMError as error:
        if error.retryable:
            return None  # another server may be after: the run waits for it
        return _Missing(f"{error.message}; the task needs what follows {place}", error.workaround or _ANEW)


def _missing_at_source(context: Context, place: Position) -> _Missing | None:
    """Why the source alone does not do: then the relay is asked, whatever the reason. Raises DMError to be retried."""
    facts, connection = context.source.facts, context.source.connection
    if place.server_uuid == facts.server_uuid:
        if still_has(connection, facts, place):
            return None
        names = [name for name, _ in binlog_files(connection)]
        there = f"{names[0]} to {names[-1]}" if names else "no binlog file"
        return _Missing(f"the source no longer has {place.file}, needed from {place} on: it has {there}")
    if not place.gtid_set or not facts.gtid_mode:
        changed = DMError("source-changed-without-gtid", now=facts.server_uuid, before=place.server_uuid or "unknown")
        return _Missing(f"{changed.message}; the checkpoint is {place}", changed.workaround)
    endpoint = context.source.endpoint
    try:
        expect_all(connection, facts, place.gtid_set, endpoint.address, read_from=place.server_uuid, may_wait=True)
        resume_after(facts, endpoint, identity_for("check", context.config.source_id), place.gtid_set)
    except DMError as error:
        if error.retryable:
            raise
        return _Missing(f"{error.message}: {error.cause}" if error.cause else error.message, error.workaround or _ANEW)
    return None


def _missing_after_relay(context: Context, place: Position, at_source: _Missing) -> _Missing | None:
    """The same where the source lacks it: the relay may have the beginning, and the source what follows."""
    if context.relay is None:
        return at_source
    try:
        end = unbroken_end(context.relay, context.source.facts.flavor, place)
    except DMError as error:
        if error.retryable:
            raise
        return replace(at_source, why=f"{at_source.why}; in the relay, {error.message}")
    if end is None:
        return replace(at_source, why=f"{at_source.why}; the relay does not have it")
    behind = _missing_at_source(context, end)
    return behind and replace(behind, why=f"{behind.why}; the relay's files end there, and the task is at {place}")
