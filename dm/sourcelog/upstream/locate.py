"""Where a server's binlog continues after a GTID set.

The set was read from another server, or from files of another name. The server finds the first transaction that the set
lacks, but a set says nothing of transactions without GTIDs (dm/gtid.py). The server may have some before that place,
from a time when its `gtid_mode` was not ON, and would not send them. So `resume_after` begins in a file that precedes
something that was read, and looks at all that follows there, up to the first transaction that the set lacks. One
without a GTID among these may have been read or not: it is refused. What precedes the file was read, since replicas
commit in their source's order.

The place in a server's binlog where a time begins.

A binary search finds the file, with one short dump per step. Then the file is read until the time is reached. On MySQL
the first transaction of a file has its commit time, from a clock that no session sets; everything in earlier files was
committed earlier. On MariaDB and MySQL 5.7 there is only the file's first event, with the clock of the session that
began the file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.gtid import Gtid, GtidSet
from dm.mysql.binlog.cursor import ByteCursor
from dm.mysql.binlog.frame import has_checksum
from dm.mysql.binlog.gtid_history import TimeBoundary, empty_history
from dm.mysql.binlog.header import CHECKSUM_SIZE, HEADER, HEADER_SIZE, HEARTBEATS, NOT_TRANSACTIONS, EventType
from dm.mysql.binlog.transaction import parse_gtid, parse_gtid_tagged
from dm.mysql.dialect import Flavor, dialect
from dm.position import MAGIC_SIZE, Position, TimePlace
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import ReplicaIdentity, connect, fetch
from dm.sourcelog.upstream.dump_stream import DumpStream
from dm.sourcelog.upstream.facts import ServerFacts, binlog_end, binlog_files, read_facts
from dm.sourcelog.upstream.packet_reader import StreamPosition

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
    if facts.dialect.gtids_have_domains:
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


def place_after(facts: ServerFacts, endpoint: Endpoint, identity: ReplicaIdentity, gtid_set: GtidSet) -> Position:
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


# The GTID set at a file and offset that were configured without one.

_LEADING = frozenset({EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS})


@reads_answers
def gtids_before(endpoint: Endpoint, identity: ReplicaIdentity, file: str, offset: int, flavor: Flavor) -> GtidSet:
    """Everything complete before this offset: MariaDB is asked; on MySQL the file is read up to there."""
    if dialect(flavor).gtids_have_domains:
        connection = connect(endpoint)
        try:
            found = fetch(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (file, offset))[0][0]
        finally:
            connection.close()
        return GtidSet.parse(str(found or ""), "mariadb")
    history = empty_history(flavor)
    place = StreamPosition()
    with DumpStream(endpoint, identity, (file, 4)) as stream:
        for batch in stream.batches():
            for event in batch:
                in_file = place.advance(event)
                leading = event[4] in _LEADING
                # A heartbeat, or another file's name: this file has no more events.
                if place.file != file or event[4] in HEARTBEATS:
                    return history.gtid_set
                if not in_file:
                    continue
                if place.offset > offset and not leading:
                    return history.gtid_set
                history.feed(event)
                if place.offset >= offset and not leading:
                    return history.gtid_set
    return history.gtid_set


_GTIDS: Final = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED})
_NEVER: Final = 1 << 62  # later than any time


def find_time(endpoint: Endpoint, identity: ReplicaIdentity, time: int) -> TimePlace | None:
    """The place of a time, in seconds since the epoch; None if nothing there is as late."""
    connection = connect(endpoint)
    try:
        facts = read_facts(connection)
        files = [name for name, _ in binlog_files(connection)]
        end = binlog_end(connection, facts, exact=False)
    finally:
        connection.close()
    # The last file that began before the time: transactions of one second may be in two files.
    number = bisect_left(range(len(files)), time, key=lambda one: _began(endpoint, identity, files[one], end))
    start = files[max(0, number - 1)]
    found = _after_older(endpoint, identity, start, end, time)
    if found is None:
        return None
    gtid_set = GtidSet.empty(facts.flavor)
    if facts.gtid_mode:
        gtid_set = gtids_before(endpoint, identity, found.file, found.offset, facts.flavor)
    return TimePlace(Position(facts.server_uuid, found.file, found.offset, gtid_set), found.older or number > 1)


def _began(endpoint: Endpoint, identity: ReplicaIdentity, file: str, end: Position) -> int:
    """No transaction of an earlier file is later; later than any time if nothing is written from this file on."""
    place, created = StreamPosition(), 0
    with DumpStream(endpoint, identity, (file, MAGIC_SIZE)) as stream:
        for batch in stream.batches():
            for event in batch:
                if not place.advance(event):
                    continue
                if event[4] == EventType.FORMAT_DESCRIPTION:
                    created = created or int.from_bytes(event[:4], "little")
                elif event[4] in _GTIDS:
                    return _committed(event) or created
                elif event[4] not in NOT_TRANSACTIONS:
                    return created  # a transaction of MariaDB, or of MySQL 5.6
                if Position(end.server_uuid, place.file, place.offset).order >= end.order:
                    return _NEVER
    raise DMError("internal-error", what="a dump stream ended without a word")


def _committed(event: bytes) -> int:
    """The second of a transaction's commit at this server, by its GTID event; 0 if the event lacks it."""
    end = len(event) - (CHECKSUM_SIZE if has_checksum(event) else 0)
    if event[4] == EventType.GTID_TAGGED:
        found = parse_gtid_tagged(ByteCursor(event, HEADER_SIZE, end))
    else:
        found = parse_gtid(event, HEADER_SIZE, end, event[4] == EventType.ANONYMOUS_GTID)
    return (found.commit_timestamp_us or 0) // 1_000_000


def _after_older(
    endpoint: Endpoint, identity: ReplicaIdentity, start: str, end: Position, time: int
) -> TimeBoundary | None:
    """The place after the last older transaction; None at the end of the binlog."""
    place, boundary = StreamPosition(), TimeBoundary(time, start, MAGIC_SIZE)
    with DumpStream(endpoint, identity, (start, MAGIC_SIZE)) as stream:
        for batch in stream.batches():
            for event in batch:
                if place.advance(event) and boundary.reaches(event, place.file, place.offset):
                    return boundary
                if Position(end.server_uuid, place.file, place.offset).order >= end.order:
                    return None
    raise DMError("internal-error", what="a dump stream ended without a word")
