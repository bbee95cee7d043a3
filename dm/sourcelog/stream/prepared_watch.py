"""XA transactions that stay undecided: whether the source still knows them.

A prepared transaction holds its locks at the source until somebody decides it, and its rows here. A live coordinator
decides within ten minutes, so a longer wait is reported. While the source knows the xid, only the source can decide.
Once the source no longer knows it, the verdict is in the binlog before the end that is read after this answer, or it
was never logged (`sql_log_bin=0`), or a restart of the server lost the transaction. So if everything up to that end is
read without a verdict, the rows are released: nothing will ask for them. If an XA COMMIT comes all the same, it pauses
the task like any XA COMMIT without its PREPARE.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from dm.clock import Clock
from dm.errors import DMError, grant
from dm.position import Position
from dm.sourcelog.stream.prepared_list import HeldXa
from dm.sourcelog.upstream.connection import Connection, grantee
from dm.sourcelog.upstream.facts import ServerFacts, binlog_end
from dm.sourcelog.upstream.snapshot import prepared_xids
from dm.unit import JSON

UNDECIDED_SECONDS: Final = 600.0
ASK_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Answer:
    known: frozenset[str] | None  # None: the source does not tell
    why: str = ""


class PreparedWatch:
    """Called at each check of the source; its report is part of the unit's status."""

    def __init__(
        self,
        undecided: Callable[[], list[HeldXa]],
        clock: Clock,
        *,
        read: Callable[[], Position],
        let_go: Callable[[HeldXa], bool],
    ) -> None:
        self._undecided = undecided
        self._read = read  # the end of the last transaction read
        self._let_go = let_go
        self._clock = clock
        self._ends: dict[int, Position] = {}  # for xids unknown to the source: the verdict is before it, or nowhere
        self._asked_at: float | None = None
        self._said: set[int] = set()
        self._report: list[JSON] = []
        self._log = structlog.get_logger()

    @property
    def report(self) -> list[JSON]:
        """Transactions undecided for ten minutes, the oldest first."""
        return self._report

    def look(self, connection: Connection, facts: ServerFacts, source_time: float) -> None:
        """Find overdue transactions by the source's clock, and ask the source about them now and then."""
        read = self._read()  # before the list: what is read by now and undecided there has no verdict up to it
        overdue = [
            held
            for held in self._undecided()
            if source_time - held.timestamp >= UNDECIDED_SECONDS and not self._is_over(held, read)
        ]
        if not overdue:
            self._report = []
            self._ends.clear()
            return
        now = self._clock.monotonic()
        new = [held for held in overdue if held.number not in self._said]
        if not new and self._asked_at is not None and now - self._asked_at < ASK_SECONDS:
            return
        self._asked_at = now
        answer = _ask(connection, facts)
        if answer.known is not None and any(held.xid not in answer.known for held in overdue):
            end = binlog_end(connection, facts)
            gone = [held.number for held in overdue if held.xid not in answer.known]
            self._ends = {number: self._ends.get(number, end) for number in gone}
        self._report = [_described(held, source_time, answer) for held in overdue]
        for held in new:
            self._said.add(held.number)
            self._log.warning(
                "an XA transaction is undecided for ten minutes", transaction=self._report[overdue.index(held)]
            )

    def _is_over(self, held: HeldXa, read: Position) -> bool:
        """Whether nothing will decide it any more; then its rows are released."""
        end = self._ends.get(held.number)
        try:
            if end is None or not read.covers(end):
                return False
        except DMError:  # of two servers without GTIDs
            return False
        if self._let_go(held):
            self._log.warning(
                "the source has lost an XA transaction, or decided it unlogged: its rows are let go",
                xid=held.xid,
                position=str(held.prepared.end),
                no_verdict_up_to=str(end),
            )
        return True


def _ask(connection: Connection, facts: ServerFacts) -> _Answer:
    try:
        return _Answer(prepared_xids(connection, facts.flavor))
    except DMError as error:
        # Without the privilege MySQL answers 1401; the reason is only in its log.
        if error.server_errno == 1401:
            return _Answer(None, grant(("XA_RECOVER_ADMIN",), "*.*", grantee(connection).account))
        return _Answer(None, error.message)


def _described(held: HeldXa, source_time: float, answer: _Answer) -> JSON:
    end, gtid = held.prepared.end, held.prepared.gtid
    if answer.known is None:
        knows, message = None, f"the source does not tell whether it still knows it: {answer.why}"
    elif held.xid in answer.known:
        knows, message = True, "XA COMMIT or XA ROLLBACK it at the source; its rows are held until then"
    else:
        knows, message = (
            False,
            "the source knows it no more: its rows go when the binlog up to now is read and has no verdict",
        )
    return {
        "xid": held.xid,
        "undecidedSeconds": round(source_time - held.timestamp),
        "rowEvents": held.items,
        "bytes": held.bytes,
        "position": str(end),
        "gtid": "" if gtid is None else str(gtid),
        "knownToSource": knows,
        "message": message,
    }
