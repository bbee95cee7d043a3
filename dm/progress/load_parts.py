"""Which parts of a dump are in the target: one row per part, committed with the part's rows.

Problem: a load may be killed at any point, with many writers. A part whose COMMIT had no answer must not be loaded
twice: keyless rows would double. A slow writer of the killed run must not write into tables that a newer run, or
already the syncer, has taken over.

The transaction of a part does three things in this order:

1. It reads the run row (`cp_schema` = '') with a shared lock and compares the epoch. A newer run raises the epoch, and
   needs the row exclusively for that. So an older run's transaction either ended before the newer run read anything, or
   fails here.
2. It inserts the part's row. The primary key makes a second writer of the same part wait here and find it done.
3. It writes the rows and commits.

Each session of a run also holds one of a series of named locks. So a new run can find and kill the old run's sessions,
and need not wait for a transaction that nothing will end (a stopped process keeps its connections open).

Not all of a load is a transaction: it makes tables, takes indexes off, adds them, and drops tables. A member that was
frozen and wakes after another one has taken over would do so late. So a session takes its lock first, and then looks
whether its run is still the newest (`join_run`). A new run looks for sessions again when it has raised the epoch: those
that took a lock before are ended, and those that take one later see the new epoch.

The rows stay after the load, because they turn a late writer away. `--remove-meta` removes them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from dm.config.endpoint import Endpoint
from dm.config.subtask import NOBODY, RunBy
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.lane_rows import transaction
from dm.progress.opposite import announce
from dm.progress.owner import OwnRun, create_owner_table, fenced_by, note_owner
from dm.progress.tables import SubtaskKey, reading, reads
from dm.session.answers import reads_answers
from dm.session.state import CHARSET, COLLATION

SUFFIX = "loader_checkpoint"
MOST_WRITERS: Final = 256  # at the same time; more than any sensible pool
_BUSY_SECONDS = 60.0
_NEWER_SECONDS = 10.0  # for the run that has ended this one to say so
_LOOK_SECONDS = 0.1

_DEFINITION = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    cp_schema VARCHAR(128) NOT NULL,
    cp_table VARCHAR(128) NOT NULL,
    generation INT UNSIGNED NOT NULL DEFAULT 0,
    chunk INT UNSIGNED NOT NULL DEFAULT 0,
    part INT UNSIGNED NOT NULL DEFAULT 0,
    dump_id VARCHAR(64) NOT NULL DEFAULT '',
    epoch BIGINT UNSIGNED NOT NULL DEFAULT 0,
    finished BOOLEAN NOT NULL DEFAULT 0,
    row_count BIGINT UNSIGNED NOT NULL DEFAULT 0,
    byte_count BIGINT UNSIGNED NOT NULL DEFAULT 0,
    target_schema VARCHAR(128) NOT NULL DEFAULT '',
    target_table VARCHAR(128) NOT NULL DEFAULT '',
    replaced_count BIGINT UNSIGNED NOT NULL DEFAULT 0,
    ignored_count BIGINT UNSIGNED NOT NULL DEFAULT 0,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (id, cp_schema, cp_table, generation, chunk, part)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"""


@dataclass(frozen=True, slots=True)
class PartKey:
    """One part of a chunk of a source table."""

    table: TableName
    generation: int
    chunk: int
    part: int


@dataclass(frozen=True, slots=True)
class LoadRun:
    """One run of a load; a writing session proves with it that it belongs to the run."""

    key: SubtaskKey
    dump_id: str
    epoch: int
    finished: bool = False  # an earlier run finished the load of this dump
    run_by: RunBy = NOBODY

    @property
    def table(self) -> TableName:
        """The table of the parts."""
        return self.key.table(SUFFIX)


@reads_answers
def begin_run(
    connection: TargetConnection, key: SubtaskKey, dump_id: str, stop: threading.Event, run_by: RunBy = NOBODY
) -> LoadRun:
    """Take over from the last run; afterwards none of its sessions can write."""
    table = key.table(SUFFIX).sql
    announce(connection, key)  # it makes tables
    connection.execute(_DEFINITION.format(table=key.table(SUFFIX).sql))
    create_owner_table(connection, key)
    _end_sessions(connection, key, stop)
    with transaction(connection):
        connection.execute(
            f"INSERT IGNORE INTO {table} (id, cp_schema, cp_table, dump_id) VALUES (%s, '', '', %s)",
            (key.source_id, dump_id),
        )
        rows = connection.query(
            f"SELECT epoch, dump_id, finished FROM {table} WHERE id = %s AND cp_schema = '' AND cp_table = ''"
            " FOR UPDATE",
            (key.source_id,),
        )
        with reading(key.table(SUFFIX), key.source_id):
            stored, found, finished = rows[0]
            epoch = int(stored) + 1
        ours = str(found) in (dump_id, "")  # the latter where an earlier dump was given up (`restart_run`)
        if ours:
            connection.execute(
                f"UPDATE {table} SET epoch = %s, dump_id = %s WHERE id = %s AND cp_schema = '' AND cp_table = ''",
                (epoch, dump_id, key.source_id),
            )
            note_owner(connection, key, "Load", epoch, run_by)
    if not ours:
        raise other_dump(connection, key)
    _end_sessions(connection, key, stop)  # those that have taken a lock since, and seen the old epoch
    return LoadRun(key, dump_id, epoch, bool(finished), run_by)


def other_dump(connection: TargetConnection, key: SubtaskKey) -> DMError:
    """The error of a dump that is not the one of which rows are at the target."""
    names = ", ".join(map(str, filled_tables(connection, LoadRun(key, "", 0)))) or "no table"
    return DMError("load-other-dump", task=key.task, source=key.source_id, tables=names)


def load_fenced(connection: TargetConnection, run: LoadRun) -> DMError:
    """The error of a run that a newer one has ended."""

    def plain(owner: str) -> DMError:
        return DMError("load-fenced", task=run.key.task, owner=owner)

    return fenced_by(connection, run.key, OwnRun("Load", run.epoch, run.run_by), plain)


@reads(lambda key: key.table(SUFFIX))
def begun_dump(connection: TargetConnection, key: SubtaskKey) -> str | None:
    """The dump with which a load of this subtask has begun; None if none has. Safe before any table exists."""
    table = key.table(SUFFIX)
    if not _exists(connection, table):
        return None
    rows = connection.query(
        f"SELECT dump_id FROM {table.sql} WHERE id = %s AND cp_schema = '' AND cp_table = ''", (key.source_id,)
    )
    return str(rows[0][0]) if rows else None


def restart_run(connection: TargetConnection, run: LoadRun) -> None:
    """Allow another dump to be loaded next, since nothing of this is; raises DMError if a newer run took over.

    The epoch goes on, so late sessions of the given-up dump are fenced.
    """
    affected = connection.execute(
        f"UPDATE {run.table.sql} SET dump_id = '' WHERE id = %s AND cp_schema = '' AND cp_table = '' AND epoch = %s",
        (run.key.source_id, run.epoch),
    )
    connection.commit()
    if affected != 1 and run.dump_id:
        raise load_fenced(connection, run)


def forget_parts(connection: TargetConnection, run: LoadRun, tables: Iterable[TableName]) -> None:
    """Remove the records of tables of which nothing is loaded any more; raises DMError if a newer run took over."""
    with taking_back(connection, run):
        for table in tables:
            connection.execute(
                f"DELETE FROM {run.table.sql} WHERE id = %s AND cp_schema = %s AND cp_table = %s",
                (run.key.source_id, table.schema, table.table),
            )


@contextmanager
def taking_back(connection: TargetConnection, run: LoadRun) -> Iterator[None]:
    """A transaction that removes what the run's dump has loaded; raises DMError if a newer run took over.

    The run row counts these transactions, so each begins with a change of it: it holds the row until the end, and an
    opposite task knows it by that (`dm.progress.opposite`).
    """
    with transaction(connection):
        affected = connection.execute(
            f"UPDATE {run.table.sql} SET row_count = row_count + 1 WHERE id = %s AND cp_schema = '' AND cp_table = ''"
            " AND epoch = %s",
            (run.key.source_id, run.epoch),
        )
        if affected != 1:
            raise load_fenced(connection, run)
        yield


def _end_sessions(connection: TargetConnection, key: SubtaskKey, stop: threading.Event) -> None:
    """Kill the writers of earlier runs and wait until the server has rolled them back."""
    names = tuple(key.lock_name(f"load-{slot}") for slot in range(MOST_WRITERS))
    deadline = time.monotonic() + _BUSY_SECONDS
    killed: set[int] = set()
    while True:
        holders = session_lock.holders(connection, names)
        if not holders:
            return
        for holder in holders - killed:
            connection.kill(holder)
        killed |= holders
        if stop.wait(0.05) or time.monotonic() > deadline:
            raise DMError("load-busy", cause=f"target connections {sorted(holders)}")


def take_slot(connection: TargetConnection, key: SubtaskKey) -> None:
    """Make the session findable for a later run; the server frees the slot with the session."""
    for slot in range(MOST_WRITERS):
        if session_lock.take(connection, key.lock_name(f"load-{slot}")):
            return
    raise DMError("load-busy", cause=f"{MOST_WRITERS} sessions write at the same time")


def join_run(connection: TargetConnection, run: LoadRun) -> None:
    """Make the session one of the run, which a later run ends; raises DMError if there is one already."""
    take_slot(connection, run.key)
    if _stored_epoch(connection, run) != run.epoch:
        raise load_fenced(connection, run)


@reads(lambda key: key.table(SUFFIX))
def _stored_epoch(connection: TargetConnection, run: LoadRun) -> int | None:
    found = connection.query(
        f"SELECT epoch FROM {run.table.sql} WHERE id = %s AND cp_schema = '' AND cp_table = ''", (run.key.source_id,)
    )
    return int(found[0][0]) if found else None


def ended_by_newer(endpoint: Endpoint, run: LoadRun, error: DMError, stop: threading.Event) -> DMError | None:
    """The cause of a failure: `load-fenced` where a newer run has ended this one's sessions; None keeps the failure.

    To a run its end by another one looks like a lost connection, which is tried again. A member that is cut off from
    the cluster's etcd alone tries again whatever others own: it would end the newer run in turn, for ever. So the ended
    run rests. The newer one raises the epoch when all sessions have ended, so this waits a moment for it.
    """
    if not error.retryable:
        return None
    ended = error.name in ("connection-lost", "commit-outcome-unknown")
    deadline = time.monotonic() + (_NEWER_SECONDS if ended else 0.0)
    try:
        with TargetConnection(endpoint) as connection:
            while True:
                epoch = _stored_epoch(connection, run)
                if epoch is not None and epoch > run.epoch:
                    return load_fenced(connection, run)
                if time.monotonic() >= deadline or stop.wait(_LOOK_SECONDS):
                    return None
    except DMError:
        return None


def claim_part(
    connection: TargetConnection, run: LoadRun, part: PartKey, rows: int, size: int, target: TableName
) -> bool:
    """Insert the part into the open transaction; False if it is loaded already, DMError if a newer run took over."""
    _speak_text(connection)
    if _epoch(connection, run) != run.epoch:
        raise load_fenced(connection, run)
    affected = connection.execute(
        f"INSERT IGNORE INTO {run.table.sql} (id, cp_schema, cp_table, generation, chunk, part, dump_id, epoch,"
        " row_count, byte_count, target_schema, target_table)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            run.key.source_id, part.table.schema, part.table.table, part.generation, part.chunk, part.part,
            run.dump_id, run.epoch, rows, size, target.schema, target.table,
        ),
    )  # fmt: skip
    return affected == 1


@reads(lambda key: key.table(SUFFIX))
def _epoch(connection: TargetConnection, run: LoadRun) -> int | None:
    """The epoch, which can't be raised before the transaction ends.

    TiDB has no shared locks. There the session's slot does the same: it was taken before this, so a run that raises the
    epoch later finds the session, and ends it first.
    """
    lock = " LOCK IN SHARE MODE" if connection.dialect.locks_shared else ""
    found = connection.query(
        f"SELECT epoch FROM {run.table.sql} WHERE id = %s AND cp_schema = '' AND cp_table = ''{lock}",
        (run.key.source_id,),
    )
    return int(found[0][0]) if found else None


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Rows that met a row with the same key."""

    replaced: int = 0  # rows of the target that were removed
    ignored: int = 0  # rows of the source that were not inserted

    def __add__(self, other: Duplicates) -> Duplicates:
        return Duplicates(self.replaced + other.replaced, self.ignored + other.ignored)

    def __sub__(self, other: Duplicates) -> Duplicates:
        return Duplicates(self.replaced - other.replaced, self.ignored - other.ignored)


NO_DUPLICATES: Final = Duplicates()


def note_duplicates(connection: TargetConnection, run: LoadRun, part: PartKey, found: Duplicates) -> None:
    """Record what a claimed part met, in the same transaction."""
    if found != NO_DUPLICATES:
        _speak_text(connection)
        connection.execute(
            f"UPDATE {run.table.sql} SET replaced_count = %s, ignored_count = %s WHERE id = %s AND cp_schema = %s"
            " AND cp_table = %s AND generation = %s AND chunk = %s AND part = %s",
            (
                found.replaced, found.ignored, run.key.source_id, part.table.schema, part.table.table,
                part.generation, part.chunk, part.part,
            ),
        )  # fmt: skip


def note_size(connection: TargetConnection, run: LoadRun, part: PartKey, rows: int, size: int) -> None:
    """Record the size of a claimed part, in the same transaction."""
    _speak_text(connection)
    connection.execute(
        f"UPDATE {run.table.sql} SET row_count = %s, byte_count = %s WHERE id = %s AND cp_schema = %s"
        " AND cp_table = %s AND generation = %s AND chunk = %s AND part = %s",
        (
            rows, size, run.key.source_id, part.table.schema, part.table.table, part.generation, part.chunk, part.part,
        ),
    )  # fmt: skip


@reads(lambda key: key.table(SUFFIX))
def loaded_sizes(connection: TargetConnection, run: LoadRun) -> dict[PartKey, tuple[int, int]]:
    """Rows and bytes of the parts that are in the target."""
    rows = connection.query(
        "SELECT cp_schema, cp_table, generation, chunk, part, row_count, byte_count"
        f" FROM {run.table.sql} WHERE id = %s AND cp_schema <> ''",
        (run.key.source_id,),
    )
    return {
        PartKey(TableName(str(row[0]), str(row[1])), int(row[2]), int(row[3]), int(row[4])): (int(row[5]), int(row[6]))
        for row in rows
    }


@reads(lambda key: key.table(SUFFIX))
def loaded_bytes(connection: TargetConnection, run: LoadRun) -> dict[TableName, int]:
    """How much of this source is in each table of the target."""
    rows = connection.query(
        f"SELECT target_schema, target_table, SUM(byte_count) FROM {run.table.sql} WHERE id = %s AND cp_schema <> ''"
        " GROUP BY target_schema, target_table",
        (run.key.source_id,),
    )
    return {TableName(str(schema), str(table)): int(size) for schema, table, size in rows}


def _speak_text(connection: TargetConnection) -> None:
    """Reset the session's settings for rows: with bytes compared, names would miss the index and lock others."""
    connection.execute(f"SET NAMES {CHARSET} COLLATE {COLLATION}")


@reads(lambda key: key.table(SUFFIX))
def noted_duplicates(connection: TargetConnection, run: LoadRun) -> Duplicates:
    """What all loaded parts of this source have met."""
    replaced, ignored = connection.query(
        f"SELECT COALESCE(SUM(replaced_count), 0), COALESCE(SUM(ignored_count), 0) FROM {run.table.sql} WHERE id = %s",
        (run.key.source_id,),
    )[0]
    return Duplicates(int(replaced), int(ignored))


@reads(lambda key: key.table(SUFFIX))
def tables_loaded_into(connection: TargetConnection, run: LoadRun, target: TableName) -> list[tuple[str, TableName]]:
    """Sources and tables of the task, other sources included, that have parts in the target table."""
    _speak_text(connection)
    rows = connection.query(
        f"SELECT DISTINCT id, cp_schema, cp_table FROM {run.table.sql} WHERE target_schema = %s AND target_table = %s"
        " ORDER BY id, cp_schema, cp_table",
        (target.schema, target.table),
    )
    return [(str(source), TableName(str(schema), str(table))) for source, schema, table in rows]


@reads(lambda key: key.table(SUFFIX))
def filled_tables(connection: TargetConnection, run: LoadRun) -> dict[TableName, list[TableName]]:
    """The target tables with recorded rows of this source, each with the tables they are from."""
    # Parts of SQL files know their bytes only.
    rows = connection.query(
        "SELECT DISTINCT target_schema, target_table, cp_schema, cp_table"
        f" FROM {run.table.sql} WHERE id = %s AND cp_schema <> '' AND (row_count > 0 OR byte_count > 0)"
        " ORDER BY cp_schema, cp_table",
        (run.key.source_id,),
    )
    found: dict[TableName, list[TableName]] = {}
    for row in rows:
        found.setdefault(TableName(str(row[0]), str(row[1])), []).append(TableName(str(row[2]), str(row[3])))
    return found


@reads_answers
def tables_filled_by(connection: TargetConnection, meta_schema: str, task: str) -> frozenset[TableName]:
    """The target tables that a task's loads have filled, for all its sources; safe before any table exists."""
    table = SubtaskKey(meta_schema, task, "").table(SUFFIX)
    if not _exists(connection, table):
        return frozenset()
    rows = connection.query(f"SELECT DISTINCT target_schema, target_table FROM {table.sql} WHERE cp_schema <> ''")
    with reading(table, ""):
        return frozenset(TableName(str(schema), str(name)) for schema, name in rows)


def _exists(connection: TargetConnection, table: TableName) -> bool:
    query = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    return bool(connection.query(query, (table.schema, table.table)))


def loaded_parts(connection: TargetConnection, run: LoadRun) -> dict[PartKey, int]:
    """The parts that are in the target, each with its bytes."""
    return {part: size for part, (_, size) in loaded_sizes(connection, run).items()}


def finish_run(connection: TargetConnection, run: LoadRun) -> None:
    """Record that everything is loaded and handed over; raises DMError when a newer run took over."""
    affected = connection.execute(
        f"UPDATE {run.table.sql} SET finished = 1 WHERE id = %s AND cp_schema = '' AND cp_table = '' AND epoch = %s",
        (run.key.source_id, run.epoch),
    )
    if affected != 1:
        connection.rollback()
        raise load_fenced(connection, run)
    connection.commit()


@reads(lambda key: key.table(SUFFIX))
def load_is_finished(connection: TargetConnection, key: SubtaskKey) -> bool:
    """Whether the load of this subtask has finished; safe before any table exists."""
    table = key.table(SUFFIX)
    if not _exists(connection, table):
        return False
    rows = connection.query(
        f"SELECT finished FROM {table.sql} WHERE id = %s AND cp_schema = '' AND cp_table = ''", (key.source_id,)
    )
    return bool(rows) and bool(rows[0][0])
