"""Events straight from the source, for a task without relay.

The contract (`dm.mysql.binlog.event`) requires a stream without seams. A lost connection is reopened at the end of the
last complete transaction, because a server refuses or garbles a start inside one. Events that were already delivered
are dropped by their offset. That is sound only for the same file of the same server. So the identity is compared
(server uuid, and the creation time in the format description), and a partly delivered transaction must arrive again in
full. Otherwise the reader gets an error and has to start again from its own checkpoint.

The same holds for the two addresses of a source with a standby. They are two servers, and a switch between them is a
new start. Every event's checksum is verified before the event is delivered.

A start that is only a GTID set is a dump by that set: the server passes over what the set has, and a heartbeat tells
how far it has passed before it waits or sends the next transaction (Binlog_sender::send_events). That is a place like
the end of an event, else nobody could tell at a source that rests that its end is reached.

A source that changes its `log_bin` continues in files of another name. If its index has both, its own dump leads from
one to the other. If its index no longer has the old files, only the GTID set of a start tells what follows, as with
another server. Without GTIDs the two places can't be compared, and the task pauses.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from dm.clock import Clock, SystemClock
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.mysql.binlog.event import BinlogType, RawEvent, SourceEvent, SourceRun
from dm.mysql.binlog.frame import has_checksum
from dm.mysql.binlog.gtid_history import format_has_checksum
from dm.mysql.binlog.header import LOG_EVENT_ARTIFICIAL_F, EventType
from dm.mysql.binlog.transaction import TransactionBoundary
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.upstream.connection import ReplicaIdentity
from dm.sourcelog.upstream.dump_stream import HEARTBEAT_SECONDS, DumpStart, DumpStream
from dm.sourcelog.upstream.facts import ServerFacts, binlog_end, binlog_files
from dm.sourcelog.upstream.lineage import SourceAddresses, can_follow, expect_all, explained
from dm.sourcelog.upstream.locate import gtids_before, resume_after
from dm.sourcelog.upstream.packet_reader import StreamPosition
from dm.unit import told

FIRST_WAIT = 0.5
LONGEST_WAIT = 5.0

# What can heal, but not inside this stream: the reader has to start again from its checkpoint.
_SEAMS = frozenset({"source-switched", "relay-file-shrunk", "binlog-renamed"})


class RemoteEventSource:
    """An EventSource that reads from the server itself."""

    def __init__(
        self,
        endpoint: Endpoint,
        identity: ReplicaIdentity,
        *,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        clock: Clock | None = None,
        addresses: SourceAddresses | None = None,
    ) -> None:
        self._addresses = addresses or SourceAddresses(endpoint)
        self._identity = identity
        self._heartbeat = heartbeat_seconds
        self._clock = clock or SystemClock()
        self._trouble: DMError | None = None

    @property
    def status(self) -> BinlogType:
        """Always from the server."""
        return "remote"

    @property
    def trouble(self) -> DMError | None:
        """Why the connection is down now."""
        return self._trouble

    def _facts(self, start: Position) -> tuple[ServerFacts, tuple[str, ...]]:
        """The server's identity and its binlog file names; raises DMError if it lacks what was read."""
        connection, facts = self._addresses.open()
        with closing(connection):
            expect_all(
                connection,
                facts,
                start.gtid_set,
                self._addresses.current.address,
                read_from=start.server_uuid,
                may_wait=self._addresses.other is not None,
            )
            return facts, tuple(name for name, _ in binlog_files(connection))

    def complete(self, start: Position) -> Position:
        """Fill in the server's uuid, and the GTID set at a bare file and offset, by reading the file up to there."""
        connection, facts = self._addresses.open()
        with closing(connection):
            if not start.file and not start.gtid_set:
                return binlog_end(connection, facts)
        if start.server_uuid and start.server_uuid != facts.server_uuid:
            return start
        if start.file and not start.gtid_set and facts.gtid_mode:
            found = gtids_before(self._addresses.current, self._identity, start.file, start.offset, facts.flavor)
            return replace(start, server_uuid=facts.server_uuid, gtid_set=found)
        return replace(start, server_uuid=facts.server_uuid)

    def _dump_start(self, start: Position, facts: ServerFacts, before: str) -> DumpStart:
        if start.file:
            return (start.file, start.offset)
        if not start.gtid_set or not facts.gtid_mode:
            raise DMError("source-changed-without-gtid", now=facts.server_uuid, before=before or "unknown")
        if before:  # else a person wrote the set: it begins where they say
            resume_after(facts, self._addresses.current, self._identity, start.gtid_set)
        return start.gtid_set

    def runs(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | SourceRun | None]:
        """The same: events arrive one by one."""
        return self.events(start, stop)

    def events(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | None]:
        """Everything after `start`, across lost connections, until `stop`."""
        wait = FIRST_WAIT
        run = _Delivered(start)
        while not stop.is_set():
            try:
                facts, files = self._facts(start)
                run.expect(facts, files)
                stream = DumpStream(
                    self._addresses.current,
                    self._identity,
                    self._dump_start(run.resume, facts, start.server_uuid),
                    heartbeat_seconds=self._heartbeat,
                )
                for event in self._stream(stream, run, stop):
                    wait = FIRST_WAIT
                    self._trouble = None
                    self._addresses.served()
                    yield event
            except DMError as error:
                found = explained(error, self._addresses, start.gtid_set)
                if not found.retryable or found.name in _SEAMS:
                    if found is error:
                        raise
                    raise found from error.__cause__
                self._trouble = found
                self._addresses.failed(found)
                yield None
                self._clock.wait(stop, wait)
                wait = min(wait * 2, LONGEST_WAIT)

    def _stream(self, stream: DumpStream, run: _Delivered, stop: threading.Event) -> Iterator[SourceEvent | None]:
        done, returned = threading.Event(), threading.Event()

        def probe() -> None:
            addresses, left = self._addresses, self._addresses.current
            while addresses.on_standby and not self._clock.wait(done, addresses.probe_seconds):
                if can_follow(addresses.first, left, self._identity):
                    addresses.use(addresses.first)
                    returned.set()
                    stream.close()

        prober = threading.Thread(target=probe, name="source-return", daemon=True)
        try:
            with told(stop, stream.close), stream:
                prober.start()
                for batch in stream.batches():
                    if not batch:
                        yield None
                    for raw in batch:
                        event = run.take(raw)
                        if event is not None:
                            yield event
                    if stop.is_set():
                        return
            if returned.is_set():
                raise DMError("source-switched", now=self._addresses.first.address, before=run.server_uuid)
        finally:
            done.set()


class _Delivered:
    """What has been delivered, over all connections of one `events` call."""

    def __init__(self, start: Position) -> None:
        self.resume = start  # the end of the last complete transaction
        self._uuid = ""
        self._place = StreamPosition()
        self._boundary = TransactionBoundary()
        self._handed = ("", 0)  # file and offset up to where events were delivered
        self._created: dict[str, bytes] = {}  # the current file's creation time
        self._first = True
        self._gtid_mode = True
        self._by_set = False

    @property
    def server_uuid(self) -> str:
        """The server of this connection."""
        return self._uuid

    def expect(self, facts: ServerFacts, files: Sequence[str]) -> None:
        """A new connection to this server, which has these files, begins."""
        if self._uuid and facts.server_uuid != self._uuid:
            raise DMError("source-switched", now=facts.server_uuid, before=self._uuid)
        if self.resume.server_uuid not in ("", facts.server_uuid):
            # The file and the offset belong to another server; only the GTID set counts here.
            self.resume = replace(self.resume, server_uuid="", file="", offset=MAGIC_SIZE)
        elif files and not any(self._follows(file) for file in files):
            self._renamed(files[-1], facts.gtid_mode)
            self.resume = replace(self.resume, server_uuid="", file="", offset=MAGIC_SIZE)
        self._by_set = not self.resume.file
        self._gtid_mode = facts.gtid_mode
        self._uuid = facts.server_uuid
        self._place = StreamPosition()
        self._boundary.reset()

    def _follows(self, file: str) -> bool:
        """Whether a file of the server has the same base name as the one that was read."""
        return self.resume.same_files(replace(self.resume, file=file))

    def _renamed(self, now: str, gtid_mode: bool) -> None:
        """Raise DMError unless the start's GTID set tells what follows."""
        resume = self.resume
        if not gtid_mode:
            raise DMError("binlog-renamed-without-gtid", before=resume.file, now=now, position=resume)
        if not resume.gtid_set:  # it has moved on since the start: a new start has the set of its place
            raise DMError("binlog-renamed", before=resume.file, now=now)

    def take(self, raw: bytes) -> SourceEvent | None:
        """The event to deliver; None if it was delivered before or is not for the reader."""
        place = self._place
        kind = raw[4]
        in_file = place.advance(raw)
        if kind == EventType.ROTATE and not self._gtid_mode and not self._follows(place.file):
            raise DMError("binlog-renamed-without-gtid", before=self.resume.file, now=place.file, position=self.resume)
        if kind == EventType.FORMAT_DESCRIPTION:
            self._format(raw)
            if not in_file:
                return self._repeated_format(raw)
        if not in_file:
            told = kind == EventType.HEARTBEAT and self._by_set and self._boundary.between
            passed = told and place.pass_over(raw)
            if passed:
                self.resume = Position(self._uuid, place.file, place.offset)
                self._handed = (place.file, place.offset)
            return None if kind == EventType.ROTATE else self._event(raw, place.offset, moves=passed)
        if self._boundary.checksum and not has_checksum(raw):
            start = place.offset - len(raw)
            raise DMError("relay-event-damaged", file=place.file, offset=start, what="wrong checksum")
        between = self._boundary.feed(raw)
        handed_file, handed_offset = self._handed
        skipping = place.file == handed_file and place.offset <= handed_offset
        if handed_file and place.file != handed_file and self._owes():
            raise DMError("relay-file-shrunk", file=handed_file, size=self.resume.offset, offset=handed_offset)
        if place.file == self.resume.file and place.offset <= self.resume.offset:
            skipping = True  # the start was beyond what the protocol can express
        if not skipping:
            self._handed = (place.file, place.offset)
        if between:
            self.resume = Position(self._uuid, place.file, place.offset)
        return None if skipping else self._event(raw, place.offset)

    def _owes(self) -> bool:
        """Whether events were delivered of a transaction whose end never came on this connection."""
        return self.resume.file == self._handed[0] and self.resume.offset < self._handed[1]

    def _format(self, raw: bytes) -> None:
        self._boundary.checksum = format_has_checksum(raw)
        created = raw[:4]
        known = self._created.get(self._place.file)
        if known is not None and known != created:
            raise DMError("source-reset", what=f"file {self._place.file} is not the one that was read before")
        self._created = {self._place.file: created}

    def _repeated_format(self, raw: bytes) -> SourceEvent | None:
        if not self._first:
            return None
        self._first = False
        return self._event(raw, self._place.offset)

    def _event(self, raw: bytes, end_offset: int, *, moves: bool = False) -> SourceEvent:
        self._first = False
        event = RawEvent.of(raw)
        again = event.header.type == EventType.FORMAT_DESCRIPTION and not event.header.end
        if again or (event.header.heartbeat and not moves):  # as the relay marks its own
            header = event.header._replace(flags=event.header.flags | LOG_EVENT_ARTIFICIAL_F)
            event = RawEvent(header, raw)
        return SourceEvent(event, self._uuid, self._place.file, max(end_offset, MAGIC_SIZE))
