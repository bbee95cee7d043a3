"""The transactions of a stretch of the relay, in its order.

Both ends cut the binlog as `start-task --until` does (`dm.syncer.stream.until`): the stretch has what comes behind the
first cut and not behind the second. So two stretches that share a place share no transaction and leave none out.
Reading begins exactly at the first cut, so only the second is looked for.

The relay is read up to the checkpoint and never waited for: what the relay does not have by now is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dm.errors import DMError
from dm.flavor import Flavor
from dm.ident import TableName
from dm.position import Position
from dm.relaylog.layout import RelayDirectory
from dm.relaylog.relay_source import RelayEventSource
from dm.relaylog.time_search import find_time
from dm.syncer.stream.prepared import PreparedTransactions
from dm.syncer.stream.relay_reading import RelayReading
from dm.syncer.stream.transaction import SourceTransaction
from dm.syncer.stream.until import Until, UntilGtids, UntilPosition, UntilTime


@dataclass(frozen=True, slots=True)
class Stretch:
    """From one cut to another, as far as the target is."""

    source_id: str
    relay: Path
    flavor: Flavor
    begin: Until
    end: Until | None
    checkpoint: Position
    room: int  # bytes of memory for a transaction
    gtids_ordered: bool = True

    def start(self) -> Position:
        """Where to begin to read; raises DMError where the relay has not all of the stretch, or the target has not."""
        if not RelayDirectory(self.relay).sub_directories():
            raise DMError("flashback-without-relay", source=self.source_id)
        ahead = self.end is not None and not isinstance(self.end, UntilTime) and not self.end.reached(self.checkpoint)
        if ahead:
            raise DMError("flashback-ahead", place=self.end, checkpoint=self.checkpoint)
        source = RelayEventSource(self.relay, self.flavor)
        match self.begin:
            case UntilPosition(position):
                return source.complete(position)
            case UntilGtids(gtid_set):
                return Position("", "", gtid_set=gtid_set)
            case UntilTime(seconds, _):
                found = find_time(RelayDirectory(self.relay), self.flavor, seconds)
                if found is None:
                    return self.checkpoint  # nothing is as late
                if not found.known:
                    raise DMError("flashback-relay-younger", time=self.begin, place=found.position)
                return found.position
        raise DMError("internal-error", what=f"no place is known of {self.begin}")

    def transactions(
        self, start: Position, wanted: Callable[[TableName], bool], scratch: Path, stop: threading.Event
    ) -> Iterator[tuple[SourceTransaction, bool]]:
        """Everything from `start` to the checkpoint, and whether it is in the stretch.

        Each is valid until the next is asked for.
        """
        if start.file and start.covers(self.checkpoint):
            return
        prepared = PreparedTransactions(scratch / "prepared")
        prepared.open(0, None)
        reading = RelayReading(self.relay, self.flavor, wanted, self.room, self.gtids_ordered)
        inside, there = True, start
        for transaction in reading.transactions(start, prepared, scratch / "spool", stop):
            inside = inside and (self.end is None or self.end.admits(transaction))
            yield transaction, inside
            there = transaction.end
            if there.covers(self.checkpoint):
                return
        if not stop.is_set():
            raise DMError("flashback-relay-behind", source=self.source_id, there=there, wanted=self.checkpoint)
