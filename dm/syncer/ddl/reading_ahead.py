"""The text of the next statement is read while the target executes the present one.

To read a statement takes longer than to ask the target for it, and nothing else can be done meanwhile: a statement
waits for the one before it. So a thread reads what comes next in the queue, and what it is for the target. It keeps
nothing and decides nothing: what was read is found where the last texts are kept (`dm.mysql.sql.token`,
`dm.mysql.sql.grammar`), by whoever reads the statement in its turn. What can't be read is told then, too. A defect of
ours is logged here and stops nothing: a person may leave the statement out, and then its turn never comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.reader import Query
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.grammar import without_ignored_references
from dm.mysql.sql.split import split
from dm.mysql.sql.statement import kind_of
from dm.sourcelog.stream.transaction import MemoryItems, PlainItems, SourceTransaction, StatementItem

_LOG = logging.getLogger(__name__)
_ITEMS: Final = 4
"""How many items of a transaction are looked at: after more than these, rows are what takes the time."""


@dataclass(frozen=True, slots=True)
class StatementReading:
    """How a statement is read, and how it is named at the target."""

    context_of: Callable[[Query], SourceContext]
    followed: Callable[[TableName], bool]
    route: Callable[[TableName], TableName]
    singly: bool = False  # as in `dm.syncer.ddl.plan.SourceAnswers`
    replaces: bool = True


class ReadingAhead:
    """Reads ahead when it is told to; `next` gives the transaction that the dispatcher will take, if there is one."""

    def __init__(self, following: Callable[[], SourceTransaction | None], reading: StatementReading) -> None:
        self._following = following
        self._reading = reading
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._present: Future[None] | None = None

    def begin(self) -> None:
        """Read what follows in another thread, unless it still reads."""
        if self._present is None or self._present.done():
            following = self._following()
            if following is not None and not following.empty:
                self._present = self._thread.submit(self.read, following)
                self._present.add_done_callback(_logged)

    def read(self, transaction: SourceTransaction) -> None:
        """Read the statements of a transaction."""
        with suppress(DMError):  # whatever is wrong with a statement, its turn has not come
            for query in _statements(transaction):
                self._read(query)

    def _read(self, query: Query) -> None:
        reading = self._reading
        context = reading.context_of(query)
        if kind_of(query.text, context) != "ddl":
            return
        text = without_ignored_references(query.text, context)
        for piece in split(text, context, singly=reading.singly, replaces=reading.replaces):
            if any(map(reading.followed, piece.tables)):
                piece.route(reading.route)

    def close(self) -> None:
        """End the thread, when it has read what it reads."""
        self._thread.shutdown()


def _logged(reading: Future[None]) -> None:
    defect = reading.exception()
    if defect is not None:
        _LOG.error("a statement can't be read ahead of its turn", exc_info=defect)


def _statements(transaction: SourceTransaction) -> Sequence[Query]:
    items = transaction.items
    if not isinstance(items, MemoryItems) or isinstance(items, PlainItems):
        return ()  # rows, or what is in a file
    return [item.query for item in islice(items, _ITEMS) if isinstance(item, StatementItem)]
