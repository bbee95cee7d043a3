"""The source's settings in the target's words: its time zone above all.

Two servers may call one zone by two names, and by one name (SYSTEM, EST) two zones. So a name counts if its offsets at
the target are those of the source's zone: the source's own name, the task's `timezone`, the target's global zone, or
the system's. A zone without changes needs no name.

A source's applications may set a zone in all their sessions (frameworks do, to +00:00), while its server has another.
Nothing at the source tells, so `application-time-zone` of the task file says it, in place of the server's zone. What
is computed in it is compared with what the source has stored, as without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dm.changes.computing import PADDING, UTC, Computing, SourceSettings
from dm.config.endpoint import Endpoint
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.session.state import sql_mode
from dm.sql.literal import quoted
from dm.sql.zone_offsets import offset_name, offset_named, offsets_of, offsets_question

_OFFSETS_SINCE = 80019  # of MySQL: literals with an offset


def computing_at(target: TargetConnection, source: SourceSettings, subtask: SubtaskConfig) -> Computing:
    """How the target computes as the source of the subtask does."""
    source = applications_settings(target, source, subtask.application_zone)
    zone = _zone(target, source, subtask.timezone)
    return Computing(
        zone="" if zone == "+00:00" else zone,
        unknown="" if zone else source.zone,
        pads=PADDING in source.modes,
        offset_literals=target.flavor == "mysql" and not target.tidb and target.version >= _OFFSETS_SINCE,
    )


def applications_settings(target: TargetConnection, source: SourceSettings, zone: str) -> SourceSettings:
    """The source's settings with the zone that its applications set in their sessions; an empty `zone`: none."""
    if not zone:
        return source
    offsets = offset_named(zone) or offsets_of(target.query(offsets_question(_literal(zone))))
    return replace(source, zone=zone, offsets=offsets)


def _literal(text: str) -> str:
    return quoted(text.encode()).decode()


def _zone(target: TargetConnection, source: SourceSettings, timezone: str) -> str:
    """The zone's name at the target; empty where it has none."""
    if source.offsets == UTC:
        return "+00:00"
    if len(source.offsets) == 1:
        return offset_name(source.offsets[0][1])
    for name in _names(target, source, timezone):
        if source.offsets and offsets_of(target.query(offsets_question(_literal(name)))) == source.offsets:
            return name
    return ""


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
