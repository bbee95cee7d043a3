"""The place in the relay's files that `dmctl replay --until` means; it cuts the binlog as `start-task --until` does."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from dm.errors import DMError
from dm.position import Position
from dm.relaylog.layout import RelayDirectory
from dm.relaylog.time_search import find_time
from dm.replay.decoding import NoPrepared
from dm.syncer.stream.relay_reading import RelayReading
from dm.syncer.stream.until import Until, UntilGtids, UntilPosition, UntilTime
from dm.upstream.facts import ServerFacts


def place_of_end(
    until: Until, relay: Path, facts: ServerFacts, start: Position, room: int, stop: threading.Event
) -> Position | None:
    """The place, at the end of a transaction; None where all that the relay has lies before it. Raises DMError."""
    until.demand_ahead(start, None)
    match until:
        case UntilTime(seconds, _):
            found = find_time(RelayDirectory(relay), facts.flavor, seconds)
            if found is not None and not found.position.same_files(start):
                server = found.position.server_uuid
                raise DMError("until-elsewhere", place=until, now=start.server_uuid, server=server)
            return None if found is None else found.position
        case UntilPosition() | UntilGtids():
            return _read_up_to(until, relay, facts, start, room, stop)
    raise DMError("internal-error", what=f"no place is known of {until}")


def _read_up_to(
    until: Until, relay: Path, facts: ServerFacts, start: Position, room: int, stop: threading.Event
) -> Position | None:
    """Only the relay's own events tell where transactions end, and which is the last of a set; no row is read."""
    reading = RelayReading(relay, facts.flavor, lambda table: False, room, facts.gtid_ordered)
    there = start
    with tempfile.TemporaryDirectory(prefix="dm-replay-") as scratch:
        for transaction in reading.transactions(start, NoPrepared(passes=True), Path(scratch), stop):
            if not until.admits(transaction):
                return there
            there = transaction.end
            if until.reached(there):
                return there
    return None
