"""`start-task --start-time`: the place in the binlog where a time begins, as the task's checkpoint.

It takes precedence over the stored checkpoint and over `meta` of the file. The relay is searched first, because it may
hold files that the source has purged. The source is searched only if the relay's files begin after the time or end
before it. A time before the oldest event means the beginning.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dm.config import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.position import Position, TimePlace
from dm.progress import checkpoint
from dm.progress.checkpoint import Checkpoint, has_checkpoint, read_checkpoint
from dm.rules.table_rules import TableRules
from dm.session.answers import reads_answers
from dm.sourcelog.relaylog import relay_source as relay_search
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.stream.file_births import made_again
from dm.sourcelog.upstream import locate
from dm.sourcelog.upstream.connection import Connection, connect, fetch, identity_for
from dm.sourcelog.upstream.facts import binlog_files, read_facts
from dm.sourcelog.upstream.lineage import creation_time
from dm.task.progress import first_unit, key_of

_FORM = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(Z|[+-]\d\d:?\d\d)?")


@dataclass(frozen=True, slots=True)
class StartTime:
    """A moment as a person writes it; without a zone it is in the source's."""

    text: str
    moment: datetime

    @classmethod
    def parse(cls, text: str) -> StartTime:
        """Read DM's forms; raises DMError."""
        text = text.strip()
        unreadable = DMError("start-time-unreadable", time=repr(text[:60]))
        if not _FORM.fullmatch(text):
            raise unreadable
        try:
            return cls(text, datetime.fromisoformat(text))
        except ValueError as error:
            raise unreadable from error

    @reads_answers
    def seconds(self, connection: Connection) -> int:
        """Seconds since the epoch; the source converts its own time, whatever kind of zone it has."""
        if self.moment.tzinfo is not None:
            return int(self.moment.timestamp())
        fetch(connection, "SET time_zone = @@global.time_zone")
        found = fetch(connection, "SELECT UNIX_TIMESTAMP(%s)", (self.moment.isoformat(" "),))[0][0]
        return int(found or 0)


def place_of(config: SubtaskConfig, when: StartTime, relay_directory: Path, *, reader: str = "") -> TimePlace:
    """Behind the last transaction before the time; raises DMError. `reader` is as whom the binlog is read."""
    if first_unit(config) != "Sync":
        raise DMError("start-time-with-load", task=config.task, source=config.source_id)
    connection = connect(config.source.endpoint)
    try:
        facts = read_facts(connection)
        time = when.seconds(connection)
    finally:
        connection.close()
    if not facts.log_bin:
        raise DMError("source-without-binlog", source=config.source_id)
    stored = relay_search.find_time(RelayDirectory(relay_directory), facts.flavor, time)
    if stored is not None and stored.known:
        return stored
    there = locate.find_time(config.source.endpoint, identity_for(reader or config.task, config.source_id), time)
    if there is None and stored is None:
        raise DMError("start-time-too-late", source=config.source_id, time=when.text)
    if stored is None or (there is not None and _begins_earlier(there, stored)):
        assert there is not None
        return there
    return stored


def _begins_earlier(there: TimePlace, stored: TimePlace) -> bool:
    """Whether the source has more of what lies before; files of an earlier server the relay alone has."""
    one, other = there.position, stored.position
    return there.known or (one.server_uuid == other.server_uuid and one.order < other.order)


def before_all_binlogs(source: str, start: Position) -> str:
    """The warning that the time lies before all there is."""
    return f"source {source}: no binlog is as old as the start time; it begins at {start}"


def _demand_same_history(config: SubtaskConfig, before: Checkpoint | None, start: Position) -> None:
    """What is done up to the checkpoint is counted by places, so both places have to be in the same binlog."""
    birth = None if before is None else before.birth
    if birth is None or birth.server_uuid != start.server_uuid:
        return
    endpoint = config.source.endpoint
    with closing(connect(endpoint)) as connection:
        there = read_facts(connection).server_uuid == birth.server_uuid and birth.file in dict(binlog_files(connection))
    if not there:
        return
    created = creation_time(endpoint, identity_for(config.task, config.source_id), birth.file)
    if created != birth.created:
        raise DMError("source-reset", what=made_again(birth, created))


def begin_at(config: SubtaskConfig, place: TimePlace) -> list[str]:
    """Make the place the task's checkpoint; gives warnings."""
    start = place.position
    connection = TargetConnection(config.target)
    try:
        key = key_of(config)
        if config.shard_mode and has_checkpoint(connection, key):
            raise DMError("shard-start-time", task=config.task, source=config.source_id)
        if has_checkpoint(connection, key):
            with checkpoint.no_other_run(connection, key):  # it would have the identity under which the source is asked
                _demand_same_history(config, read_checkpoint(connection, key), start)
        before = checkpoint.begin_at(connection, key, start, TableRules(config).route)
    finally:
        connection.close()
    warnings: list[str] = []
    if not place.known:
        warnings.append(before_all_binlogs(config.source_id, start))
    if before is None or before.server_uuid != start.server_uuid:
        return warnings
    if before.order < start.order:
        warnings.append(f"source {config.source_id}: what lies between its checkpoint {before} and {start} is left out")
    elif before.order > start.order:
        warnings.append(
            f"source {config.source_id}: between {start} and its checkpoint {before} tables without a key stay as they"
            " are, since their rows can't be told to be there already; with --remove-meta all changes are made again"
        )
    return warnings
