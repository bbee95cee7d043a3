"""The question for a time zone's offsets, which tells zones apart whatever their names are.

SYSTEM is another zone on each machine, and a server names it by an abbreviation (CEST). So the offsets themselves are
asked for, week by week over the time that a TIMESTAMP has. Zones that differ change their offset on other days.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

WEEKS: Final = 3548  # from 1970 into January 2038


def offsets_question(zone: str) -> str:
    """The query for the minutes that a zone, an SQL expression, is east of UTC in each week; NULL: it is not known."""
    week = "w.d + 10 * x.d + 100 * y.d + 1000 * z.d"
    # No parentheses: to a TiDB `INTERVAL (` begins the function of that name (its grammar, parser.y).
    moment = f"'1970-01-08 12:00:00' + INTERVAL {week} WEEK"
    digits = f"(SELECT 0 AS d{''.join(f' UNION ALL SELECT {digit}' for digit in range(1, 10))})"
    return (
        f"SELECT {week}, TIMESTAMPDIFF(MINUTE, {moment}, CONVERT_TZ({moment}, '+00:00', {zone}))"
        f" FROM {digits} w, {digits} x, {digits} y, {digits} z WHERE {week} < {WEEKS}"
    )


def offsets_of(rows: Iterable[tuple[Any, ...]]) -> tuple[tuple[int, int], ...]:
    """The answer as the weeks in which the offset changes, each with its minutes; empty: the zone is not known."""
    found: list[tuple[int, int]] = []
    for week, minutes in sorted((int(week), minutes) for week, minutes in rows):
        if minutes is None:
            return ()
        if not found or found[-1][1] != int(minutes):
            found.append((week, int(minutes)))
    return tuple(found)
