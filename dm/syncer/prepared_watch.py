"""XA transactions that stay undecided: who forgot them, and does the source still know them?

A prepared transaction holds its locks at the source until somebody decides it, and its rows here. Ten minutes without a
verdict are longer than any coordinator takes that is alive. It is said, and nothing else is done: only the source can
decide. When the source knows an xid no more, the verdict lies in a part of the binlog that is not read yet, or it was
not logged (`sql_log_bin=0`); what is held for it then does no harm, since no XA COMMIT will ask for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from dm.clock import Clock
from dm.errors import DMError
from dm.syncer.prepared_list import HeldXa
from dm.unit import JSON
from dm.upstream.connection import Connection
from dm.upstream.facts import ServerFacts
from dm.upstream.prepared_xa import prepared_xids

UNDECIDED_SECONDS: Final = 600.0
ASK_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Answer:
    known: frozenset[str] | None  # None: the source does not tell
    why: str = ""


class PreparedWatch:
    """Called with each look at the source; its report is part of the unit's status."""

    def __init__(self, undecided: Callable[[], list[HeldXa]], clock: Clock) -> None:
        self._undecided = undecided
        self._clock = clock
        self._asked_at: float | None = None
        self._said: set[int] = set()
        self._report: list[JSON] = []
        self._log = structlog.get_logger()

    @property
    def report(self) -> list[JSON]:
        """What has been undecided for ten minutes, the oldest first."""
        return self._report

    def look(self, connection: Connection, facts: ServerFacts, source_time: float) -> None:
        """Find what is overdue by the source's clock, and ask the source about it now and then."""
        overdue = [held for held in self._undecided() if source_time - held.timestamp >= UNDECIDED_SECONDS]
        if not overdue:
            self._report = []
            return
        now = self._clock.monotonic()
        new = [held for held in overdue if held.number not in self._said]
        if not new and self._asked_at is not None and now - self._asked_at < ASK_SECONDS:
            return
        self._asked_at = now
        answer = _ask(connection, facts)
        self._report = [_described(held, source_time, answer) for held in overdue]
        for held in new:
            self._said.add(held.number)
            self._log.warning(
                "an XA transaction is undecided for ten minutes", transaction=self._report[overdue.index(held)]
            )


def _ask(connection: Connection, facts: ServerFacts) -> _Answer:
    try:
        return _Answer(prepared_xids(connection, facts.flavor))
    except DMError as error:
        # MySQL: 1401 to who lacks the privilege; the reason stands in its log only.
        lacking = (
            "GRANT XA_RECOVER_ADMIN to the user of the source" if error.cause.startswith("1401:") else error.message
        )
        return _Answer(None, lacking)


def _described(held: HeldXa, source_time: float, answer: _Answer) -> JSON:
    end, gtid = held.prepared.end, held.prepared.gtid
    if answer.known is None:
        knows, message = None, f"the source does not tell whether it still knows it: {answer.why}"
    elif held.xid in answer.known:
        knows, message = True, "XA COMMIT or XA ROLLBACK it at the source; its rows are held until then"
    else:
        knows, message = (
            False,
            "the source knows it no more: its verdict lies ahead in the binlog, or was not logged",
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
