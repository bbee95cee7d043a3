"""A curve as numbers for SVG: lines, gaps, the scale; and when a task will have caught up if it goes on like this."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dm.worker.history.curves import SLOT_SECONDS, Point

WIDTH: Final = 720  # of the drawing's own units; a day
HEIGHT: Final = 100
_DAY: Final = 24 * 3600.0
_TREND_SECONDS: Final = 900.0
_LONGEST_ETA: Final = 7 * _DAY


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a template draws."""

    name: str
    unit: str
    lines: Sequence[str]  # points of polylines; nothing is drawn where nobody knows the value
    most: str  # the value at the top
    last: str
    hours: Sequence[tuple[float, str]]  # places along the time, and what is written there


def drawing(name: str, unit: str, points: Sequence[tuple[float, float | None]], now: float) -> Drawing:
    """Values over the last day until now."""
    known = [value for _, value in points if value is not None]
    top = _round_up(max(known, default=0.0))
    runs = _runs(points)

    def place(at: float, value: float) -> str:
        x = WIDTH * (1 - (now - at) / _DAY)
        return f"{x:.1f},{HEIGHT * (1 - value / top):.1f}"

    lines = [" ".join(place(*point) for point in run) for run in runs]
    last = points[-1][1] if points else None
    return Drawing(name, unit, lines, f"{top:g}", "unknown" if last is None else _shown(last), [*_hours(now)])


def _runs(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    """Points that follow each other; a point alone is a short line."""
    runs: list[list[tuple[float, float]]] = []
    for at, value in points:
        if value is None:
            continue
        if not runs or at - runs[-1][-1][0] > 1.5 * SLOT_SECONDS:
            runs.append([])
        runs[-1].append((at, value))
    return [run if len(run) > 1 else [run[0], (run[0][0] + SLOT_SECONDS / 2, run[0][1])] for run in runs]


def _round_up(value: float) -> float:
    if value <= 1:
        return 1.0
    step = 10.0 ** math.floor(math.log10(value))
    return next(step * factor for factor in (1, 2, 5, 10) if value <= step * factor)


def _shown(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _hours(now: float) -> Iterator[tuple[float, str]]:
    first = math.ceil((now - _DAY) / (6 * 3600)) * 6 * 3600
    for at in range(first, int(now) + 1, 6 * 3600):
        yield round(WIDTH * (1 - (now - at) / _DAY), 1), clock_time(at)


def clock_time(at: float) -> str:
    """Hours and minutes, UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M}"


def near_time(at: float, now: float) -> str:
    """The same, with the date where it is another day's."""
    day = datetime.fromtimestamp(at, UTC).date()
    other = day != datetime.fromtimestamp(now, UTC).date()
    return f"{day} {clock_time(at)}" if other else clock_time(at)


def values_of(points: Sequence[Point], of: Callable[[Point], float | None]) -> list[tuple[float, float | None]]:
    """One of the two curves."""
    return [(point.at, of(point)) for point in points]


def catches_up_at(points: Sequence[Point], lag: float, now: float) -> float | None:
    """When the lag will be gone if it goes on as in the last quarter of an hour; None where it does not shrink."""
    recent = [(point.at, point.lag) for point in points if point.lag is not None and point.at >= now - _TREND_SECONDS]
    if not recent or now - recent[0][0] < SLOT_SECONDS:
        return None
    began, before = recent[0]
    speed = (before - lag) / (now - began)
    if speed <= 0 or lag / speed > _LONGEST_ETA:
        return None
    return now + lag / speed
