"""One connection's worth of relaying: from what the files prove to the moment the connection ends.

Each pull begins with recovery, so a lost connection, a killed process and a first start are the same case: the files
say where the last complete transaction ends, and the source is asked to go on from there.

The source may be another server than before (its uuid says so). Offsets mean nothing there; the file that holds the
first transaction we lack is found by GTID and read from its start into a new sub-directory. Or it may be the same
server with another history (RESET BINARY LOGS, a restored backup): then the creation time of the file or the GTID set
does not fit, and the pull ends with an error, because the files would otherwise become a mixture of two histories.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from dm.binlog.header import LOG_EVENT_ARTIFICIAL_F, EventType
from dm.clock import Clock
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.position import MAGIC_SIZE, Position
from dm.relaylog.layout import RelayDirectory
from dm.relaylog.recovery import Recovered, recover
from dm.relaylog.tap import Tap
from dm.relaylog.writer import RelayWriter
from dm.upstream.connection import PROMPT_SECONDS, Connection, connect
from dm.upstream.dump_stream import LARGEST_OFFSET, DumpStream
from dm.upstream.facts import ServerFacts, binlog_end, executed_gtids, read_facts
from dm.upstream.locate import locate
from dm.upstream.replica_identity import ReplicaIdentity
from dm.upstream.stream_position import StreamPosition

LOCK_NAME = ".relay.lock"

size_end_flags = Struct("<IIH").unpack_from  # of the common header, at 9
_COMMON: Final = frozenset(
    {
        EventType.GTID,
        EventType.MARIADB_GTID,
        EventType.QUERY,
        EventType.TABLE_MAP,
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.WRITE_ROWS_V1,
        EventType.UPDATE_ROWS_V1,
        EventType.DELETE_ROWS_V1,
        EventType.ROWS_QUERY,
        EventType.MARIADB_ANNOTATE_ROWS,
        EventType.XID,
        EventType.TRANSACTION_PAYLOAD,
    }
)


@contextmanager
def sole_writer(root: Path) -> Iterator[None]:
    """Hold the directory: a second relay on it would tear the files apart."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(root / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise DMError("relay-storage-failed", path=root) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DMError("relay-in-use", path=root) from error
        yield
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class _Plan:
    """Where to go on, and the writer that does."""

    writer: RelayWriter
    file: str
    offset: int


class Puller:
    """Pulls a source's binlog into its relay directory."""

    def __init__(
        self,
        endpoint: Endpoint,
        identity: ReplicaIdentity,
        directory: RelayDirectory,
        start: Position | None,
        clock: Clock,
        heartbeat_seconds: float,
        tap: Tap | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._identity = identity
        self._directory = directory
        self._start = start
        self._clock = clock
        self._heartbeat = heartbeat_seconds
        self._tap = tap
        self._stream: DumpStream | None = None
        self._lock = threading.Lock()
        self._closing = False
        self.writer: RelayWriter | None = None

    def close(self) -> None:
        """End a running pull, from any thread."""
        with self._lock:
            self._closing = True
            if self._stream is not None:
                self._stream.close()

    def pull(self, progressed: Callable[[], None]) -> None:
        """Connect, recover, and store what comes; returns when closed, raises DMError when the connection ends."""
        connection = connect(self._endpoint, read_timeout=PROMPT_SECONDS)
        try:
            plan = self._plan(connection, read_facts(connection))
        finally:
            connection.close()
        stream = DumpStream(self._endpoint, self._identity, (plan.file, plan.offset), heartbeat_seconds=self._heartbeat)
        with self._lock:
            if self._closing:
                plan.writer.close()
                return
            self._stream = stream
        self.writer = plan.writer
        try:
            with stream:
                self._store(stream, plan, progressed)
        except DMError as error:
            if error.name in {"relay-event-damaged", "relay-storage-failed", "dump-stream-garbled"}:
                plan.writer.abandon()
            else:
                plan.writer.close()
            if error.name == "dump-refused" and plan.offset > MAGIC_SIZE:
                self._compare_beginning(plan)
            raise
        except BaseException:
            plan.writer.abandon()
            raise
        plan.writer.close()

    def _compare_beginning(self, plan: _Plan) -> None:
        """The source can't start where the stored file ends: see whether its file of this name is another one."""
        place = StreamPosition()
        with DumpStream(self._endpoint, self._identity, (plan.file, MAGIC_SIZE)) as stream:
            for batch in stream.batches():
                for event in batch:
                    place.advance(event)
                    if event[4] == EventType.FORMAT_DESCRIPTION:
                        _same_file(event, plan.writer, place.file)
                        return

    @staticmethod
    def _store(stream: DumpStream, plan: _Plan, progressed: Callable[[], None]) -> None:
        writer = plan.writer
        place = StreamPosition()
        append, advance, flush = writer.append, place.advance, writer.flush
        # A start beyond 32 bits is asked for as the start of the file: skip what is stored.
        skip_to = plan.offset if plan.offset > LARGEST_OFFSET else 0
        for batch in stream.batches():
            if not batch:
                flush()
                continue
            for event in batch:
                size, end, flags = size_end_flags(event, 9)
                kind = event[4]
                counted = place.offset + size
                if (
                    kind in _COMMON
                    and end == counted & 0xFFFFFFFF
                    and size == len(event)
                    and not flags & LOG_EVENT_ARTIFICIAL_F
                    and not skip_to
                ):
                    # What `advance` would find out, for nearly all events, without a call.
                    place.offset = counted
                    append(event, counted)
                    continue
                if advance(event):
                    if place.file != plan.file or place.offset > skip_to:
                        append(event, place.offset)
                    elif kind == EventType.FORMAT_DESCRIPTION:
                        _same_file(event, writer, place.file)
                    continue
                if kind == EventType.ROTATE:
                    if place.file != plan.file or place.offset >= skip_to:
                        writer.announce(place.file, place.offset)
                elif kind == EventType.FORMAT_DESCRIPTION:
                    _same_file(event, writer, place.file)
                elif kind in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2):
                    writer.heartbeat()
            progressed()

    def _plan(self, connection: Connection, facts: ServerFacts) -> _Plan:
        if not facts.log_bin:
            raise DMError("binlog-disabled", address=self._endpoint.address)
        sub = self._directory.last()
        recovered = recover(sub, facts.flavor) if sub is not None else None
        if recovered is None:
            return self._first(connection, facts)
        if recovered.sub.server_uuid == facts.server_uuid:
            return self._continue(connection, facts, recovered)
        return self._switch(connection, facts, recovered)

    def _first(self, connection: Connection, facts: ServerFacts) -> _Plan:
        """Nothing is stored yet: the wanted start, else the source's current file, always from a file's beginning."""
        start = self._start
        if start is None or (not start.file and not start.gtid_set):
            file = binlog_end(connection, facts, exact=False).file
        elif start.file and start.server_uuid in ("", facts.server_uuid):
            file = start.file
        elif start.gtid_set and facts.gtid_mode:
            file = locate(facts, self._endpoint, self._identity, start.gtid_set).file
        else:
            raise DMError("source-changed-without-gtid", now=facts.server_uuid, before=start.server_uuid or "unknown")
        return self._new_directory(facts, file)

    def _new_directory(self, facts: ServerFacts, file: str) -> _Plan:
        last = self._directory.last()
        if last is not None and last.server_uuid == facts.server_uuid and not last.files():
            sub = last
        else:
            sub = self._directory.add(facts.server_uuid)
        return _Plan(RelayWriter(sub, facts.flavor, self._clock, tap=self._tap), file, MAGIC_SIZE)

    def _continue(self, connection: Connection, facts: ServerFacts, recovered: Recovered) -> _Plan:
        stored = recovered.position
        if facts.gtid_mode and stored.gtid_set:
            lost = stored.gtid_set - executed_gtids(connection, facts)
            if lost:
                raise DMError("source-gtid-diverged", missing=lost, position=stored)
        writer = RelayWriter(recovered.sub, facts.flavor, self._clock, tap=self._tap)
        writer.resume(recovered.file, recovered.index)
        return _Plan(writer, stored.file, stored.offset)

    def _switch(self, connection: Connection, facts: ServerFacts, recovered: Recovered) -> _Plan:
        stored = recovered.position
        if not facts.gtid_mode or not stored.gtid_set or stored.flavor != facts.flavor:
            raise DMError("source-changed-without-gtid", now=facts.server_uuid, before=recovered.sub.server_uuid)
        lost = stored.gtid_set - executed_gtids(connection, facts)
        if lost:
            raise DMError("source-gtid-diverged", missing=lost, position=stored)
        file = locate(facts, self._endpoint, self._identity, stored.gtid_set).file
        return self._new_directory(facts, file)


def _same_file(event: bytes, writer: RelayWriter, file: str) -> None:
    """Compare the creation time in the source's format description with the stored one."""
    created = int.from_bytes(event[:4], "little")
    if writer.file == file and writer.created != created:
        raise DMError("source-reset", what=f"{file} was created at {created}, the stored file at {writer.created}")
