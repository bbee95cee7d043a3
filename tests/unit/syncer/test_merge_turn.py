"""A source waits for its turn, says where it is, and bears a silent one as long as the task file allows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from dm.config.units import CommitTimeOrder, SilentSource
from dm.errors import DMError
from dm.position import Position
from dm.sourcelog.stream.source_monitor import SourceEnd, Watermark
from dm.sourcelog.stream.transaction import MemoryItems, SourceTransaction, StatementItem
from dm.syncer.apply.completion import CommittedPoint
from dm.syncer.merge_order import LOOK_SECONDS, NEVER, MergeTurn, OwnSide, SourceProgress
from tests.testbed.fake_clock import FakeClock

PLACE = Position("u", "bin.000001", 100)
HOLD = 60.0


class Rows:
    """The rows of all sources, in memory; `looked` is called before each look."""

    def __init__(self) -> None:
        self.rows: dict[str, SourceProgress] = {}
        self.mark = CommittedPoint(PLACE, 0)
        self.looked: Callable[[], None] = lambda: None
        self.log: list[str] = []

    def read(self) -> dict[str, SourceProgress]:
        self.looked()
        return dict(self.rows)

    def leave(self, sources: Sequence[str]) -> None:
        for source in sources:
            self.rows[source] = SourceProgress(NEVER)

    def publish(self, made: Callable[[CommittedPoint], SourceProgress]) -> SourceProgress:
        self.rows["b"] = made(self.mark)
        self.log.append(f"stored {self.rows['b'].frontier}")
        return self.rows["b"]


class Pauses:
    """No hints: each pause lasts as long as it may."""

    def __init__(self, clock: FakeClock) -> None:
        self.wait = clock.wait
        self.tell = self.close = lambda: None


class Bench:
    """The turn of source b, between a and c."""

    def __init__(self, silent: SilentSource = "pause", sources: tuple[str, ...] = ("a", "b", "c")) -> None:
        self.clock = FakeClock()
        self.rows = Rows()
        self.watermark = Watermark(self.clock, lambda: None)
        self.ending = threading.Event()
        self.read = 0
        self.working = False
        own = OwnSide(
            "b",
            lambda: self.rows.log.append("drained"),
            self.rows,
            self.watermark,
            applied=lambda: PLACE,
            working=lambda: self.working,
            read=lambda: self.read,
            hint=Pauses(self.clock),
        )
        order = CommitTimeOrder(sources=sources, hold=HOLD, silent=silent)
        self.turn = MergeTurn(order, own, self.clock, self.ending)

    def others(self, a: int, c: int) -> None:
        self.rows.rows |= {"a": SourceProgress(a), "c": SourceProgress(c)}

    def take(self, moment: int) -> bool:
        return self.turn.take(transaction(moment))


def transaction(moment: int, *, empty: bool = False) -> SourceTransaction:
    items = MemoryItems(() if empty else (cast(StatementItem, None),))
    return SourceTransaction(PLACE, PLACE, None, 0, items, moment=moment)


def test_what_precedes_all_others_goes_without_a_word() -> None:
    bench = Bench()
    bench.others(10, 10)
    bench.turn.begin()
    bench.rows.log.clear()
    bench.rows.looked = lambda: pytest.fail("nobody has to be asked")
    assert bench.take(8)
    assert bench.take(9)
    assert bench.rows.log == []


@pytest.mark.parametrize(("frontiers", "waits"), [((10, 10), True), ((11, 10), False), ((11, 9), True)])
def test_of_equal_moments_the_lower_source_is_first(frontiers: tuple[int, int], waits: bool) -> None:
    bench = Bench()
    bench.others(*frontiers)
    bench.turn.begin()
    bench.ending.set()
    assert bench.take(10) is not waits


def test_who_waits_has_stored_where_it_is_after_all_that_it_gave() -> None:
    bench = Bench()
    bench.others(5, 20)
    bench.turn.begin()
    bench.rows.log.clear()
    looks = iter([6, 9, 10, 11])
    bench.rows.looked = lambda: bench.others(next(looks), 20)
    assert bench.take(10)
    assert next(looks, None) is None
    assert bench.rows.log == ["drained", "stored 10"]
    assert bench.turn.waits == ""


def test_no_transaction_counts_as_earlier_than_the_one_before() -> None:
    bench = Bench()
    bench.others(11, 11)
    bench.turn.begin()
    assert bench.take(10)
    late = transaction(3)
    assert bench.turn.take(late)
    assert late.moment == 10
    assert bench.turn.late == 0, "nobody has gone past it"


def test_the_stored_frontier_holds_for_the_next_run() -> None:
    bench = Bench()
    bench.others(11, 11)
    bench.rows.rows["b"] = SourceProgress(9, 7)
    bench.turn.begin()
    assert bench.rows.rows["b"].frontier == 9
    late = transaction(3)
    assert bench.turn.take(late)
    assert late.moment == 9


def test_a_source_that_has_never_begun_is_waited_for_however_long() -> None:
    bench = Bench()
    bench.rows.rows["a"] = SourceProgress(20)
    bench.turn.begin()
    began = bench.clock.now

    def look() -> None:
        if bench.clock.now > began + 10 * HOLD:
            assert "c, which has not begun" in bench.turn.waits
            bench.others(20, 20)
        else:
            bench.rows.rows["a"] = SourceProgress(20, beat=round(bench.clock.now))

    bench.rows.looked = look
    assert bench.take(10)
    assert bench.clock.now > began + 10 * HOLD


def test_a_silent_source_ends_the_run() -> None:
    bench = Bench()
    bench.others(5, 20)
    bench.turn.begin()
    with pytest.raises(DMError) as caught:
        bench.take(10)
    assert caught.value.name == "merge-order-silent"
    assert caught.value.retryable
    assert "nothing was heard of a for 60 s" in caught.value.message


def test_a_beat_is_no_silence() -> None:
    bench = Bench()
    bench.others(5, 20)
    bench.turn.begin()
    began = bench.clock.now

    def look() -> None:
        done = bench.clock.now > began + 3 * HOLD
        bench.rows.rows["a"] = SourceProgress(11 if done else 5, beat=round(bench.clock.now))

    bench.rows.looked = look
    assert bench.take(10)


def test_as_configured_a_silent_source_is_gone_on_without_until_it_is_back() -> None:
    bench = Bench("continue")
    bench.others(5, 20)
    bench.turn.begin()
    assert bench.take(10)
    assert bench.turn.report()["withoutSources"] == ["a"]
    assert bench.take(12)
    assert bench.turn.turns == 1, "it does not wait again"
    bench.rows.rows["a"] = SourceProgress(5, beat=1)
    bench.clock.now += 2
    bench.rows.mark = CommittedPoint(PLACE, 0, 12)
    bench.ending.set()
    assert not bench.take(13), "it is waited for again"
    assert bench.turn.report()["withoutSources"] == []
    assert bench.rows.rows["b"].done == 12, "so it knows what was committed without it"


def test_what_others_have_gone_past_is_counted() -> None:
    bench = Bench()
    bench.rows.rows |= {"a": SourceProgress(30, done=25), "c": SourceProgress(30)}
    bench.turn.begin()
    assert bench.take(20)
    assert bench.take(26)
    assert bench.turn.report()["lateTransactions"] == 1


def test_an_idle_source_says_its_clock_once_all_before_it_is_committed() -> None:
    bench = Bench()
    bench.others(5, 5)
    bench.turn.begin()
    bench.rows.log.clear()
    further = Position("u", "bin.000001", 101)
    bench.watermark._latest = SourceEnd(further, 1.0, 1.0), 77
    bench.turn.rest()
    assert bench.rows.log == []
    bench.watermark._latest = SourceEnd(PLACE, 1.0, 1.0), 77
    bench.turn.rest()
    bench.turn.rest()
    assert bench.rows.log == ["stored 77"]
    late = transaction(70, empty=True)
    assert bench.turn.take(late)
    assert late.moment == 77, "the others rely on it"


def test_a_source_that_is_back_is_seen_at_rest() -> None:
    bench = Bench("continue")
    bench.others(5, 20)
    bench.turn.begin()
    assert bench.take(10)
    bench.rows.rows["a"] = SourceProgress(5, beat=1)
    bench.turn.rest()
    assert bench.turn.report()["withoutSources"] == []


def test_the_timer_stores_only_what_a_source_at_work_has_done() -> None:
    bench = Bench()
    bench.turn.begin()
    bench.rows.log.clear()
    bench.turn.beat()
    assert bench.rows.log == []
    bench.rows.mark = CommittedPoint(PLACE, 0, 40)
    bench.working = True
    bench.turn.beat()
    bench.working = False
    bench.read = 1
    bench.turn.beat()
    bench.turn.beat()
    assert bench.rows.log == ["stored 40", "stored 40"]
    assert bench.rows.rows["b"].beat == 3


def test_nobody_waits_for_a_source_at_its_end_and_the_next_run_begins_where_it_was() -> None:
    bench = Bench()
    bench.rows.mark = CommittedPoint(PLACE, 0, 40)
    bench.turn.begin()
    bench.turn.finished()
    assert bench.rows.rows["b"].frontier == NEVER
    again = Bench()
    again.rows.rows = bench.rows.rows
    again.turn.begin()
    assert again.rows.rows["b"].frontier == 40


def test_a_source_that_joins_a_run_under_way_is_waited_for() -> None:
    bench = Bench()
    bench.others(10, 10)
    bench.turn.begin()
    assert bench.take(8)
    bench.rows.rows["d"] = SourceProgress(0)
    bench.rows.looked = bench.ending.set
    bench.others(20, 20)
    assert not bench.take(12)
    assert bench.turn.report()["waitsFor"] == []
    bench.rows.rows["d"] = SourceProgress(13)
    bench.ending.clear()
    bench.rows.looked = lambda: None
    assert bench.take(12)


NEVERS = {"a": SourceProgress(NEVER, 3), "c": SourceProgress(NEVER, 3)}


@pytest.mark.parametrize(
    ("sources", "rows", "beginning"),
    [
        (("b",), {}, {"a": SourceProgress(0)}),
        (("a", "b", "c"), NEVERS, {"a": SourceProgress(3, 3)}),
        (("b", "c"), {"c": SourceProgress(1000)}, {"a": SourceProgress(0)}),
    ],
    ids=["alone", "the others have ended", "the other is far ahead"],
)
def test_a_source_that_begins_is_waited_for_where_no_other_is(
    sources: tuple[str, ...], rows: dict[str, SourceProgress], beginning: dict[str, SourceProgress]
) -> None:
    bench = Bench(sources=sources)
    bench.rows.rows |= rows
    bench.turn.begin()
    assert bench.take(100)
    bench.rows.rows |= beginning
    bench.clock.now += LOOK_SECONDS
    bench.rows.looked = bench.ending.set
    assert not bench.take(101)
    bench.rows.rows["a"] = SourceProgress(103)
    bench.ending.clear()
    bench.rows.looked = lambda: None
    assert bench.take(102)


def test_the_rows_are_read_each_second_and_not_for_each_transaction() -> None:
    bench = Bench(sources=("b",))
    bench.turn.begin()
    looks: list[float] = []
    bench.rows.looked = lambda: looks.append(bench.clock.now)
    for moment in range(1, 1001):
        assert bench.take(moment)
        bench.clock.now += LOOK_SECONDS / 256
    assert len(looks) == 1000 // 256
    assert bench.turn.turns == 0


def test_nobody_waits_for_a_source_that_the_file_has_no_more() -> None:
    bench = Bench()
    bench.others(20, 20)
    bench.rows.rows["d"] = SourceProgress(5)
    bench.turn.begin()
    assert bench.rows.rows["d"].frontier == NEVER
    assert bench.take(12)


def test_clocks_that_differ_are_shown() -> None:
    bench = Bench()
    bench.watermark.skew = 300_000
    bench.rows.rows |= {"a": SourceProgress(1, skew=-200_000), "c": SourceProgress(1)}
    bench.turn.begin()
    assert bench.turn.report()["clockAheadSeconds"] == {"a": 0.5}
