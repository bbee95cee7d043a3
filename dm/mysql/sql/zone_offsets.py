"""The question for a time zone's offsets, which tells zones apart whatever their names are.

SYSTEM is another zone on each machine, and a server names it by an abbreviation (CEST). So the offsets themselves are
asked for, week by week over the time that a TIMESTAMP has. Zones that differ change their offset on other days. Only
the weeks in which it changes are sent: each start of a task asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

Offsets = tuple[tuple[int, int], ...]
"""A zone's offsets: since which week of 1970 how many minutes east. Empty: the zone is not known."""

WEEKS: Final = 3548  # from 1970 into January 2038
_PLAIN: Final = re.compile(r"([+-])(\d\d?):(\d\d)")


def offsets_question(zone: str) -> str:
    """The query for the minutes that a zone, an SQL expression, is east of UTC since which week; NULL: not known."""
    week = "x.d + 16 * y.d + 256 * z.d"
    digits = f"(SELECT 0 AS d{''.join(f' UNION ALL SELECT {digit}' for digit in range(1, 16))})"
    return (
        f"SELECT {week} AS since, {_east(week, zone)} AS east, {_east(f'{week} - 1', zone)} AS before_it"
        f" FROM {digits} x, {digits} y, {digits} z WHERE {week} < {WEEKS} HAVING since = 0 OR NOT east <=> before_it"
    )


def _east(week: str, zone: str) -> str:
    # No parentheses: to a TiDB `INTERVAL (` begins the function of that name (its grammar, parser.y).
    moment = f"'1970-01-08 12:00:00' + INTERVAL {week} WEEK"
    return f"TIMESTAMPDIFF(MINUTE, {moment}, CONVERT_TZ({moment}, '+00:00', {zone}))"


def offsets_of(rows: Iterable[tuple[Any, ...]]) -> Offsets:
    """The answer as the weeks in which the offset changes, each with its minutes; empty: the zone is not known."""
    found = sorted((int(week), east) for week, east, _ in rows)
    if any(east is None for _, east in found):
        return ()
    return tuple((week, int(east)) for week, east in found)


def offset_named(zone: str) -> Offsets:
    """The offset of a zone that is called by it; empty: it has another name."""
    found = _PLAIN.fullmatch(zone)
    if found is None:
        return ()
    minutes = int(found[2]) * 60 + int(found[3])
    return ((0, -minutes if found[1] == "-" else minutes),)


def offset_name(minutes: int) -> str:
    """What a zone is called that is always as many minutes east."""
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
