"""`start-task --until`: what a person wrote, as a place of the source, and whether the task can still end there.

The place is compared with where the task begins: its checkpoint, or `--start-time`, or `meta`, or the source's present
end. Only the run itself can see what earlier runs applied after the checkpoint; if the place lies before that, the run
refuses (`dm.sourcelog.stream.until`).
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
from dm.position import Position
from dm.progress.joining import find_joining
from dm.session.answers import reads_answers
from dm.sourcelog.stream.until import Until, UntilGtids, UntilPosition, UntilTime
from dm.sourcelog.upstream.connection import Connection, connect, fetch
from dm.sourcelog.upstream.facts import ServerFacts, binlog_end, read_facts
from dm.task.progress import key_of, stored_checkpoint
from dm.task.start_time import StartTime, place_of
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
        if find_joining(connection, key_of(config)) is not None:
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
