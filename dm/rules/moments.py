"""Dates, datetimes, timestamps and times in comparisons.

All of them are compared as texts of one form (or, a TIME, as microseconds), so a constant must be written out:
`2024-02-01`, `2024-02-01 10:00:00.5`, `-12:30:00`. Servers read many other forms, each by rules of its version.

A TIMESTAMP is a moment, and a text is one only with a time zone: the offset at its end, else the task's `timezone`,
else the target's global zone. Without any the answer would depend on a session, so there is none.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dm.rules.compiled import InexactError, Kind, Result

_DATETIME = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?)?")
_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})")
_TIME = re.compile(r"(-?)(\d{2,3}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?")
_ZERO = "0000-00-00"
_LONGEST_TIME = (838 * 3600 + 59 * 60 + 59) * 1_000_000


def full_datetime(value: Result) -> Result:
    """The one form in which dates and datetimes compare as texts: with all six decimals."""
    if value is None:
        return None
    text = str(value)
    if len(text) == 10:
        text += " 00:00:00"
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction:0<6}"


def microseconds(value: Result) -> Result:
    """A TIME as a number."""
    return None if value is None else _microseconds(str(value))


def _microseconds(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise InexactError(f"a time compared with {text!r}, which is not in the form hh:mm:ss")
    seconds = int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4])
    number = seconds * 1_000_000 + int(f"{match[5] or '':0<6}")
    if number > _LONGEST_TIME or int(match[3]) > 59 or int(match[4]) > 59:
        raise InexactError(f"{text!r} is no time")
    return -number if match[1] else number


def temporal_constant(kind: Kind, text: str, zone: str) -> Result:
    """A constant in the form in which columns of this kind are compared."""
    if kind == "time":
        return _microseconds(text)
    if kind == "timestamp":
        return _moment(text, zone)
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise InexactError(f"a {kind} compared with a text that is not one, or not in the form YYYY-MM-DD hh:mm:ss")
    if match[1] != _ZERO:
        try:
            datetime.fromisoformat(_written(match))
        except ValueError:
            raise InexactError(f"{text!r} is no date") from None
    return text if kind == "date" and len(text) == len(_ZERO) else _written(match)


def _written(match: re.Match[str]) -> str:
    return str(full_datetime(match[1] + (f" {match[2]}" if match[2] else "") + (f".{match[3]}" if match[3] else "")))


def _moment(text: str, zone: str) -> str:
    offset = _OFFSET.fullmatch(text[-6:])
    match = _DATETIME.fullmatch(text[:-6] if offset else text)
    if match is None:
        raise InexactError(f"a timestamp compared with {text!r}, which is not in the form YYYY-MM-DD hh:mm:ss")
    if not (offset or zone):
        raise InexactError(f"{text!r} has no time zone: write it as '{text}+00:00', or set `timezone` in the task")
    where = _zone(offset or _OFFSET.fullmatch(zone), zone)
    try:
        local = datetime.fromisoformat(_written(match))
        moments = {local.replace(tzinfo=where, fold=fold).astimezone(UTC) for fold in (0, 1)}
    except (ValueError, OverflowError):
        raise InexactError(f"{text!r} is no moment") from None
    if len(moments) > 1:
        raise InexactError(
            f"{text!r} is in the hour that clocks repeat or leave out in {zone}: write it with its offset"
        )
    (moment,) = moments
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")


def _zone(offset: re.Match[str] | None, name: str) -> tzinfo:
    if offset is None:
        try:
            return ZoneInfo(name)
        except ZoneInfoNotFoundError:
            raise InexactError(
                f"this machine knows no time zone {name}: write the offset behind the constant"
            ) from None
    difference = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
    return timezone(-difference if offset[1] == "-" else difference)
