"""How two tasks in opposite directions agree on conflicts, and what each reads of the other's place (`brought.py`).

One side wins: the task that reads it has `conflicts: source-wins`, the one that writes to it `target-wins`. Each stores
its setting where the other reads it, with its lists and routes: what one brings the other must bring back, or a write
that wins would stay on its side. A run asks, once it has stored its own, whether the opposite is running with settings
that contradict. What a task that does not run has stored says nothing: that one asks in its turn when it starts.

A losing task needs the opposite's place as it was where the task begins. It looks ahead in the log: the first change of
the opposite's lane row after its start has that place as its before image. If none follows up to the log's end, the row
that is stored now still has it. The same holds for the checkpoint. That is why the lane's row has a place from the
first run on (`place_lane`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from dm.config.rules import BlockAllowList, RouteRule
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.cursor import Malformed
from dm.mysql.binlog.decode import RowDecoder, RowPair
from dm.mysql.binlog.event import EventSource
from dm.mysql.binlog.row_events import Rows
from dm.mysql.binlog.table_map import TableMap, mismatch
from dm.mysql.binlog.value import ABSENT, Row, Value
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import Column, wire_columns
from dm.mysql.sql.context import SourceContext
from dm.position import Position
from dm.progress.lane_rows import ATOMIC, CONTROL, LaneClaim, LaneRow, claimed, read_position
from dm.progress.opposite import Opposite, opposite_of
from dm.progress.opposite_sources import NO_TABLE, read_by
from dm.progress.tables import CHARSET, CHECKPOINT, INTENT, WORKER, SubtaskKey
from dm.rules.table_rules import TableRules
from dm.session.answers import reads_answers
from dm.sourcelog.stream.brought import BroughtPlaces, ProgressReaders, StoredPlace, further
from dm.sourcelog.stream.marks import Marks
from dm.sourcelog.stream.prepared import UnheldXa
from dm.sourcelog.stream.source_log import SourceLog, Space
from dm.sourcelog.stream.source_monitor import SourceEnd
from dm.sourcelog.upstream.connection import Connection, connect, fetch
from dm.sourcelog.upstream.facts import ServerFacts, binlog_end, list_tables, read_facts

_SETTING: Final = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    conflicts VARCHAR(16) NOT NULL,
    rules LONGTEXT NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB {charset}"""

ANSWERS: Final[dict[str, str]] = {
    "ignore": "ignore",
    "pause": "pause",
    "source-wins": "target-wins",
    "target-wins": "source-wins",
}
"""What the opposite has to have, by what a task has."""
_ROOM: Final = 16 << 20  # bytes of a transaction in memory


# -- Both resolve alike


def store_setting(connection: TargetConnection, key: SubtaskKey, subtask: SubtaskConfig) -> None:
    """Store how the task resolves conflicts, and which tables it brings where; raises DMError."""
    conflicts = subtask.syncer.conflicts
    if conflicts == "ignore":  # as nearly all tasks: no table is made for it
        try:
            connection.execute(f"DELETE FROM {key.conflicts_setting.sql} WHERE id = %s", (key.source_id,))
        except DMError as error:
            if error.server_errno not in NO_TABLE:
                raise
        return
    lists = subtask.block_allow_list
    rules = {
        "lists": None if lists is None else lists.model_dump(mode="json"),
        "routes": [route.model_dump(mode="json") for route in subtask.routes],
        "case_sensitive": subtask.case_sensitive,
    }
    connection.execute(_SETTING.format(table=key.conflicts_setting.sql, charset=CHARSET))
    connection.execute(
        f"REPLACE INTO {key.conflicts_setting.sql} (id, conflicts, rules) VALUES (%s, %s, %s)",
        (key.source_id, conflicts, json.dumps(rules)),
    )


def contradiction(source: Connection, subtask: SubtaskConfig, reads: Mapping[str, bool | None]) -> str:
    """What the opposite does while it is running that would let the two sides differ; empty if nothing. Raises DMError.

    `reads`: whether each source of the opposite is this task's target.
    """
    own = subtask.syncer.conflicts
    for name, is_target in reads.items():
        key = SubtaskKey(subtask.opposite_meta_schema, subtask.opposite, name)
        if not is_target or not _runs(source, key):
            continue
        other, rules = _stored_setting(source, key)
        if not {own, other} & {"source-wins", "target-wins"}:
            continue
        if ANSWERS[own] != other:
            return f"is running with `conflicts: {other}`, and this task has `conflicts: {own}`"
        table = _not_returned(source, subtask, rules)
        if table is not None:
            return f"is running with lists and routes that do not bring {table} back to where this task takes it from"
    return ""


def _not_returned(source: Connection, subtask: SubtaskConfig, rules: str) -> TableName | None:
    """The first table of a source that this task brings, and the opposite's rules do not bring back."""
    stored = json.loads(rules)
    lists = stored["lists"]
    theirs = TableRules(
        subtask.model_copy(
            update={
                "block_allow_list": None if lists is None else BlockAllowList.model_validate(lists),
                "routes": tuple(RouteRule.model_validate(route) for route in stored["routes"]),
                "case_sensitive": bool(stored["case_sensitive"]),
                "opposite_meta_schema": subtask.meta_schema,
            }
        )
    )
    ours = TableRules(subtask)
    for table in list_tables(source):
        if ours.wanted(table):
            there = ours.route(table)
            if not theirs.wanted(there) or theirs.route(there) != table:
                return table
    return None


@reads_answers
def _runs(source: Connection, key: SubtaskKey) -> bool:
    ((holder,),) = fetch(source, "SELECT IS_USED_LOCK(%s)", (key.lock_name(CONTROL),))
    return holder is not None


@reads_answers
def _stored_setting(source: Connection, key: SubtaskKey) -> tuple[str, str]:
    try:
        rows = fetch(
            source, f"SELECT conflicts, rules FROM {key.conflicts_setting.sql} WHERE id = %s", (key.source_id,)
        )
    except DMError as error:
        if error.server_errno not in NO_TABLE:
            raise
        rows = ()
    return (str(rows[0][0]), str(rows[0][1])) if rows else ("ignore", "")


def demand_alike(subtask: SubtaskConfig, source: Callable[[], Connection]) -> None:
    """Raise DMError where the opposite is running with settings that contradict this task's."""
    opposite = opposite_of(subtask)
    if opposite is None:
        return
    with closing(source()) as there, closing(connect(subtask.target, role="target")) as target:
        why = contradiction(there, subtask, read_by(there, opposite.key, target, read_facts(target)))
    if why:
        raise DMError("conflicts-contradict", task=opposite.task, why=why)


# -- Places


def place_lane(
    connection: TargetConnection, claims: Mapping[str, LaneClaim], rows: Sequence[LaneRow], start: Position
) -> None:
    """Where the lane has committed nothing yet: store that it begins here, for the opposite to read."""
    claim = claims[ATOMIC]
    found = next((row.position for row in rows if row.lane == claim.lane), None)
    if found is None and start.file:
        with claimed(connection, claim):
            claim.advance(connection, replace(start, gtid_set=start.gtid_set - start.gtid_set))


@dataclass(frozen=True, slots=True)
class _ProgressTable:
    """A table of progress as the binlog has it."""

    columns: Sequence[Column]

    @classmethod
    def of(cls, table: TableName, text: str, facts: ServerFacts) -> _ProgressTable:
        context = SourceContext(facts.flavor, facts.version, table.schema)
        schema = parse_create_table(text.format(table=table.sql, charset=CHARSET), context)
        return cls(wire_columns(schema, facts.flavor))

    def decoded(self, table_map: TableMap, rows: Rows) -> list[RowPair]:
        """The rows of an event; raises Malformed and DMError."""
        why = mismatch(table_map, self.columns)
        if why is not None:
            raise Malformed(why)
        return RowDecoder(table_map, self.columns).decode(rows)

    def text(self, row: Row, name: str) -> str:
        """A value; raises Malformed where the image lacks it."""
        value: Value = next(value for column, value in zip(self.columns, row, strict=True) if column.name == name)
        if value is ABSENT:
            raise Malformed("a row lacks columns: binlog_row_image is not FULL")
        return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)

    def place(self, row: Row) -> Position | None:
        """The place that a row has; its GTID set is left out."""
        uuid, file, offset = (self.text(row, name) for name in ("server_uuid", "binlog_name", "binlog_pos"))
        return read_position(uuid, file, offset, "")


class ProgressRows:
    """Reads the opposite's rows of progress in a source's binlog; `is_target`: whether a source of it is the target."""

    def __init__(self, opposite: Opposite, facts: ServerFacts, is_target: Callable[[str], bool]) -> None:
        self._lanes = _ProgressTable.of(opposite.key.worker, WORKER, facts)
        self._checkpoints = _ProgressTable.of(opposite.key.checkpoint, CHECKPOINT, facts)
        self._intents = _ProgressTable.of(opposite.key.intent, INTENT, facts)
        self.is_target = is_target

    def following(self, begin: Position | None = None) -> BroughtPlaces:
        """For one reading of the log, from a place where this is known."""
        return BroughtPlaces(ProgressReaders(self._lane, self._checkpoint, self._intent), begin)

    def _lane(self, table_map: TableMap, rows: Rows) -> StoredPlace | None:
        return self._stored(self._lanes, table_map, rows, "lane", ATOMIC)

    def _checkpoint(self, table_map: TableMap, rows: Rows) -> StoredPlace | None:
        return self._stored(self._checkpoints, table_map, rows, "is_global", "1")

    def _stored(
        self, table: _ProgressTable, table_map: TableMap, rows: Rows, column: str, value: str
    ) -> StoredPlace | None:
        for before, after in table.decoded(table_map, rows):
            if after is not None and table.text(after, column) == value and self.is_target(table.text(after, "id")):
                return StoredPlace(None if before is None else table.place(before), table.place(after))
        return None

    def _intent(self, table_map: TableMap, rows: Rows) -> Position | None:
        for _, after in self._intents.decoded(table_map, rows):
            if after is not None and self.is_target(self._intents.text(after, "id")):
                return self._intents.place(after)
        return None


@dataclass(frozen=True, slots=True)
class LookAhead:
    """How a losing task finds the opposite's place where it begins."""

    opposite: Opposite
    rows: ProgressRows
    marks: Callable[[], Marks]  # for one reading
    events: EventSource
    facts: ServerFacts  # of the source
    connect: Callable[[], Connection]  # to it

    def at(self, start: Position, scratch: Path, stop: threading.Event) -> Position | None:
        """Up to where the opposite had come at this place; None where it has not begun, or when stopped."""
        key = self.opposite.key
        with closing(self.connect()) as connection:
            # Before the end is asked: what changes in between is in the log up to there.
            lane = self._stored(connection, key.worker, f"lane = '{ATOMIC}'")
            checkpoint = self._stored(connection, key.checkpoint, "is_global")
            end = SourceEnd(binlog_end(connection, self.facts), 0.0, 0.0)
        marks, places = self.marks(), self.rows.following()
        marks.places = places
        log = SourceLog(self.events, lambda _: False, UnheldXa(), gtids_ordered=self.facts.gtid_ordered, marks=marks)
        if not end.is_covered_by(start):
            for transaction in log.follow(start, Space(_ROOM, scratch), stop):
                if places.first_lane is not None and places.first_checkpoint is not None:
                    break
                if transaction is not None and end.is_covered_by(transaction.end):
                    break
        lane = lane if places.first_lane is None else places.first_lane.earlier
        checkpoint = checkpoint if places.first_checkpoint is None else places.first_checkpoint.earlier
        return None if lane is None else further(lane, checkpoint)

    @reads_answers
    def _stored(self, connection: Connection, table: TableName, condition: str) -> Position | None:
        try:
            rows = fetch(
                connection, f"SELECT id, server_uuid, binlog_name, binlog_pos FROM {table.sql} WHERE {condition}"
            )
        except DMError as error:
            if error.server_errno not in NO_TABLE:
                raise
            return None
        places = [
            read_position(uuid, name, offset, "")
            for source, uuid, name, offset in rows
            if self.rows.is_target(str(source))
        ]
        return next((place for place in places if place is not None), None)
