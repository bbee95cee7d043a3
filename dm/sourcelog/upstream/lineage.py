"""Whether a server has everything that was read before, perhaps from another server.

The reader never follows a server that lacks transactions we have: its next writes would take their place. Three cases
look alike at first. The server is *after* and will have them: the reader waits if waiting can help (a standby that
still replicates). The server has *diverged*: it wrote other transactions instead, or has lost its own. Or it was
*reset*. The last two need a person, who needs both GTID sets to decide.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.header import EventType
from dm.mysql.dialect.pair import same_family
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.upstream.address import SourceAddresses, open_at
from dm.sourcelog.upstream.connection import Connection, ReplicaIdentity
from dm.sourcelog.upstream.dump_stream import DumpStream
from dm.sourcelog.upstream.facts import ServerFacts, binlog_files, executed_gtids, purged_gtids
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
