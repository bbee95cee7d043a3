"""The curves: a day of points, in bounded space, across restarts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dm.worker.history.curves import CURVE_BYTES, SLOT_SECONDS, SLOTS, Curves, Point
from tests.testbed.fake_clock import FakeClock

NOON = 1_800_000_000.0 - 1_800_000_000 % SLOT_SECONDS
MANY = 1 << 20


def curves(directory: Path, clock: FakeClock, most: int = MANY) -> Curves:
    return Curves(directory / "curves", clock, most)


def test_points_are_there_after_a_restart_with_the_gap(tmp_path: Path) -> None:
    clock = FakeClock(NOON)
    first = curves(tmp_path, clock)
    first.feed({("t", "one"): (3.0, 100.0), ("u", "two"): (None, 5.0)})
    clock.now += 3 * SLOT_SECONDS
    again = curves(tmp_path, clock)
    again.feed({("t", "one"): (0.0, None)})
    for one in (again, curves(tmp_path, clock)):
        assert one.of("t", "one") == [Point(NOON, 3.0, 100.0), Point(NOON + 3 * SLOT_SECONDS, 0.0, None)]
        assert one.of("u", "two") == [Point(NOON, None, 5.0)]
        assert one.of("t", "two") == []


def test_a_day_is_kept(tmp_path: Path) -> None:
    clock = FakeClock(NOON)
    one = curves(tmp_path, clock)
    for number in range(20):
        one.feed({("t", "one"): (float(number), 1.0)})
        clock.now += SLOT_SECONDS
    clock.now = NOON + (SLOTS - 1) * SLOT_SECONDS
    assert [point.lag for point in one.of("t", "one")] == [float(number) for number in range(20)]
    clock.now += 10 * SLOT_SECONDS
    assert [point.lag for point in one.of("t", "one")] == [float(number) for number in range(10, 20)]
    one.feed({("t", "one"): (99.0, 1.0)})
    assert [point.lag for point in one.of("t", "one")][-2:] == [19.0, 99.0]
    clock.now += 2 * SLOTS * SLOT_SECONDS
    assert one.of("t", "one") == []


def test_space_is_bounded_and_stopped_tasks_go_first(tmp_path: Path) -> None:
    clock = FakeClock(NOON)
    one = curves(tmp_path, clock, 3 * CURVE_BYTES)
    one.feed({("old", "one"): (1.0, 1.0), ("t", "one"): (1.0, 1.0), ("t", "two"): (1.0, 1.0)})
    clock.now += 2 * SLOT_SECONDS
    one.feed({("t", "one"): (2.0, 2.0), ("t", "two"): (2.0, 2.0)})
    one.feed({("t", "one"): (2.0, 2.0), ("t", "two"): (2.0, 2.0), ("new", "one"): (2.0, 2.0)})
    assert one.of("old", "one") == []
    assert len(one.of("new", "one")) == 1
    one.feed({("t", "one"): (2.0, 2.0), ("further", "one"): (2.0, 2.0)})
    assert one.of("further", "one") == []
    assert len(one.of("new", "one")) == 1
    assert (tmp_path / "curves").stat().st_size <= 3 * CURVE_BYTES + 100


def changed(data: bytes) -> bytes:
    return data[:200] + bytes([data[200] ^ 1]) + data[201:]


def test_a_lower_bound_drops_the_curves_that_were_fed_first(tmp_path: Path) -> None:
    clock = FakeClock()
    curves = Curves(tmp_path / "curves", clock, 4 * CURVE_BYTES)
    for number in range(4):
        curves.feed({(f"task-{number}", "one"): (1.0, 1.0)})
        clock.now += SLOT_SECONDS
    curves.bound(2 * CURVE_BYTES)
    assert [bool(curves.of(f"task-{number}", "one")) for number in range(4)] == [False, False, True, True]
    again = Curves(tmp_path / "curves", clock, CURVE_BYTES)
    assert [bool(again.of(f"task-{number}", "one")) for number in range(4)] == [False, False, False, True]


@pytest.mark.parametrize(
    "damage",
    [changed, lambda data: data[:-5], lambda _: b"", lambda _: b"dm curves", lambda _: b"\0" * 9000],
    ids=["a bit", "cut", "empty", "head", "zeros"],
)
def test_a_damaged_file_is_put_aside_and_curves_begin_anew(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    clock = FakeClock(NOON)
    curves(tmp_path, clock).feed({("t", "one"): (1.0, 1.0)})
    bad = damage((tmp_path / "curves").read_bytes())
    (tmp_path / "curves").write_bytes(bad)
    again = curves(tmp_path, clock)
    assert again.of("t", "one") == []
    assert (tmp_path / "curves.unreadable").read_bytes() == bad
    again.feed({("t", "one"): (2.0, 2.0)})
    assert curves(tmp_path, clock).of("t", "one") == [Point(NOON, 2.0, 2.0)]


def test_a_newer_format_is_put_aside(tmp_path: Path) -> None:
    clock = FakeClock(NOON)
    curves(tmp_path, clock).feed({("t", "one"): (1.0, 1.0)})
    data = (tmp_path / "curves").read_bytes()
    (tmp_path / "curves").write_bytes(data[:9] + b"\x02\x00" + data[11:])
    assert curves(tmp_path, clock).of("t", "one") == []
    assert (tmp_path / "curves.unreadable").exists()


def test_a_clock_that_is_set_back_loses_nothing(tmp_path: Path) -> None:
    clock = FakeClock(NOON)
    one = curves(tmp_path, clock)
    one.feed({("t", "one"): (1.0, 1.0)})
    clock.now -= 10 * SLOT_SECONDS
    one.feed({("t", "one"): (2.0, 2.0)})
    assert one.of("t", "one") == [Point(NOON, 2.0, 2.0)]
