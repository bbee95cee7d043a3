"""The source's settings for sessions of the target: above all, its time zone.

Two servers may have two names for one zone, and one name (SYSTEM, EST) for two zones. So a name is used only if its
offsets at the target are those of the source's zone. The candidates are the source's own name, the task's `timezone`,
the target's global zone, and the system's. A zone without changes needs no name.

A source's applications may set a zone in all their sessions (frameworks do, to +00:00), while its server has another.
Nothing at the source shows that, so `application-time-zone` of the task file replaces the server's zone. Values
computed with it are compared with what the source has stored, as without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from dm.changes.computing import PADDING, PLAIN, UTC, Computing, LocalTime, SourceSettings, TableSettings
from dm.config.endpoint import Endpoint
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.mysql.sql.literal import quoted
from dm.session.answers import reads_answers
from dm.session.state import offset_name, offset_named, offsets_of, offsets_question, sql_mode


def computing_at(target: TargetConnection, source: SourceSettings, subtask: SubtaskConfig) -> Computing:
    """How the target computes as the source of the subtask does."""
    source = applications_settings(target, source, subtask.application_zone)
    zone = _zone(target, source, subtask.timezone)
    return Computing(
        zone="" if zone == "+00:00" else zone,
        unknown="" if zone else source.zone,
        pads=PADDING in source.modes,
        offset_literals=target.dialect.takes_offsets,
    )


@reads_answers
def applications_settings(target: TargetConnection, source: SourceSettings, zone: str) -> SourceSettings:
    """The source's settings with the zone that its applications set in their sessions; an empty `zone`: none."""
    if not zone:
        return source
    offsets = offset_named(zone) or offsets_of(target.query(offsets_question(_literal(zone))))
    return replace(source, zone=zone, offsets=offsets)


def _literal(text: str) -> str:
    return quoted(text.encode()).decode()


@reads_answers
def _zone(target: TargetConnection, source: SourceSettings, timezone: str) -> str:
    """The zone's name at the target; empty if it has none."""
    if source.offsets == UTC:
        return "+00:00"
    if len(source.offsets) == 1:
        return offset_name(source.offsets[0][1])
    for name in _names(target, source, timezone):
        if source.offsets and offsets_of(target.query(offsets_question(_literal(name)))) == source.offsets:
            return name
    return ""


@reads_answers
def _names(target: TargetConnection, source: SourceSettings, timezone: str) -> Iterator[str]:
    yield source.zone
    if timezone:
        yield timezone
    own = str(target.query("SELECT @@GLOBAL.time_zone")[0][0])
    yield from (name for name in dict.fromkeys((own, "SYSTEM")) if name != source.zone)


def with_settings(target: Endpoint, source: SourceSettings) -> Endpoint:
    """The target with sessions that compute as the source does; the user's sql_mode stays."""
    session, values = dict(target.session), dict(source.variables)
    if source.value_modes and "sql_mode" not in session:
        session["sql_mode"] = ",".join([sql_mode(None), *source.value_modes])
    if (session, values) == (target.session, target.expression_values):
        return target
    return target.model_copy(update={"session": session, "expression_values": values})


class TableSession:
    """Gives the session the settings of tables, and its own back."""

    def __init__(self, connection: TargetConnection) -> None:
        self._connection = connection
        self.now = PLAIN

    def take(self, settings: TableSettings) -> None:
        """Give the session these settings."""
        if settings != self.now:
            # First: if the statement fails, or its answer is lost, the session's settings are unknown.
            own, self.now = self._own(), settings
            zone, mode = settings.zone or own["time_zone"], settings.mode(own["sql_mode"])
            self._connection.set({"time_zone": zone, "sql_mode": mode})

    def end(self) -> None:
        """The session has its own settings again, unless it is broken."""
        if self.now != PLAIN and self._connection.alive:
            self.take(PLAIN)

    def _own(self) -> dict[str, str]:
        mode = self._connection.has("sql_mode")
        return {"time_zone": "+00:00", "sql_mode": mode.removesuffix(f",{PADDING}")}


# Whether the target knows the time zone of a task, which it needs for what it computes itself.

_UTC: Final = frozenset({"utc", "etc/utc", "+00:00", "-00:00"})
_GLOBAL: Final = "@@GLOBAL.time_zone"


@reads_answers
def filter_zone(connection: TargetConnection) -> str:
    """The zone of expression filters of a task that names none, as in DM: the target's global one.

    SYSTEM is a name for the server alone, so it is asked which offset that is, if it is one all the time.
    """
    name = str(connection.query(f"SELECT {_GLOBAL}")[0][0])
    if name != "SYSTEM":
        return name
    offsets = offsets_of(connection.query(offsets_question(_GLOBAL)))
    return offset_name(offsets[0][1]) if len(offsets) == 1 else name


@reads_answers
def local_time(connection: TargetConnection, timezone: str) -> LocalTime:
    """The zone of a task's file, else the target's global one."""
    if timezone.lower() in _UTC:
        return LocalTime()
    zone = quoted(timezone.encode()).decode() if timezone else _GLOBAL
    known, name = connection.query(f"SELECT CONVERT_TZ('2020-01-01 00:00:00', '+00:00', {zone}), {zone}")[0]
    return LocalTime(zone, "" if known is not None else str(name))
