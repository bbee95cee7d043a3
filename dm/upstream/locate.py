"""Where a server's binlog continues after a GTID set.

The set was read from another server, or from files of another name. The server finds the first transaction that the set
lacks, but a set says nothing of transactions without GTIDs (dm/gtid.py). The server may have some before that place,
from a time when its `gtid_mode` was not ON, and would not send them. So `resume_after` begins in a file that precedes
something that was read, and looks at all that follows there, up to the first transaction that the set lacks. One
without a GTID among these may have been read or not: it is refused. What precedes the file was read, since replicas
commit in their source's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from dm.binlog.cursor import ByteCursor
from dm.binlog.event_end import has_checksum
from dm.binlog.header import CHECKSUM_SIZE, HEADER, HEADER_SIZE, EventType
from dm.binlog.transaction import parse_gtid, parse_gtid_tagged
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.gtid import Gtid, GtidSet
from dm.position import MAGIC_SIZE, Position
from dm.upstream.connection import connect
from dm.upstream.dump_stream import DumpStream
from dm.upstream.facts import ServerFacts, binlog_end, binlog_files
from dm.upstream.gtid_history import gtids_before
from dm.upstream.replica_identity import ReplicaIdentity
from dm.upstream.stream_position import StreamPosition

_HEARTBEAT_SECONDS = 1.0


def locate(facts: ServerFacts, endpoint: Endpoint, identity: ReplicaIdentity, gtid_set: GtidSet) -> Position:
    """The start of the file with the first transaction the set lacks; the server finds and names it."""
    place = StreamPosition()
    with DumpStream(endpoint, identity, gtid_set) as stream:
        for batch in stream.batches():
            for event in batch:
                place.advance(event)
                if event[4] == EventType.ROTATE and place.file:
                    return Position(facts.server_uuid, place.file, MAGIC_SIZE, gtid_set)
    raise DMError("internal-error", what="a dump stream ended without a word")


def resume_after(facts: ServerFacts, endpoint: Endpoint, identity: ReplicaIdentity, gtid_set: GtidSet) -> Position:
    """The start of the file from which nothing is missed after a set that was read elsewhere.

    Raises DMError, `gtids-tell-nothing` where no file proves that.
    """
    found = locate(facts, endpoint, identity, gtid_set)
    if facts.flavor == "mariadb":
        return found
    with closing(connect(endpoint)) as connection:
        names = [name for name, _ in binlog_files(connection)]
        end = binlog_end(connection, facts)
    # Files of another name, from before `log_bin` was changed, have no order with these.
    names = names[: names.index(found.file) + 1] if found.file in names else [found.file]
    names = [name for name in names if found.same_base(name)]
    try:
        file = _beginning_inside(endpoint, identity, names, gtid_set)
        start = Position(facts.server_uuid, file, MAGIC_SIZE, gtid_set)
        why = f"its binlog begins with {names[0]}, and all that was read precedes it"
        if file:
            with DumpStream(endpoint, identity, (file, MAGIC_SIZE)) as stream:
                why = _anonymous(stream, start, end)
    except DMError as error:
        if error.name != "anonymous-not-sent":
            raise
        why = f"it has transactions without GTIDs ({error.cause})"
    if why:
        raise DMError("gtids-tell-nothing", now=facts.server_uuid, ours=gtid_set, why=why)
    return start


def _beginning_inside(endpoint: Endpoint, identity: ReplicaIdentity, names: Sequence[str], gtid_set: GtidSet) -> str:
    """The last of the files that begins inside of the set; empty if none does."""
    for name in reversed(names):
        if gtid_set.reaches_into(gtids_before(endpoint, identity, name, MAGIC_SIZE, "mysql")):
            return name
    return ""


def _anonymous(stream: DumpStream, start: Position, end: Position) -> str:
    """What tells of a transaction without a GTID before the first one that the set of `start` lacks; else empty.

    MySQL sends none while its gtid_mode is ON, and ends the dump (Binlog_sender::check_event_type).
    """
    place = StreamPosition()
    for batch in stream.batches():
        for event in batch:
            in_file = place.advance(event)
            if in_file and event[4] == EventType.ANONYMOUS_GTID:
                return f"it has a transaction without a GTID at ({place.file}, {place.offset - len(event)})"
            named = in_file and event[4] in (EventType.GTID, EventType.GTID_TAGGED)
            if named and _gtid(event) not in start.gtid_set:
                return ""
            if Position(end.server_uuid, place.file, place.offset).order >= end.order:
                return ""
    raise DMError("internal-error", what="a dump stream ended without a word")


def _gtid(event: bytes) -> Gtid:
    stop = len(event) - (CHECKSUM_SIZE if has_checksum(event) else 0)
    if event[4] == EventType.GTID_TAGGED:
        found = parse_gtid_tagged(ByteCursor(event, HEADER_SIZE, stop)).gtid
    else:
        found = parse_gtid(event, HEADER_SIZE, stop, anonymous=False).gtid
    assert found is not None
    return found


def place_behind(facts: ServerFacts, endpoint: Endpoint, identity: ReplicaIdentity, gtid_set: GtidSet) -> Position:
    """The exact place after the last transaction of a MariaDB set of one domain, which the server finds itself.

    The first event it sends begins there; a heartbeat says that nothing follows it yet.
    """
    place = StreamPosition()
    with DumpStream(endpoint, identity, gtid_set, heartbeat_seconds=_HEARTBEAT_SECONDS) as stream:
        for batch in stream.batches():
            for event in batch:
                in_file = place.advance(event)
                if in_file and event[4] == EventType.MARIADB_GTID:
                    return Position(facts.server_uuid, place.file, place.offset - len(event), gtid_set)
                if event[4] == EventType.HEARTBEAT:
                    name = event[HEADER_SIZE : -CHECKSUM_SIZE if has_checksum(event) else None].decode()
                    return Position(facts.server_uuid, name, HEADER.unpack_from(event)[4], gtid_set)
    raise DMError("internal-error", what="a dump stream ended without a word")
