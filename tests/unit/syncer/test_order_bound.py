"""How long a transaction waits for a source that has nothing to say: a second, or two where times are whole seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm.config.units import CommitTimeOrder
from dm.mysql.dialect import dialect
from dm.position import Position
from dm.sourcelog.stream import source_monitor
from dm.sourcelog.stream.source_monitor import WATERMARK_SECONDS, Watermark
from dm.sourcelog.stream.transaction import MemoryItems, SourceTransaction, StatementItem
from dm.syncer.apply.completion import CommittedPoint
from dm.syncer.merge_order import NEVER, MergeTurn, OwnSide, SourceProgress
from tests.testbed.fake_clock import FakeClock

PLACE = Position("u", "bin.000001", 100)
MICROSECONDS = 1_000_000
BEGINNING = 1000.0
STEPS = 20  # between two looks at the idle source, and between two whole seconds
FACTS = {
    "mysql": SimpleNamespace(dialect=dialect("mysql", 80036)),
    "mariadb": SimpleNamespace(dialect=dialect("mariadb", 101119)),
}


class Rows:
    """The rows of all sources, as one of them reads and writes them."""

    def __init__(self, rows: dict[str, SourceProgress], source: str) -> None:
        self._rows = rows
        self._source = source
        self.looked: Callable[[], None] = lambda: None

    def read(self) -> dict[str, SourceProgress]:
        self.looked()
        return dict(self._rows)

    def leave(self, sources: Sequence[str]) -> None:
        self._rows |= {source: SourceProgress(NEVER) for source in sources}

    def publish(self, made: Callable[[CommittedPoint], SourceProgress]) -> SourceProgress:
        self._rows[self._source] = made(CommittedPoint(PLACE, 0))
        return self._rows[self._source]


class Pauses:
    """No hints: each pause lasts as long as it may."""

    def __init__(self, clock: FakeClock) -> None:
        self.wait = clock.wait
        self.tell = self.close = lambda: None


class TwoSources:
    """One that commits a transaction, and one that has none, whose end is looked at in turns from a moment on."""

    def __init__(self, flavor: str, busy: str, first_look: float) -> None:
        self.clock = FakeClock(BEGINNING)
        self._facts: Any = FACTS[flavor]
        self._watermark = Watermark(self.clock, lambda: None)
        self._next_look = first_look
        rows = dict[str, SourceProgress]()
        order = CommitTimeOrder(sources=("a", "b"))
        self.rows = Rows(rows, busy)
        self.busy = self._turn(order, busy, self.rows, Watermark(self.clock, lambda: None))
        idle = "b" if busy == "a" else "a"
        self._idle = self._turn(order, idle, Rows(rows, idle), self._watermark)
        self._idle.begin()
        self.busy.begin()
        self.rows.looked = self._catch_up

    def _turn(self, order: CommitTimeOrder, source: str, rows: Rows, mark: Watermark) -> MergeTurn:
        own = OwnSide(
            source,
            lambda: None,
            rows,
            mark,
            applied=lambda: PLACE,
            working=lambda: False,
            read=lambda: 0,
            hint=Pauses(self.clock),
        )
        return MergeTurn(order, own, self.clock, threading.Event())

    def _catch_up(self) -> None:
        """Whatever the idle source has done up to now."""
        connection: Any = None
        while self._next_look <= self.clock.now:
            self._watermark.look(connection, self._facts, self._next_look)
            self._idle.rest()
            self._next_look += WATERMARK_SECONDS

    def wait_of(self, committed: float) -> float:
        """How long a transaction waits that is read as soon as it is committed."""
        coarse = not self._facts.dialect.has_commit_times
        moment = int(committed) * MICROSECONDS if coarse else round(committed * MICROSECONDS)
        self.clock.now = committed
        items = MemoryItems((cast(StatementItem, None),))
        assert self.busy.take(SourceTransaction(PLACE, PLACE, None, 0, items, moment=moment))
        return self.clock.now - committed


@pytest.mark.parametrize(("flavor", "bound"), [("mysql", 1.0), ("mariadb", 2.0)])
@pytest.mark.parametrize("busy", ["a", "b"])
def test_a_transaction_waits_no_longer_than_stated_where_the_others_are_idle(
    monkeypatch: pytest.MonkeyPatch, flavor: str, bound: float, busy: str
) -> None:
    monkeypatch.setattr(source_monitor, "binlog_end", lambda *_: PLACE)
    waits = [
        TwoSources(flavor, busy, BEGINNING + look * WATERMARK_SECONDS / STEPS).wait_of(BEGINNING + 1 + second / STEPS)
        for look in range(STEPS)
        for second in range(STEPS)
    ]
    assert max(waits) <= bound
    assert max(waits) > bound / 2, "the bound says nothing"
