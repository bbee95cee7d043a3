"""XA transactions in a feed: those without rows of the table pass, others end the stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.sourcelog.stream.transaction import TransactionItems
from dm.tools.feed.options import FeedOptions


class SeenPrepared:
    """Remembers of each xid whether its PREPARE, still undecided where reading ended, is without rows of the table."""

    def __init__(self) -> None:
        self.empty: dict[str, bool] = {}

    def hold(self, xid: str, items: TransactionItems, **_: object) -> None:
        """A PREPARE."""
        self.empty[xid] = not len(items)

    def commit(self, xid: str, **_: object) -> None:
        """An XA COMMIT; its rows are not looked for here."""
        self.empty[xid] = False

    def rollback(self, xid: str, **_: object) -> None:
        """An XA ROLLBACK."""
        self.empty[xid] = False


class EmptyPrepared:
    """Raises `feed-xa` at a PREPARE with rows, and at a COMMIT whose PREPARE is not known to be empty.

    The place of a decision does not tell what was prepared. Where the PREPARE lies before the part that is read, the
    relay is asked for it, from there backwards, a file at a time: mostly it is in the same file.
    """

    def __init__(self, options: FeedOptions, start: Position) -> None:
        self._seen = SeenPrepared()
        self._earlier = _earlier(options, start)

    def hold(self, xid: str, items: TransactionItems, *, end: Position, **_: object) -> None:
        """A PREPARE; raises DMError where it has rows."""
        if len(items):
            raise DMError("feed-xa", xid=xid, place=end)
        self._seen.hold(xid, items)

    def commit(self, xid: str, *, end: Position, **_: object) -> None:
        """An XA COMMIT; raises DMError where it may have rows."""
        if not self._was_empty(xid):
            raise DMError("feed-xa", xid=xid, place=end)
        self._seen.commit(xid)

    def rollback(self, xid: str, **_: object) -> None:
        """An XA ROLLBACK."""
        self._seen.rollback(xid)

    def _was_empty(self, xid: str) -> bool:
        seen = self._seen
        while xid not in seen.empty:
            found = next(self._earlier, None)
            if found is None:
                return False
            seen.empty = found | seen.empty  # the later word counts
        return seen.empty[xid]


def _earlier(options: FeedOptions, start: Position) -> Iterator[dict[str, bool]]:
    """What each file of the relay says up to `start`, the latest first."""
    source = RelayEventSource(options.relay, options.flavor)
    for server_uuid, file in _files_up_to(options.relay, start):
        begin = source.complete(Position(server_uuid, file, MAGIC_SIZE, GtidSet.empty(options.flavor)))
        seen = SeenPrepared()
        try:
            if not begin.reaches(start):
                for transaction in options.transactions(begin, seen):
                    end = transaction.end
                    if (end.server_uuid, end.file) != (server_uuid, file) or end.reaches(start):
                        break
        except DMError as error:
            if error.name != "source-switched":  # else the file is the last one of its server
                raise
        yield seen.empty


def _files_up_to(relay: Path, start: Position) -> Iterator[tuple[str, str]]:
    met = False
    for sub in reversed(RelayDirectory(relay).sub_directories()):
        files = sub.files()
        if not met:
            if sub.server_uuid != start.server_uuid or start.file not in files:
                continue
            met = True
            files = files[: files.index(start.file) + 1]
        for file in reversed(files):
            yield sub.server_uuid, file
