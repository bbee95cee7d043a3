"""Whether what follows a stored checkpoint is still there: at the source, or in the relay's files and then the source.

A task that rests for longer than the source keeps its binlog can't go on. That is said before anything starts, since a
relay that connects goes on after the gap, and a run fails only when it comes there.
"""

from __future__ import annotations

from collections.abc import Iterator

from dm.errors import DMError
from dm.position import Position
from dm.sourcelog.relaylog.unbroken import unbroken_end
from dm.sourcelog.upstream.facts import binlog_files
from dm.sourcelog.upstream.lineage import expect_all, still_has
from dm.sourcelog.upstream.locate import resume_after
from dm.sourcelog.upstream.replica_identity import identity_for
from dm.task.precheck.context import Answers, Context
from dm.task.precheck.result import CheckResult
from dm.task.progress import places_needed

_WAYS_OUT = (
    "restore the missing binlog files at the source; or start anew with `--remove-meta`: with a new full load, or with "
    "`task-mode: incremental` and `meta`, if the changes in between may be left out"
)


def readable(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether source and relay have all that the task has yet to read."""
    checked = not (context.anew or context.at_time) and context.source.facts.log_bin
    places = places_needed(context.config) if checked else []
    for place in places:
        missing = _missing(context, place)
        if missing:
            yield answers.failure(missing, _WAYS_OUT)
            return
    yield answers.success(f"what follows {places[0]} is there" if places else "")


def _missing(context: Context, place: Position) -> str:
    """Why the binlog after the place can't be read; empty if it can."""
    try:
        at_source = _missing_at_source(context, place)
        return at_source and _missing_after_relay(context, place, at_source)
    except DMError as error:
        if error.retryable:
            return ""  # another server may be after: the run waits for it
        return f"{error.message}; the task needs what follows {place}"


def _missing_at_source(context: Context, place: Position) -> str:
    """Why the source alone does not do: then the relay is asked, whatever the reason. Raises DMError to be retried."""
    facts, connection = context.source.facts, context.source.connection
    if place.server_uuid == facts.server_uuid:
        if still_has(connection, facts, place):
            return ""
        names = [name for name, _ in binlog_files(connection)]
        there = f"{names[0]} to {names[-1]}" if names else "no binlog file"
        return f"the source no longer has {place.file}, needed from {place} on: it has {there}"
    if not place.gtid_set or not facts.gtid_mode:
        return (
            f"the source is now server {facts.server_uuid}, and the checkpoint {place} belongs to server"
            f" {place.server_uuid or 'unknown'}: without GTIDs nothing tells where it continues"
        )
    endpoint = context.source.endpoint
    try:
        expect_all(connection, facts, place.gtid_set, endpoint.address, read_from=place.server_uuid, may_wait=True)
        resume_after(facts, endpoint, identity_for("check", context.config.source_id), place.gtid_set)
    except DMError as error:
        if error.retryable:
            raise
        return f"{error.message}: {error.cause}" if error.cause else error.message
    return ""


def _missing_after_relay(context: Context, place: Position, at_source: str) -> str:
    """The same where the source lacks it: the relay may have the beginning, and the source what follows."""
    if context.relay is None:
        return at_source
    try:
        end = unbroken_end(context.relay, context.source.facts.flavor, place)
    except DMError as error:
        if error.retryable:
            raise
        return f"{at_source}; in the relay, {error.message}"
    if end is None:
        return f"{at_source}; the relay does not have it"
    behind = _missing_at_source(context, end)
    return behind and f"{behind}; the relay's files end there, and the task is at {place}"
