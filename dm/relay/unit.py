"""The relay of one source as a unit: pulls until stopped, and retries whatever can heal.

A source that is down, a broken connection and a full disk can heal. The unit retries with growing pauses and shows the
reason in the status. It raises every other error, and the host pauses the relay. A source with a standby is pulled from
the standby while its first address fails. Each pull uses the current address and continues from what is stored.

Inspects the closed files when a relay starts: each must have an index, and the length that its index says.

The first line of an index and the file's size answer both without reading the file. A file without an index, or with an
index of an older format, is read once and gets a new index. Damage is reported as a reader reports it, and the pull
fetches the file again. The inspection runs beside the pull: neither the pull nor a reader waits for it.

What the source has that the relay lacks, and whether the pull still belongs to this source.

A connection survives many changes at the source. After RESET it stays in a file that no longer exists, and no event
arrives. After SET GLOBAL of MariaDB's domain or server id, the events belong to a server of another name. While the
standby is in use, the first address may come back. In each case the watch ends the pull, and the next pull checks
everything again.

The watch runs in its own thread because a silent server blocks it. The pull and its end never wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from dm.accelerator import switch
from dm.clock import Clock, SystemClock
from dm.config.endpoint import Endpoint
from dm.config.source import SourceConfig
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import Position
from dm.relay.plan import begin_anew
from dm.relay.puller import Puller, PullSettings, sole_writer
from dm.relay.purge import FreeSpace, free_bytes
from dm.relay.storage import RelayStorage
from dm.sourcelog.relaylog import checked_file
from dm.sourcelog.relaylog.index import read_seal, write_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, file_number
from dm.sourcelog.relaylog.recovery import end_is_proven
from dm.sourcelog.relaylog.scan import scan
from dm.sourcelog.stream.source_monitor import RetentionWatch
from dm.sourcelog.upstream.connection import Connection, ReplicaIdentity, identity_for
from dm.sourcelog.upstream.dump_stream import HEARTBEAT_SECONDS
from dm.sourcelog.upstream.facts import binlog_end, read_facts
from dm.sourcelog.upstream.lineage import SourceAddresses, can_follow, explained
from dm.unit import JSON, UnitName, told

WATCH_SECONDS = 2.0


class SourceWatch:
    """Keeps the source's end for the status; ends a pull that no longer belongs to the source."""

    def __init__(
        self,
        addresses: SourceAddresses,
        identity: ReplicaIdentity,
        clock: Clock,
        stored: Callable[[], Position | None],
        interrupt: Callable[[], None],
    ) -> None:
        self._addresses = addresses
        self._identity = identity
        self._clock = clock
        self._stored = stored  # the end of what the running pull has stored
        self._interrupt = interrupt
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay-source-watch", daemon=True)
        self.end: Position | None = None
        self.retention = RetentionWatch(clock)

    def __enter__(self) -> SourceWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        opened: tuple[Endpoint, Connection] | None = None
        looked = self._clock.monotonic()
        while not self._stop.is_set():
            addresses = self._addresses
            if opened is not None and opened[0] is not addresses.current:
                opened[1].close()
                opened = None
            try:
                if opened is None:
                    opened = (addresses.current, addresses.open()[0])
                stored = self._stored()  # read before the source's end, so nothing stored can be after that end
                facts = read_facts(opened[1])
                self.end = binlog_end(opened[1], facts, exact=False)
                self.retention.look(opened[1])
                if stored is not None and not _belongs(stored, self.end):
                    self._interrupt()
            except DMError:
                # The pull meets the same trouble and reports it; here the shown end only stays as it was.
                if opened is not None:
                    opened[1].close()
                opened = None
            now = self._clock.monotonic()
            if not addresses.on_standby:
                looked = now
            elif now - looked >= addresses.probe_seconds:
                looked = now
                if can_follow(addresses.first, addresses.current, self._identity):
                    addresses.use(addresses.first)
                    self._interrupt()
            self._clock.wait(self._stop, min(WATCH_SECONDS, addresses.probe_seconds))
        if opened is not None:
            opened[1].close()


def _belongs(stored: Position, end: Position) -> bool:
    """Whether what is stored can come from the server that has this end now.

    Only the position tells: a server counts a transaction as executed some time after it has sent it.
    """
    return stored.server_uuid == end.server_uuid and (not stored.same_files(end) or stored.order <= end.order)


# What was read has no continuation at the source. Only a task with a position in it minds.
_HISTORY_GONE = frozenset(
    {"source-reset", "source-gtid-diverged", "source-changed-without-gtid", "binlog-renamed-without-gtid"}
)

FIRST_WAIT = 0.5
LONGEST_WAIT = 5.0
JOIN_SECONDS = 5.0

_TRIES_AGAIN = "it tries again by itself"


class RelayUnit:
    """Pulls the binlog of a source into its relay directory."""

    name: UnitName = "Relay"

    def __init__(
        self,
        source: SourceConfig,
        directory: Path,
        *,
        start: Position | None = None,
        clock: Clock | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        free_space: FreeSpace = free_bytes,
    ) -> None:
        self._source = source
        self._directory = RelayDirectory(directory)
        self._clock = clock or SystemClock()
        self._storage = RelayStorage(self._directory, source.purge, self._clock, free_space)
        identity = identity_for("relay", source.source_id, server_id=source.server_id)
        self._settings = PullSettings(
            identity, start or _configured_start(source), heartbeat_seconds, source.relay_sync
        )
        self._addresses = SourceAddresses(source.endpoint, source.standby)
        self._source_watch = SourceWatch(self._addresses, identity, self._clock, self._stored, self._interrupt)
        self._puller: Puller | None = None
        self._trouble: DMError | None = None
        self._wait = FIRST_WAIT
        self._ended = threading.Event()

    @property
    def trouble(self) -> DMError | None:
        """What the relay is waiting for now."""
        return self._trouble

    def run(self, stop: threading.Event) -> None:
        """Pull until `stop`; raises DMError for what can't heal."""
        inspector = threading.Thread(target=self._inspect, name="relay-inspection", daemon=True)
        with sole_writer(self._directory.root), self._storage.watched(self._interrupt):
            checked_file.try_again(self._directory)
            inspector.start()
            try:
                with self._source_watch, told(stop, self._interrupt):
                    self._pull_until(stop)
            finally:
                self._ended.set()
                inspector.join(JOIN_SECONDS)

    def _pull_until(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._storage.require_room()
                self._pull(stop)
            except DMError as error:
                found = explained(error, self._addresses, self._known())
                if found.name in _HISTORY_GONE and begin_anew(self._directory):
                    continue
                if not found.retryable:
                    if found is error:
                        raise
                    raise found from error.__cause__
                if found.name == "relay-storage-failed":
                    self._storage.make_room()
                self._trouble = found
                self._addresses.failed(found)
                self._clock.wait(stop, self._wait)
                self._wait = min(self._wait * 2, LONGEST_WAIT)

    def _known(self) -> GtidSet | None:
        """The GTID set of what is stored; None when the last pull did not get as far as recovery."""
        puller = self._puller
        if puller is None:
            return None
        stored = puller.stored if puller.writer is None else puller.writer.position
        return None if stored is None else stored.gtid_set

    def _stored(self) -> Position | None:
        """The end of what is stored; None when no pull has got as far as recovery."""
        puller = self._puller
        writer = None if puller is None or not puller.agreed else puller.writer
        return None if writer is None or not writer.file else writer.position

    def _pull(self, stop: threading.Event) -> None:
        self._puller = Puller(self._addresses.current, self._directory, self._settings, self._clock)
        if not stop.is_set():  # from now on a set `stop` ends this pull
            self._puller.pull(self._progressed)

    def _inspect(self) -> None:
        try:
            inspect(self._directory, self._ended)
        except DMError as error:
            # Readers verify what they read anyway; the inspection only finds damage earlier.
            structlog.get_logger().warning("relay files were not inspected", error=error)

    def _interrupt(self) -> None:
        """End the running pull; the next one starts when the storage allows it."""
        puller = self._puller
        if puller is not None:
            puller.close()

    def _progressed(self) -> None:
        self._trouble = None
        self._addresses.served()
        self._wait = FIRST_WAIT

    def ask(self, question: str, arguments: Mapping[str, JSON]) -> JSON:
        """Answer `purge`: remove the files before one; raises DMError."""
        if question != "purge":
            raise DMError("internal-error", what=f"a relay was asked for {question!r}")
        file, sub = str(arguments["file"]), str(arguments["sub_directory"])
        return self._storage.purge_before(file, sub, self._source.source_id).to_json()

    def status(self) -> Mapping[str, JSON]:
        """DM's relayStatus, from memory."""
        writer = None if self._puller is None else self._puller.writer
        stored = self._stored()
        master = self._source_watch.end
        caught_up = (
            stored is not None
            and master is not None
            and stored.server_uuid == master.server_uuid
            and stored.order >= master.order
        )
        trouble = self._trouble
        errors: list[JSON] = [] if trouble is None else [_json(trouble)]
        return {
            "masterBinlog": "" if master is None else str(master),
            "masterBinlogGtid": "" if master is None else str(master.gtid_set),
            "relaySubDir": "" if writer is None else writer.sub.name,
            "relayBinlog": "" if stored is None else str(stored),
            "relayBinlogGtid": "" if stored is None else str(stored.gtid_set),
            "relayCatchUpMaster": caught_up,
            "sourceAddress": self._addresses.current.address,
            "standbyInUse": self._addresses.on_standby,
            **self._source_watch.retention.report(0.0 if caught_up else None, "" if stored is None else stored.file),
            "recoveryReadBytes": 0 if self._puller is None else self._puller.recovery_bytes,
            "accelerator": switch.state(),
            "storage": self._storage.status(),
            "stage": "Running",
            "result": {"isCanceled": False, "errors": errors, "detail": _TRIES_AGAIN if errors else None},
        }


def _json(error: DMError) -> JSON:
    report = error.report()
    return {
        "ErrCode": report["ErrCode"],
        "ErrClass": report["ErrClass"],
        "ErrScope": report["ErrScope"],
        "ErrLevel": report["ErrLevel"],
        "Message": report["Message"],
        "RawCause": report["RawCause"],
        "Workaround": report["Workaround"],
    }


def _configured_start(source: SourceConfig) -> Position | None:
    if source.relay_binlog_gtid:
        return Position("", "", gtid_set=GtidSet.parse(source.relay_binlog_gtid))
    if source.relay_binlog_name:
        return Position("", source.relay_binlog_name)
    return None


def inspect(directory: RelayDirectory, over: threading.Event) -> int:
    """Inspect every closed file, until `over` is set; returns how many had to be read."""
    files = [(sub, name) for sub in directory.sub_directories() for name in sub.files()]
    read = 0
    for sub, name in files[:-1]:
        if over.is_set():
            break
        try:
            read += _inspect(directory, sub, name)
        except (FileNotFoundError, DMError) as error:
            if isinstance(error, DMError) and error.name != "relay-file-missing":
                raise
            continue  # purged since the listing
        except OSError as error:
            raise DMError("relay-storage-failed", path=sub.path) from error
    return read


def _inspect(directory: RelayDirectory, sub: SubDirectory, name: str) -> bool:
    if _is_newest(directory, sub, name):
        return False  # the file after it had never begun and was removed: the pull continues in this one
    size = sub.file(name).stat().st_size
    seal = read_seal(sub.idx(name))
    if seal is not None and seal.size == size:
        return False
    if seal is not None and seal.final:
        checked_file.report(sub, name, min(size, seal.size), f"it has {size} bytes of {seal.size}")
        return False
    found = scan(sub.file(name), None, sub.flavor, trust=True)
    if found is None or found.what or found.stopped != found.index.complete:
        stopped, what = (0, "") if found is None else (found.stopped, found.what)
        checked_file.report(sub, name, stopped, what or "no whole event stands there")
    elif not end_is_proven(directory, sub, name, found):
        checked_file.report(sub, name, found.stopped, "its end can't be proven")
    elif not _is_newest(directory, sub, name):
        found.index.next_file = _following_name(sub, name)
        found.index.final = bool(found.index.next_file)
        write_index(sub.idx(name), found.index)
    return True


def _is_newest(directory: RelayDirectory, sub: SubDirectory, name: str) -> bool:
    return directory.last() == sub and sub.files()[-1:] == [name]


def _following_name(sub: SubDirectory, name: str) -> str:
    """The file after this one in the same sub-directory; empty for the newest."""
    return next((later for later in sub.files() if file_number(later) > file_number(name)), "")
