"""Where a task starts and ends: `start-task --start-time` and `start-task --until`.

`--until` is what a person wrote, as a place of the source. The place is compared with where the task begins: its
checkpoint, or `--start-time`, or `meta`, or the source's present end. Only the run itself can see what earlier runs
applied after the checkpoint; if the place lies before that, the run refuses (`dm.sourcelog.stream.until`).

`--start-time` becomes the place in the binlog where that time begins, and this the task's checkpoint. It takes
precedence over the stored checkpoint and over `meta` of the file. The relay is searched first, because it may hold
files that the source has purged. The source is searched only if the relay's files begin after the time or end before
it. A time before the oldest event means the beginning.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from dm.config import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.gtid import GtidFormatError, GtidSet
from dm.position import Position, TimePlace
from dm.progress.checkpoint import Checkpoint, has_checkpoint, no_other_run, read_checkpoint
from dm.progress.checkpoint import begin_at as store_beginning
from dm.progress.joining.table_joining import find_all
from dm.rules.table_rules import TableRules
from dm.session.answers import reads_answers
from dm.sourcelog.relaylog import relay_source as relay_search
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.stream.file_births import made_again
from dm.sourcelog.stream.until import Until, UntilGtids, UntilPosition, UntilTime
from dm.sourcelog.upstream import locate
from dm.sourcelog.upstream.connection import Connection, connect, fetch, identity_for
from dm.sourcelog.upstream.facts import ServerFacts, binlog_end, binlog_files, read_facts
from dm.sourcelog.upstream.lineage import creation_time
from dm.task.progress import first_unit, key_of, stored_checkpoint
from dm.task.subtask import UNITS_OF_MODE

_PLACE: Final = re.compile(r"\(?\s*([^\s,:()]+\.\d+)\s*[:,]\s*(\d{1,19})\s*\)?")  # as `binlog` takes it, as we print it


@dataclass(frozen=True, slots=True)
class AskedEnd:
    """What a person wrote, and what else the start of the task says of its beginning."""

    text: str
    start: Position | None = None  # by a time
    anew: bool = False  # the checkpoint is to be forgotten


def is_time(text: str) -> bool:
    """Whether it means something in every binlog."""
    try:
        StartTime.parse(text)
    except DMError:
        return False
    return True


@reads_answers
def until_of(config: SubtaskConfig, asked: AskedEnd, relay_directory: Path) -> Until:
    """Where the subtask is to end; raises DMError."""
    if "Sync" not in UNITS_OF_MODE[config.mode]:
        raise DMError("until-without-sync", task=config.task, mode=config.mode)
    if not asked.anew:
        _demand_one_stream(config)
    with closing(connect(config.source.endpoint)) as connection:
        facts = read_facts(connection)
        if not facts.log_bin:
            raise DMError("source-without-binlog", source=config.source_id)
        until = _parsed(asked.text.strip(), connection, facts)
        now = float(str(fetch(connection, "SELECT UNIX_TIMESTAMP(NOW(6))")[0][0]))
        end = binlog_end(connection, facts)
    start = asked.start or _start(config, end, anew=asked.anew)
    if isinstance(until, UntilTime):
        if until.seconds <= now:
            _demand_time_ahead(config, until, start, relay_directory)
    elif start is not None:
        _demand_ahead(until, start)
    return until


def _demand_one_stream(config: SubtaskConfig) -> None:
    """What is loaded beside the task comes to main's place or further, never to a person's."""
    with closing(TargetConnection(config.target)) as connection:
        if any(one.phase != "dropped" for one in find_all(connection, key_of(config))):
            raise DMError("joining-exists", task=config.task, source=config.source_id)


def place_of_text(config: SubtaskConfig, text: str) -> Until:
    """What a person's place means at a source; raises DMError."""
    with closing(connect(config.source.endpoint)) as connection:
        return _parsed(text.strip(), connection, read_facts(connection))


def _parsed(text: str, connection: Connection, facts: ServerFacts) -> Until:
    place = _PLACE.fullmatch(text)
    if place is not None:
        return UntilPosition(Position(facts.server_uuid, place[1], int(place[2])))
    if is_time(text):
        return UntilTime(StartTime.parse(text).seconds(connection), text)
    try:
        gtid_set = GtidSet.parse(text, facts.flavor)
    except GtidFormatError as error:
        raise DMError("until-unreadable", place=repr(text[:60]), cause=str(error)) from error
    if not gtid_set:
        raise DMError("until-unreadable", place=repr(text[:60]))
    if not facts.gtid_mode:
        raise DMError("until-without-gtids", place=text, checkpoint="a source that runs without GTIDs")
    return UntilGtids(gtid_set)


def _start(config: SubtaskConfig, end: Position, *, anew: bool) -> Position | None:
    """Where the subtask begins; None where its load has yet to find it."""
    checkpoint = None if anew else stored_checkpoint(config)
    if checkpoint is not None:
        return checkpoint.position
    if UNITS_OF_MODE[config.mode][0] != "Sync":
        return None
    meta = config.meta
    if meta is None:
        return end
    if meta.binlog_gtid and (config.source.enable_gtid or not meta.binlog_name):
        return Position("", "", gtid_set=GtidSet.parse(meta.binlog_gtid, end.flavor))
    return Position(end.server_uuid, meta.binlog_name, meta.binlog_pos)


def _demand_ahead(until: Until, start: Position) -> None:
    if isinstance(until, UntilPosition):
        if start.file and not start.same_files(until.position):
            server = until.position.server_uuid
            raise DMError("until-elsewhere", place=until, now=start.server_uuid, server=server)
        until.demand_ahead(start, None)
    if isinstance(until, UntilGtids) and _beyond(start.gtid_set, until.gtid_set):
        raise DMError("until-passed", place=until, checkpoint=start.gtid_set)


def _demand_time_ahead(config: SubtaskConfig, until: UntilTime, start: Position | None, relay_directory: Path) -> None:
    """A time that is over has a place already, unless the source rested since."""
    if start is None:
        raise DMError("until-passed", place=until, checkpoint="the present, where its load begins")
    when = StartTime(until.text, datetime.fromtimestamp(until.seconds, UTC))
    try:
        place = place_of(config, when, relay_directory).position
    except DMError as error:
        if error.name == "start-time-too-late":
            return  # the source has rested since
        raise
    passed = start.order > place.order if start.same_files(place) else _beyond(start.gtid_set, place.gtid_set)
    if passed:
        raise DMError("until-passed", place=until, checkpoint=start)


def _beyond(ours: GtidSet, theirs: GtidSet) -> bool:
    return bool(theirs) and ours >= theirs and ours != theirs


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
            with no_other_run(connection, key):  # it would have the identity under which the source is asked
                _demand_same_history(config, read_checkpoint(connection, key), start)
        before = store_beginning(connection, key, start, TableRules(config).route)
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
