"""Whether the target knows the time zone of a task, which it needs for what it computes itself."""

from __future__ import annotations

from typing import Final

from dm.changes.local_time import LocalTime
from dm.downstream.connection import TargetConnection
from dm.sql.literal import quoted
from dm.sql.zone_offsets import offset_name, offsets_of, offsets_question

_UTC: Final = frozenset({"utc", "etc/utc", "+00:00", "-00:00"})
_GLOBAL: Final = "@@GLOBAL.time_zone"


def filter_zone(connection: TargetConnection) -> str:
    """The zone of expression filters of a task that names none, as in DM: the target's global one.

    SYSTEM is a name for the server alone, so it is asked which offset that is, if it is one all the time.
    """
    name = str(connection.query(f"SELECT {_GLOBAL}")[0][0])
    if name != "SYSTEM":
        return name
    offsets = offsets_of(connection.query(offsets_question(_GLOBAL)))
    return offset_name(offsets[0][1]) if len(offsets) == 1 else name


def local_time(connection: TargetConnection, timezone: str) -> LocalTime:
    """The zone of a task's file, else the target's global one."""
    if timezone.lower() in _UTC:
        return LocalTime()
    zone = quoted(timezone.encode()).decode() if timezone else _GLOBAL
    known, name = connection.query(f"SELECT CONVERT_TZ('2020-01-01 00:00:00', '+00:00', {zone}), {zone}")[0]
    return LocalTime(zone, "" if known is not None else str(name))
