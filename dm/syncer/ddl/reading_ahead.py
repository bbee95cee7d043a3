"""Parses the next statement while the target executes the current one.

Parsing a statement takes longer than asking the target for it, and a statement waits for the one before it. So a thread
parses what comes next in the queue, and routes it. It keeps and decides nothing: the caches of `dm.mysql.sql.token` and
`dm.mysql.sql.grammar` hold what it has parsed until the statement's turn. Unreadable text is reported then, too. A
defect of dm is logged here and stops nothing: a person may skip the statement, and then its turn never comes.
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
"""How many items of a transaction are looked at: in a longer one, the rows take the time."""


@dataclass(frozen=True, slots=True)
class StatementReading:
    """How a statement is parsed and routed."""

    context_of: Callable[[Query], SourceContext]
    followed: Callable[[TableName], bool]
    route: Callable[[TableName], TableName]
    singly: bool = False  # as in `dm.syncer.ddl.plan.SourceAnswers`
    replaces: bool = True


class ReadingAhead:
    """Parses ahead on demand; `following` returns the transaction that the dispatcher will take next, if any."""

    def __init__(self, following: Callable[[], SourceTransaction | None], reading: StatementReading) -> None:
        self._following = following
        self._reading = reading
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._present: Future[None] | None = None

    def begin(self) -> None:
        """Parse the next transaction's statements in the thread, unless it is busy."""
        if self._present is None or self._present.done():
            following = self._following()
            if following is not None and not following.empty:
                self._present = self._thread.submit(self.read, following)
                self._present.add_done_callback(_logged)

    def read(self, transaction: SourceTransaction) -> None:
        """Parse the statements of a transaction."""
        with suppress(DMError):  # a faulty statement is reported in its turn
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
        """End the thread after its current work."""
        self._thread.shutdown()


def _logged(reading: Future[None]) -> None:
    defect = reading.exception()
    if defect is not None:
        _LOG.error("a statement can't be read ahead of its turn", exc_info=defect)


def _statements(transaction: SourceTransaction) -> Sequence[Query]:
    items = transaction.items
    if not isinstance(items, MemoryItems) or isinstance(items, PlainItems):
        return ()  # only rows, or spooled to a file
    return [item.query for item in islice(items, _ITEMS) if isinstance(item, StatementItem)]
