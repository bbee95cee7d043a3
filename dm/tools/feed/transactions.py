"""The relay's transactions with the rows of the table that a query is about."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from dm.position import Position
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.relay_reading import RelayReading
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.tools.feed.options import FeedOptions


def transactions(options: FeedOptions, start: Position, prepared: PreparedTransactions) -> Iterator[SourceTransaction]:
    """Everything after `start` that is there; each is valid until the next is asked for."""
    # Only the server knows whether MariaDB's numbers are in order; without that, only places count.
    ordered = options.flavor == "mysql"
    wanted = options.structures.__contains__
    reading = RelayReading(options.relay, options.flavor, wanted, options.memory_bytes, ordered)
    with tempfile.TemporaryDirectory(prefix="dm-feed-") as scratch:
        yield from reading.transactions(start, prepared, Path(scratch), threading.Event())
