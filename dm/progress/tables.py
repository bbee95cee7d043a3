"""The progress tables: names and definitions.

The checkpoint table is DM's (`dm-behaviour` 4.9) with 64-bit offsets and the server's uuid added, since an offset means
nothing without its server. The other tables are ours.

So tables that DM itself has left at the target have the names of ours, and a DM user's first task meets them. They
can't be read or continued: DM's position names no server, its structures are TiDB's, and what it has committed after
its checkpoint is unknown. But they may still be DM's progress. So `create_tables` and `existing_tables` raise an error
that names them, with DM's position, and change nothing.

A progress table is a table of the target. A restored backup, a person's UPDATE or a faulty target may leave values in
it that no run has stored. So every reader of progress rows raises `checkpoint-damaged`, with the table's name, for
values or rows that it can't read: it never goes on with a part of them, and never fails as a defect of dm. The
decorators `reads` and `reads_own` (for methods) do that; `texts` reads a list of texts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.session.answers import UNREADABLE, reads_answers
from dm.stored_format import PROGRESS

_SHARE: Final = "~join"
# Of the tables whose names DM uses as well: a column that ours have and DM's have not.
_NOT_OF_DM: Final = {"syncer_checkpoint": "server_uuid", "loader_checkpoint": "epoch", "validator_checkpoint": "epoch"}
_RELAY_NUMBER: Final = re.compile(r"\|[0-9]{6,}(?=\.[0-9]+$)")  # DM's names of files that it has read from a relay


@dataclass(frozen=True, slots=True)
class SubtaskKey:
    """The owner of progress: one task on one source, and the schema that holds it."""

    meta_schema: str
    task: str
    source_id: str

    @property
    def key(self) -> SubtaskKey:
        """Itself: it is asked like what stores for it."""
        return self

    def table(self, suffix: str) -> TableName:
        """A progress table of the task."""
        return TableName(self.meta_schema, f"{self.task}_{suffix}")

    @property
    def checkpoint(self) -> TableName:
        """DM's checkpoint table."""
        return self.table("syncer_checkpoint")

    @property
    def worker(self) -> TableName:
        """One row per lane."""
        return self.table("syncer_worker")

    @property
    def stored_format(self) -> TableName:
        """Which format the task's tables have: one number, of no source."""
        return self.table("stored_format")

    @property
    def owner(self) -> TableName:
        """Who runs each unit (`owner.py`)."""
        return self.table("owner")

    @property
    def prepared(self) -> TableName:
        """Which XA transactions are undecided at the checkpoint (`prepared_places.py`)."""
        return self.table("syncer_prepared")

    @property
    def intent(self) -> TableName:
        """The DDL piece about to be executed."""
        return self.table("syncer_ddl")

    @property
    def operator(self) -> TableName:
        """What a person wants done with single events."""
        return self.table("syncer_operator")

    @property
    def undone(self) -> TableName:
        """What a run was given and did not do."""
        return self.table("syncer_undone")

    @property
    def ordered(self) -> TableName:
        """Which target tables are changed in the source's order."""
        return self.table("syncer_ordered")

    @property
    def online(self) -> TableName:
        """DM's table of what online DDL tools do to their ghost tables."""
        return self.table("onlineddl")

    @property
    def deferral(self) -> TableName:
        """Tables that a load still has to complete."""
        return self.table("loader_deferral")

    @property
    def made(self) -> TableName:
        """Tables of the target that a load has made for itself (`made_tables.py`)."""
        return self.table("loader_made")

    @property
    def order(self) -> TableName:
        """How far each source of a task with `merge-order` is (`merge_order.py`)."""
        return self.table("merge_order")

    @property
    def shards(self) -> tuple[TableName, ...]:
        """The tables of shard merge that have rows of one source (`shards/group.py`)."""
        return self.table("shard_source"), self.table("shard_table"), self.table("shard_held")

    @property
    def joining(self) -> TableName:
        """Tables that are loaded beside the stream."""
        return self.table("syncer_joining")

    @property
    def branches(self) -> TableName:
        """Tables that have left the stream at a place (`joining/branches.py`)."""
        return self.table("syncer_branch")

    def branch(self, number: str) -> SubtaskKey:
        """Whose progress a branch has: in the tables of a share, under an id that no source and no other branch has."""
        return SubtaskKey(self.meta_schema, share_name(self.task), f"~{number[:31]}")

    @property
    def replay(self) -> TableName:
        """What a replay of a backlog has done (`replayed.py`)."""
        return self.table("syncer_replay")

    @property
    def session(self) -> TableName:
        """Sessions of the task that execute DDL, those of its shares included (`opposite.py`)."""
        return self.main.table("syncer_session")

    @property
    def opposite(self) -> TableName:
        """Which task each source of the task has as its opposite (`opposite.py`)."""
        return self.table("syncer_opposite")

    @property
    def conflicts_setting(self) -> TableName:
        """How the task resolves conflicts, by source (`opposite_place.py`)."""
        return self.table("syncer_resolves")

    @property
    def conflicts(self) -> TableName:
        """The conflicts that the task has met (`conflict_record.py`)."""
        return self.table("conflicts")

    @property
    def sources(self) -> TableName:
        """Which servers the task has read, its shares included (`opposite_sources.py`)."""
        return self.main.table("syncer_source")

    @property
    def cut_over(self) -> TableName:
        """How far a cut-over of the task is: one row, of no source (`dm/tools/cutover/record.py`)."""
        return self.table("cut_over")

    @property
    def compared(self) -> TableName:
        """What the last comparisons have found (`compared.py`)."""
        return self.table("compared")

    @property
    def share(self) -> SubtaskKey:
        """Whose progress the load of such tables has; no task's name has this character."""
        return SubtaskKey(self.meta_schema, share_name(self.task), self.source_id)

    @property
    def main(self) -> SubtaskKey:
        """Whose stream the tables of a share are to join."""
        return SubtaskKey(self.meta_schema, self.task.removesuffix(_SHARE), self.source_id)

    @property
    def second(self) -> SubtaskKey:
        """Whose progress a second pass of a shard merge has; no source id has this character."""
        digest = hashlib.sha256(self.source_id.encode()).hexdigest()
        return SubtaskKey(self.meta_schema, self.task, f"~{digest[:31]}")

    def lock_name(self, lane: str) -> str:
        """The name of the lock a lane's session holds; server-wide and at most 64 characters, hence the digest."""
        digest = hashlib.sha256("\0".join((self.meta_schema, self.task, self.source_id)).encode()).hexdigest()
        return f"dm:{digest[:32]}:{lane}"


def share_name(task: str) -> str:
    """The name under which a share of a task's tables is loaded beside its stream (`joining.py`)."""
    return f"{task}{_SHARE}"


CHARSET = "DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"

CHECKPOINT = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    cp_schema VARCHAR(128) NOT NULL,
    cp_table VARCHAR(128) NOT NULL,
    binlog_name VARCHAR(128) NOT NULL DEFAULT '',
    binlog_pos BIGINT UNSIGNED NOT NULL DEFAULT 0,
    binlog_gtid MEDIUMTEXT NOT NULL,
    server_uuid VARCHAR(64) NOT NULL DEFAULT '',
    exit_safe_binlog_name VARCHAR(128) NOT NULL DEFAULT '',
    exit_safe_binlog_pos BIGINT UNSIGNED NOT NULL DEFAULT 0,
    exit_safe_binlog_gtid MEDIUMTEXT NOT NULL,
    exit_safe_server_uuid VARCHAR(64) NOT NULL DEFAULT '',
    table_info JSON NOT NULL,
    is_global BOOLEAN NOT NULL,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    UNIQUE KEY uk_id_schema_table (id, cp_schema, cp_table)
) ENGINE=InnoDB {charset}"""

# A row for each number that the tables have had; the highest counts.
_STORED_FORMAT = """CREATE TABLE IF NOT EXISTS {table} (
    format INT UNSIGNED NOT NULL,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (format)
) ENGINE=InnoDB {charset}"""

WORKER = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    lane VARCHAR(32) NOT NULL,
    epoch BIGINT UNSIGNED NOT NULL,
    batch BIGINT UNSIGNED NOT NULL DEFAULT 0,
    server_uuid VARCHAR(64) NOT NULL DEFAULT '',
    binlog_name VARCHAR(128) NOT NULL DEFAULT '',
    binlog_pos BIGINT UNSIGNED NOT NULL DEFAULT 0,
    binlog_gtid MEDIUMTEXT NOT NULL,
    PRIMARY KEY (id, lane)
) ENGINE=InnoDB {charset}"""

INTENT = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    server_uuid VARCHAR(64) NOT NULL,
    binlog_name VARCHAR(128) NOT NULL,
    binlog_pos BIGINT UNSIGNED NOT NULL,
    binlog_gtid MEDIUMTEXT NOT NULL,
    piece INT UNSIGNED NOT NULL,
    statement LONGTEXT NOT NULL,
    connection_id BIGINT UNSIGNED NOT NULL,
    structure_before LONGTEXT NOT NULL,
    structure_after LONGTEXT NOT NULL,
    refused BOOLEAN NOT NULL DEFAULT 0,
    PRIMARY KEY (id)
) ENGINE=InnoDB {charset}"""

_OPERATOR = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    server_uuid VARCHAR(64) NOT NULL,
    binlog_name VARCHAR(128) NOT NULL,
    binlog_pos BIGINT UNSIGNED NOT NULL,
    action VARCHAR(16) NOT NULL,
    statements LONGTEXT NOT NULL,
    done BOOLEAN NOT NULL DEFAULT 0,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (id, server_uuid, binlog_name, binlog_pos)
) ENGINE=InnoDB {charset}"""

_UNDONE = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    changes LONGTEXT NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB {charset}"""

_ORDERED = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    cp_schema VARCHAR(128) NOT NULL,
    cp_table VARCHAR(128) NOT NULL,
    server_uuid VARCHAR(64) NOT NULL,
    binlog_name VARCHAR(128) NOT NULL,
    binlog_pos BIGINT UNSIGNED NOT NULL,
    binlog_gtid MEDIUMTEXT NOT NULL,
    gtid VARCHAR(128) NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (id, cp_schema, cp_table)
) ENGINE=InnoDB {charset}"""

_JOINING = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    number VARCHAR(32) NOT NULL,
    kind VARCHAR(8) NOT NULL,
    phase VARCHAR(16) NOT NULL,
    share LONGTEXT NOT NULL,
    targets LONGTEXT NOT NULL,
    anew BOOLEAN NOT NULL DEFAULT 0,
    server_uuid VARCHAR(64) NOT NULL DEFAULT '',
    binlog_name VARCHAR(128) NOT NULL DEFAULT '',
    binlog_pos BIGINT UNSIGNED NOT NULL DEFAULT 0,
    binlog_gtid MEDIUMTEXT NOT NULL,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (id)
) ENGINE=InnoDB {charset}"""

# A branch has what a join has, and perhaps an error; a source may have many.
_BRANCH = _JOINING.replace("PRIMARY KEY (id)", "error LONGTEXT NOT NULL,\n    PRIMARY KEY (id, number)")

# DM's columns; `ddls` holds more than DM's (see `intent.py`), so it is longer.
_ONLINE = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    ghost_schema VARCHAR(128) NOT NULL,
    ghost_table VARCHAR(128) NOT NULL,
    ddls LONGTEXT NOT NULL,
    update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    UNIQUE KEY uk_id_schema_table (id, ghost_schema, ghost_table)
) ENGINE=InnoDB {charset}"""


def create_tables(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create what is missing; safe to repeat and to race. Raises DMError for tables of DM itself, and of a newer dm."""
    connection.execute(f"CREATE DATABASE IF NOT EXISTS {Ident(key.meta_schema).sql}")
    connection.execute(_STORED_FORMAT.format(table=key.stored_format.sql, charset=CHARSET))
    stored = _demand_known_format(connection, key)
    definitions = (
        (key.checkpoint, CHECKPOINT),
        (key.worker, WORKER),
        (key.intent, INTENT),
        (key.operator, _OPERATOR),
        (key.undone, _UNDONE),
        (key.ordered, _ORDERED),
        (key.online, _ONLINE),
        (key.joining, _JOINING),
        (key.branches, _BRANCH),
    )
    for table, definition in definitions:
        connection.execute(definition.format(table=table.sql, charset=CHARSET))
    if stored < PROGRESS.number:  # 0, of before there were numbers: the tables are the same
        connection.execute(f"INSERT IGNORE INTO {key.stored_format.sql} (format) VALUES ({PROGRESS.number})")
    connection.commit()
    _demand_not_of_dm(connection, key)


def _demand_known_format(connection: TargetConnection, key: SubtaskKey) -> int:
    with reading(key.stored_format, key.source_id):
        ((stored,),) = connection.query(f"SELECT MAX(format) FROM {key.stored_format.sql}")
        return PROGRESS.demand_known(0 if stored is None else stored, key.stored_format)


@reads_answers
def _demand_not_of_dm(connection: TargetConnection, key: SubtaskKey) -> None:
    places = ", ".join(["%s"] * len(_NOT_OF_DM))
    rows = connection.query(
        "SELECT table_name, column_name FROM information_schema.columns"
        f" WHERE table_schema = %s AND table_name IN ({places})",
        (key.meta_schema, *(key.table(suffix).table for suffix in _NOT_OF_DM)),
    )
    found = {(str(table), str(column)) for table, column in rows}
    for suffix, column in _NOT_OF_DM.items():
        table = key.table(suffix)
        if table.table in {name for name, _ in found} and (table.table, column) not in found:
            place = _place_of_dm(connection, key) if table == key.checkpoint else ""
            raise DMError("progress-of-dm", table=table, source=key.source_id, task=key.task, place=place)


@reads_answers
def _place_of_dm(connection: TargetConnection, key: SubtaskKey) -> str:
    """Where DM's checkpoint is, as a clause."""
    rows = connection.query(
        f"SELECT binlog_name, binlog_pos, binlog_gtid FROM {key.checkpoint.sql} WHERE id = %s AND is_global",
        (key.source_id,),
    )
    if not rows:
        return f"; it has no checkpoint of source {key.source_id}"
    file, offset, gtids = (str(value or "") for value in rows[0])
    where = f"binlog-name {_RELAY_NUMBER.sub('', file)}, binlog-pos {offset}"
    return f"; the checkpoint of source {key.source_id} is at {where}{f', binlog-gtid {gtids}' if gtids else ''}"


def own_tables(key: SubtaskKey) -> list[TableName]:
    """The tables that have rows of each subtask, whether they exist or not."""
    own = [key.checkpoint, key.worker, key.owner, key.intent, key.operator, key.undone, key.prepared, key.ordered]
    load = [key.table("loader_checkpoint"), key.deferral, key.made]
    more = [key.online, key.joining, key.branches, key.replay, key.order, key.compared]
    return [*own, *load, *more, key.opposite, key.conflicts_setting, key.conflicts, key.cut_over, *key.shards]


@reads_answers
def existing_tables(connection: TargetConnection, key: SubtaskKey) -> list[TableName]:
    """The progress tables of the task that exist; raises DMError for tables of DM itself, and of a newer dm."""
    rows = connection.query(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (key.meta_schema,)
    )
    present = {str(row[0]) for row in rows}
    if any(key.table(suffix).table in present for suffix in _NOT_OF_DM):
        _demand_not_of_dm(connection, key)
    if key.stored_format.table in present:
        _demand_known_format(connection, key)
    return [table for table in own_tables(key) if table.table in present]


@reads_answers
def remove_progress(connection: TargetConnection, key: SubtaskKey) -> None:
    """Remove everything about this subtask (`start-task --remove-meta`).

    Records of incomplete tables are not progress and stay: the next load completes them. A source of a shard merge has
    to say again which shards it has. So it is with a share of the tables that is being loaded beside the stream.
    """
    existing = existing_tables(connection, key)
    if key.share.worker in existing_tables(connection, key.share):
        remove_progress(connection, key.share)
        if key.branches in existing:
            for (number,) in connection.query(f"SELECT number FROM {key.branches.sql} WHERE id = %s", (key.source_id,)):
                remove_progress(connection, key.branch(str(number)))
    merges = key.shards[0] in existing
    for table in existing:
        statement, source = f"DELETE FROM {table.sql} WHERE id = %s", (key.source_id,)
        if table == key.shards[0]:
            connection.execute(f"UPDATE {table.sql} SET joined = 0 WHERE id = %s", source)
        elif table != key.deferral:
            connection.execute(statement, source)
        if merges and table not in key.shards:
            connection.execute(statement, (key.second.source_id,))
    if merges:
        # Without any shard, nothing was agreed on.
        nobody = f"NOT EXISTS (SELECT 1 FROM {key.shards[1].sql})"
        for table in (key.shards[0], key.table("shard_group"), key.table("shard_ddl")):
            connection.execute(f"DELETE FROM {table.sql} WHERE {nobody}")
    connection.commit()


class Storing(Protocol):
    """What stores for a source, or one run of that, in tables of the task."""

    @property
    def key(self) -> SubtaskKey:
        """Whose."""


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Storing)
Reader = Callable[Concatenate[TargetConnection, S, P], R]
Method = Callable[Concatenate[S, TargetConnection, P], R]


@contextmanager
def reading(table: TableName, source_id: str) -> Iterator[None]:
    """Inside, rows of the table are read; what can't be read raises DMError `checkpoint-damaged`.

    So does what a function called inside has found garbled (`reads_answers`): it read rows for the same purpose.
    """
    try:
        yield
    except DMError as error:
        if error.name != "server-answer-garbled":
            raise
        raise DMError("checkpoint-damaged", table=table, source=source_id, cause=error.message) from error
    except UNREADABLE as error:
        raise DMError("checkpoint-damaged", table=table, source=source_id) from error


def reads(table: Callable[[SubtaskKey], TableName]) -> Callable[[Reader[S, P, R]], Reader[S, P, R]]:
    """For a function that reads rows of this table: it raises DMError for those that can't be read."""

    def wrapping(read: Reader[S, P, R]) -> Reader[S, P, R]:
        @wraps(read)
        def wrapped(connection: TargetConnection, storing: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            with reading(table(storing.key), storing.key.source_id):
                return read(connection, storing, *args, **kwargs)

        return wrapped

    return wrapping


def reads_own(table: Callable[[SubtaskKey], TableName]) -> Callable[[Method[S, P, R]], Method[S, P, R]]:
    """The same for a method of what a source stores."""

    def wrapping(read: Method[S, P, R]) -> Method[S, P, R]:
        @wraps(read)
        def wrapped(storing: S, connection: TargetConnection, /, *args: P.args, **kwargs: P.kwargs) -> R:
            with reading(table(storing.key), storing.key.source_id):
                return read(storing, connection, *args, **kwargs)

        return wrapped

    return wrapping


def texts(stored: object) -> tuple[str, ...]:
    """The texts that a column has as JSON; raises ValueError for anything else."""
    found = json.loads(str(stored))
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError("it is no list of texts")
    return tuple(found)
