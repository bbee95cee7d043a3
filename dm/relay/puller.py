"""One connection of a relay, from recovery to the end of the connection.

Each pull begins with recovery. So a lost connection, a killed process and a first start are the same case: the files
show where the last complete transaction ends, and the source is asked to continue from there.

`dm.relay.plan` decides where that is. Before that, damaged files are fetched again (`dm.relay.refetch`). A running pull
checks once a second for damage that readers reported, and ends so that the next pull can fetch the file. So there is
only one connection and one writer at any time.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dm.clock import Clock
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.mysql.binlog.frame import with_end
from dm.mysql.binlog.header import EventType
from dm.position import MAGIC_SIZE, Position
from dm.relay.plan import Plan, PullPlanner
from dm.relay.refetch import Refetch
from dm.sourcelog.relaylog import checked_file
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.writer import Durability, RelayWriter, SyncPolicy
from dm.sourcelog.upstream.connection import PROMPT_SECONDS, Connection, ReplicaIdentity, connect
from dm.sourcelog.upstream.dump_stream import LARGEST_OFFSET, DumpStream
from dm.sourcelog.upstream.facts import ServerFacts, read_facts
from dm.sourcelog.upstream.lineage import created_in, creation_time
from dm.sourcelog.upstream.locate import locate, resume_after
from dm.sourcelog.upstream.packet_reader import StreamPosition

LOCK_NAME = ".relay.lock"
LOOK_SECONDS = 1.0  # between two checks for damaged files


@contextmanager
def sole_writer(root: Path) -> Iterator[None]:
    """Lock the directory: a second relay would corrupt its files."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(root / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
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


@dataclass(frozen=True, slots=True)
class PullSettings:
    """What all pulls of a relay share, whatever the address."""

    identity: ReplicaIdentity
    start: Position | None  # where to begin when there are no relay files
    heartbeat_seconds: float
    sync: SyncPolicy


class Puller:
    """Pulls a source's binlog into its relay directory."""

    def __init__(
        self,
        endpoint: Endpoint,
        directory: RelayDirectory,
        settings: PullSettings,
        clock: Clock,
    ) -> None:
        self._endpoint = endpoint
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._look_at = float("-inf")
        self._stream: DumpStream | None = None
        self._lock = threading.Lock()
        self._closing = False
        self.writer: RelayWriter | None = None
        self.stored: Position | None = None  # what the files held when the pull began
        self.agreed = False  # the file where the pull continues is the stored one
        self.recovery_bytes = 0  # of relay files, read by recovery

    def close(self) -> None:
        """End a running pull, from any thread."""
        with self._lock:
            self._closing = True
            if self._stream is not None:
                self._stream.close()

    def pull(self, progressed: Callable[[], None]) -> None:
        """Connect, recover, and store what arrives; returns when closed, raises DMError when the connection ends."""
        connection = connect(self._endpoint, read_timeout=PROMPT_SECONDS)
        try:
            facts = read_facts(connection)
            plan = self._plan(connection, facts)
        finally:
            connection.close()
        writer = self.writer = self._writer(plan, facts)
        try:
            with self._open(plan.file, plan.offset) as stream:
                self._store(stream, writer, plan, progressed)
        except DMError as error:
            if error.name in {"relay-event-damaged", "relay-storage-failed", "dump-stream-garbled"}:
                writer.abandon()
            else:
                writer.close()
            if error.name == "dump-refused" and plan.offset > MAGIC_SIZE:
                self._compare_beginning(writer, plan)
            raise
        except BaseException:
            writer.abandon()
            raise
        writer.close()

    def _compare_beginning(self, writer: RelayWriter, plan: Plan) -> None:
        """The source can't start where the stored file ends: check whether its file of this name is another one."""
        _same_file(creation_time(self._endpoint, self._settings.identity, plan.file), writer, plan.file)

    def _store(self, stream: DumpStream, writer: RelayWriter, plan: Plan, progressed: Callable[[], None]) -> None:
        place, packets = StreamPosition(), stream.packets
        # A start beyond 32 bits is requested as the start of the file: skip what is stored.
        skip_to = plan.offset if plan.offset > LARGEST_OFFSET else 0
        while stream.receive():
            if self._damaged():
                return
            while True:
                if place.file == writer.file and place.offset == writer.end:
                    writer.take(packets)
                    place.offset = writer.end
                event = packets.next()
                if event is None:
                    break
                if skip_to and (place.offset >= skip_to or place.file not in ("", plan.file)):
                    skip_to = 0
                self._judge(event, place, writer, plan, skip_to)
            if not packets.ready():
                writer.flush()
            progressed()

    def _judge(self, event: bytes, place: StreamPosition, writer: RelayWriter, plan: Plan, skip_to: int) -> None:
        """Take an event that is not part of a run."""
        kind = event[4]
        if place.advance(event):
            if place.file != plan.file or place.offset > skip_to:
                writer.append(with_end(event, place.offset), place.offset)
            elif kind == EventType.FORMAT_DESCRIPTION:
                _same_file(created_in(event), writer, place.file)
        elif kind == EventType.ROTATE:
            if place.file != plan.file or place.offset >= skip_to:
                writer.announce(place.file, place.offset)
        elif kind == EventType.FORMAT_DESCRIPTION:
            _same_file(created_in(event), writer, place.file)
        elif kind in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2):
            writer.heartbeat()
        self.agreed = self.agreed or kind == EventType.FORMAT_DESCRIPTION

    def _plan(self, connection: Connection, facts: ServerFacts) -> Plan:
        if not facts.log_bin:
            raise DMError("binlog-disabled", address=self._endpoint.address)
        self._directory.mend()
        Refetch(self._directory, connection, facts, self._open, self._clock).fetch_reported()
        plan = PullPlanner(self._directory, connection, facts, self._settings.start, self._located).plan()
        self.stored, self.recovery_bytes = plan.stored, plan.bytes_read
        return plan

    def _located(self, facts: ServerFacts, place: Position) -> str:
        # A person's set is a start by itself; one that belongs to a place has to be continued.
        search = resume_after if place.server_uuid else locate
        return search(facts, self._endpoint, self._settings.identity, place.gtid_set).file

    @contextmanager
    def _open(self, file: str, offset: int) -> Iterator[DumpStream]:
        """A dump that `close` ends."""
        settings = self._settings
        stream = DumpStream(
            self._endpoint, settings.identity, (file, offset), heartbeat_seconds=settings.heartbeat_seconds
        )
        with self._lock:
            self._stream = stream
            if self._closing:
                stream.close()
        with stream:
            yield stream

    def _writer(self, plan: Plan, facts: ServerFacts) -> RelayWriter:
        durability = Durability(self._settings.sync, self._clock)
        writer = RelayWriter(plan.sub, facts.flavor, self._clock, durability=durability)
        if plan.index is not None:
            writer.resume(plan.file, plan.index)
        return writer

    def _damaged(self) -> bool:
        """Whether a reader has reported a damaged file since the last check."""
        now = self._clock.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_SECONDS
        return any(checked_file.reported(sub) for sub in self._directory.sub_directories())


def _same_file(created: int, writer: RelayWriter, file: str) -> None:
    """Compare the creation time in the source's format description with the stored one."""
    if writer.file == file and writer.created != created:
        raise DMError("source-reset", what=f"{file} was created at {created}, the stored file at {writer.created}")
