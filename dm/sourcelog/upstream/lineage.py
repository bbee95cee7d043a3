"""Whether a server has everything that was read before, and which of a source's addresses is in use.

The reader never follows a server that lacks transactions we have: its next writes would take their place. Three cases
look alike at first. The server is *after* and will have them: the reader waits if waiting can help (a standby that
still replicates). The server has *diverged*: it wrote other transactions instead, or has lost its own. Or it was
*reset*. The last two need a person, who needs both GTID sets to decide.

Which of a source's addresses is in use.

A source may name a second server of its replication group, `standby`. The program that pulls the binlog decides between
the two: the relay, or the reader of a task without relay. It switches to the other address when the one in use fails.
If nothing answers there, it switches at once. If connections only break, it switches after three failures with nothing
received in between, because a single broken connection is reopened at the same address. It returns to the first address
when that server has everything and can send what follows (`can_follow`).

All other questions go to the server whose events are being read. Its uuid identifies it. An answer of another server
would compare places of two binlogs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Final

from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.header import EventType
from dm.mysql.dialect.pair import same_family
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.upstream.connection import PROMPT_SECONDS, Connection, ReplicaIdentity, connect
from dm.sourcelog.upstream.dump_stream import DumpStream
from dm.sourcelog.upstream.facts import ServerFacts, binlog_files, executed_gtids, purged_gtids, read_facts
from dm.sourcelog.upstream.locate import resume_after

# Errors about a source's past, with the detail that ends their message.
_ABOUT_THE_PAST: Final = {"source-binlog-purged": "missing", "source-reset": "what", "source-gtid-diverged": "missing"}


def expect_all(
    connection: Connection, facts: ServerFacts, ours: GtidSet, address: str, *, read_from: str, may_wait: bool
) -> None:
    """Raise `source-gtid-diverged`, or `source-after` where waiting may help, if the server lacks any of `ours`.

    `read_from` is the server whose place `ours` belongs to. Where transactions without GTIDs were read last, no other
    server can show that it has them: DMError `gtids-tell-nothing`.
    """
    if ours.anonymous and read_from != facts.server_uuid:
        why = "what was read last has no GTIDs, so nothing tells whether the server has it"
        raise DMError("gtids-tell-nothing", now=facts.server_uuid, ours=ours, why=why)
    ours = ours.named
    if not facts.gtid_mode or not ours or not same_family(ours.flavor, facts.flavor):
        return
    theirs = executed_gtids(connection, facts)
    missing = ours - theirs
    if facts.dialect.gtids_have_domains and read_from == facts.server_uuid:
        # A start that a person configured may name domains that this server has replicated and never written.
        known = {part.split("-")[0] for part in str(theirs).split(",")}
        missing = GtidSet.parse(",".join(part for part in str(missing).split(",") if part.split("-")[0] in known))
    if not missing:
        return
    if may_wait and not lost_for_ever(facts, missing, theirs - ours):
        raise DMError("source-behind", address=address, missing=missing, ours=ours, theirs=theirs or "nothing")
    raise DMError("source-gtid-diverged", missing=f"{missing}; {_both(ours, address, facts, theirs, connection)}")


def still_has(connection: Connection, facts: ServerFacts, place: Position) -> bool:
    """Whether the server has all of its binlog after a place that was read from it or from another server."""
    names = [name for name, _ in binlog_files(connection)]
    if place.file and place.server_uuid == facts.server_uuid and any(place.same_base(name) for name in names):
        return place.file in names
    if not place.gtid_set or not facts.gtid_mode or facts.dialect.gtids_have_domains:
        return False  # MariaDB does not report what it has purged
    return place.gtid_set.reaches_into(purged_gtids(connection, facts))


def lost_for_ever(facts: ServerFacts, missing: GtidSet, extra: GtidSet) -> bool:
    """Whether the server wrote transactions that we don't know, or lost its own."""
    if not facts.dialect.gtids_have_domains:
        return facts.server_uuid in f"{missing},{extra}"
    domains = {part.split("-")[0] for part in str(missing).split(",")}
    own = [part.split("-")[:2] for part in f"{missing},{extra}".split(",") if part]
    return any(domain in domains and int(server) == facts.server_id for domain, server in own)


def _both(ours: GtidSet, address: str, facts: ServerFacts, theirs: GtidSet, connection: Connection) -> str:
    purged = purged_gtids(connection, facts)
    past = f" (purged: {purged})" if purged else ""
    return f"read so far: {ours or 'nothing with a GTID'}; {address} has: {theirs or 'nothing with a GTID'}{past}"


def explained(error: DMError, addresses: SourceAddresses, ours: GtidSet | None) -> DMError:
    """The error itself; an error about the source's past gets both GTID sets, or becomes one that waiting may heal."""
    key = _ABOUT_THE_PAST.get(error.name)
    compared = error.details.get("ours")
    if isinstance(compared, GtidSet):
        ours = compared
    if key is None or ours is None:
        return error
    endpoint = addresses.current
    try:
        connection, facts = open_at(endpoint)
        with closing(connection):
            if error.name == "source-gtid-diverged":
                may_wait = addresses.other is not None
                expect_all(connection, facts, ours.named, endpoint.address, read_from="", may_wait=may_wait)
            theirs = executed_gtids(connection, facts)
            sets = _both(ours, endpoint.address, facts, theirs, connection)
    except DMError as found:
        if found.name in ("source-behind", "source-gtid-diverged"):
            found.position = error.position
            return found
        sets = f"read so far: {ours}; what {endpoint.address} has can't be asked: {found.message}"
    details = {**error.details, key: f"{error.details[key]}; {sets}"}
    return DMError(error.name, position=error.position, cause=error.cause, **details).numbered(error.server_errno)


def can_follow(first: Endpoint, current: Endpoint, identity: ReplicaIdentity) -> bool:
    """Whether the server at `first` has all that the one at `current` has, and can send what follows."""
    try:
        connection, facts = open_at(current)
        with closing(connection):
            ours = executed_gtids(connection, facts)
        connection, facts = open_at(first)
        with closing(connection):
            if not facts.log_bin or not facts.gtid_mode or not executed_gtids(connection, facts) >= ours:
                return False
        # It may have purged what follows, or number it differently: only a request tells.
        resume_after(facts, first, identity, ours)
    except DMError:
        return False  # not back, whatever the reason; the pull continues where it is
    return True


# The beginning of a binlog file at the server, which tells two files of one name apart.


def created_in(event: bytes) -> int:
    """The timestamp of a format description, in seconds."""
    return int.from_bytes(event[:4], "little")


def creation_time(endpoint: Endpoint, identity: ReplicaIdentity, file: str) -> int:
    """The second in which the server began the file, from its format description; raises DMError."""
    with DumpStream(endpoint, identity, (file, MAGIC_SIZE)) as stream:
        for batch in stream.batches():
            for event in batch:
                if event[4] == EventType.FORMAT_DESCRIPTION:
                    return created_in(event)
    raise DMError("internal-error", what="a dump stream ended without a word")


PROBE_SECONDS = 10.0  # how often a source on its standby checks whether the first address is back
_FAILURES: Final = 3
# What can differ at the other address. All other errors are about us: our disk, our directory.
_OF_THE_ADDRESS: Final = frozenset({"connection-failed", "connection-lost", "dump-stream-garbled", "source-behind"})

Opened = tuple[Connection, ServerFacts]


class SourceAddresses:
    """The first address of a source, its standby, and which is in use; shared by the threads of a unit."""

    def __init__(
        self,
        endpoint: Endpoint,
        standby: Endpoint | None = None,
        *,
        reading_from: Callable[[], str] = str,
    ) -> None:
        self.first: Final = endpoint
        self.probe_seconds: Final = PROBE_SECONDS
        self._standby = standby
        self._reading_from = reading_from
        self._lock = threading.Lock()
        self._current = endpoint
        self._failures = 0

    @property
    def current(self) -> Endpoint:
        """The address in use."""
        return self._current

    @property
    def other(self) -> Endpoint | None:
        """The address not in use; None if there is only one."""
        return self.first if self.on_standby else self._standby

    @property
    def on_standby(self) -> bool:
        """Whether the first address was abandoned."""
        return self._current is not self.first

    def is_read(self, facts: ServerFacts) -> bool:
        """Whether the events read are this server's; True until that is known."""
        return self._reading_from() in ("", facts.server_uuid)

    def failed(self, error: DMError) -> None:
        """The address in use failed; decides whether to switch."""
        with self._lock:
            other = self.other
            if other is None or error.name not in _OF_THE_ADDRESS:
                return
            self._failures += 1
            if error.name == "connection-failed" or self._failures >= _FAILURES:
                self._use(other)

    def served(self) -> None:
        """Data arrived from the address in use."""
        if self._failures:
            with self._lock:
                self._failures = 0

    def use(self, endpoint: Endpoint) -> None:
        """Use this address from now on."""
        with self._lock:
            self._use(endpoint)

    def _use(self, endpoint: Endpoint) -> None:
        self._current = endpoint
        self._failures = 0

    def open(self, *, any_server: bool = False) -> Opened:
        """A connection to the server whose events are read, and its facts; raises DMError.

        With `any_server`, a connection to another reachable server if that one can't be reached.
        """
        wanted = self._reading_from()
        reached: Opened | None = None
        trouble: DMError | None = None
        for endpoint in (self._current, self.other) if any_server or wanted else (self._current,):
            if endpoint is None:
                continue
            try:
                opened = open_at(endpoint)
            except DMError as error:
                trouble = trouble or error
                continue
            if wanted in ("", opened[1].server_uuid) or (any_server and reached is None and self.other is None):
                self.use(endpoint)
                if reached is not None:
                    reached[0].close()
                return opened
            if reached is None:
                reached = opened
            else:
                opened[0].close()
        if reached is not None and any_server:
            return reached
        if reached is not None:
            reached[0].close()
            trouble = DMError("source-switched", now=reached[1].server_uuid, before=wanted)
        raise trouble or DMError("internal-error", what="a source without an address")


def open_at(endpoint: Endpoint) -> Opened:
    """A connection to this address, and the facts of the server there; raises DMError."""
    connection = connect(endpoint, read_timeout=PROMPT_SECONDS)
    try:
        return connection, read_facts(connection)
    except BaseException:
        connection.close()
        raise
