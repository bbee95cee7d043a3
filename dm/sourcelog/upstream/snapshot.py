"""Points of the binlog that belong to what a dump reads.

Problem: rows are read from tables, changes come from the binlog, and the two must meet without a gap. The server's
binlog end alone does not suffice: it moves when a transaction is *flushed*, before the engine commits and shows its
rows.

- **Lower bound** (P0): everything up to it is visible to any read that starts later. MySQL with GTIDs: `gtid_executed`,
  which includes a transaction after its engine commit. The file is asked for first, and the syncer reads from its
  start. (A transaction that is flushed but not committed is never in an older file: a rotation waits for it.) MariaDB:
  a consistent snapshot knows its own place (`binlog_snapshot_file`, `_position`). MySQL without GTIDs, and
  MySQL 5.6: the end under a global read lock, held for milliseconds, because the lock blocks commits.
- **Upper bound** (P1): no finished read saw more than this: the binlog end, asked for afterwards.
- **Exact point** of one table: LOCK TABLES .. READ waits for every transaction that has touched the table, its engine
  commit included (metadata locks live that long). So under the lock the binlog end is exact for the table's own
  changes, and a snapshot opened then sees precisely those. Lock and snapshot need two connections: START TRANSACTION
  releases table locks (MySQL Reference Manual, "LOCK TABLES and UNLOCK TABLES Statements").

A prepared XA transaction breaks the lower bound: its changes are in the binlog before P0, its rows appear after. So XA
RECOVER must be empty after P0 and before the first read.

Every lock has a lock_wait_timeout of one to two seconds, since a session that waits for a lock blocks those after it.
On a timeout dm releases the queue and tries again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dm.errors import DMError, grant
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.dialect import Flavor, dialect
from dm.position import MAGIC_SIZE, Position
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, fetch, grantee
from dm.sourcelog.upstream.facts import ServerFacts, binlog_status, read_structure
from dm.text import counted

LOCK_SECONDS = 120.0
XA_SECONDS = 60.0
_LOCK_WAIT_TIMEOUT = 1205
_DEADLOCK = 1213
_XA_REFUSED = 1401
_SYNTAX = 1064

Connect = Callable[[], Connection]


def _status(connection: Connection, facts: ServerFacts) -> Position:
    """The binlog end in one answer of the server; its GTID set may lag behind a running commit."""
    file, offset, gtids = binlog_status(connection, facts)
    if facts.dialect.gtids_have_domains:
        return Position(facts.server_uuid, file, offset, _gtids_at(connection, file, offset))
    executed = GtidSet.parse(gtids, "mysql") if facts.gtid_mode else GtidSet.empty("mysql")
    return Position(facts.server_uuid, file, offset, executed)


@reads_answers
def _gtids_at(connection: Connection, file: str, offset: int) -> GtidSet:
    answer = fetch(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (file, offset))[0][0]
    text = answer.decode() if isinstance(answer, bytes) else str(answer or "")
    return GtidSet.parse(text, "mariadb")


def _busy(error: DMError) -> bool:
    return error.name == "statement-failed" and error.server_errno in (_LOCK_WAIT_TIMEOUT, _DEADLOCK)


def _locked(
    connection: Connection, statement: str, what: str, stop: threading.Event | None, seconds: float = LOCK_SECONDS
) -> None:
    """Take a lock, with pauses between attempts for its present holder."""
    deadline = time.monotonic() + seconds
    pause = 0.1
    while True:
        fetch(connection, f"SET SESSION lock_wait_timeout = {random.choice((1, 2))}")
        try:
            fetch(connection, statement)
            return
        except DMError as error:
            if not _busy(error):
                raise
            if time.monotonic() > deadline or (stop is not None and stop.is_set()):
                raise DMError("dump-lock-refused", what=what, seconds=int(seconds), cause=error.cause) from error
        pause = min(pause * 2, 5.0)
        # Jitter: tasks that wait for one lock must not retry in step.
        (stop or threading.Event()).wait(pause * random.uniform(0.5, 1.5))


def gtids_are_committed(facts: ServerFacts) -> bool:
    """Whether the rows of every GTID in gtid_executed can be read. MySQL 5.6 adds one at the flush, before the commit.

    Source: `MYSQL_BIN_LOG::ordered_commit`, where 5.7 moved it after the engines' commit.
    """
    return facts.gtid_mode and facts.dialect.commits_before_gtid


@reads_answers
def lower_bound(connect: Connect, facts: ServerFacts, stop: threading.Event | None = None) -> Position:
    """A point up to which every read that starts from now on sees everything."""
    connection = connect()
    try:
        if facts.dialect.snapshot_tells_position:
            fetch(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            found = {
                str(name).lower(): str(value)
                for name, value in fetch(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")
            }
            file, offset = found.get("binlog_snapshot_file", ""), int(found.get("binlog_snapshot_position") or 0)
            fetch(connection, "ROLLBACK")
            if not file:
                raise DMError("binlog-disabled", address=f"{connection.host}:{connection.port}")
            return Position(facts.server_uuid, file, offset, _gtids_at(connection, file, offset))
        if gtids_are_committed(facts):
            file = _status(connection, facts).file
            executed = str(fetch(connection, "SELECT @@global.gtid_executed")[0][0])
            return Position(facts.server_uuid, file, MAGIC_SIZE, GtidSet.parse(executed, "mysql"))
        return locked_end(connection, facts, lambda: None, stop)
    finally:
        connection.close()


def locked_end(
    connection: Connection, facts: ServerFacts, meanwhile: Callable[[], None], stop: threading.Event | None = None
) -> Position:
    """The binlog end under a global read lock; `meanwhile` runs under it and sees exactly what is up to there."""
    _locked(connection, "FLUSH TABLES WITH READ LOCK", "the whole server (FLUSH TABLES WITH READ LOCK)", stop)
    return _end(connection, facts, meanwhile)


def tables_locked_end(
    connection: Connection,
    facts: ServerFacts,
    tables: Sequence[TableName],
    meanwhile: Callable[[], None],
    stop: threading.Event | None = None,
) -> Position:
    """The same under read locks of some tables: exact for their changes, whatever other tables get meanwhile."""
    if tables:
        lock_tables(connection, tables, stop)
    return _end(connection, facts, meanwhile)


def lock_tables(connection: Connection, tables: Sequence[TableName], stop: threading.Event | None = None) -> None:
    """Keep writers out of tables until the session unlocks them or ends."""
    words = ", ".join(f"{table.sql} READ" for table in tables)
    what = f"{counted(len(tables), 'table')}, {tables[0]} among them (LOCK TABLES .. READ)"
    _locked(connection, f"LOCK TABLES {words}", what, stop)


def _end(connection: Connection, facts: ServerFacts, meanwhile: Callable[[], None]) -> Position:
    try:
        meanwhile()
        return _status(connection, facts)
    finally:
        fetch(connection, "UNLOCK TABLES")


def upper_bound(connection: Connection, facts: ServerFacts) -> Position:
    """A point that covers whatever a finished read may have seen."""
    return _status(connection, facts)


@reads_answers
def wait_for_no_prepared_xa(
    connection: Connection, user: str, stop: threading.Event, seconds: float = XA_SECONDS
) -> None:
    """Return when no XA transaction is prepared, or when stopped; DMError if they stay."""
    deadline = time.monotonic() + seconds
    while not stop.is_set():
        try:
            prepared = fetch(connection, "XA RECOVER CONVERT XID")
        except DMError as error:
            if error.name == "privilege-missing" or error.server_errno == _XA_REFUSED:
                # Without XA_RECOVER_ADMIN MySQL answers ER_XAER_RMERR (1401); the reason is only in its log.
                statement = grant(("XA_RECOVER_ADMIN",), "*.*", grantee(connection).account)
                raise DMError("dump-xa-unknown", user=user, grant=statement, cause=error.cause) from error
            if error.server_errno != _SYNTAX:
                raise
            prepared = fetch(connection, "XA RECOVER")  # MariaDB has `FORMAT = 'SQL'` instead
        if not prepared:
            return
        if time.monotonic() > deadline:
            raise DMError("dump-xa-prepared", xids=", ".join(str(row[-1]) for row in prepared[:5]))
        stop.wait(0.5)


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A session that sees one table as of an exact point."""

    connection: Connection
    point: Position
    structure: str


@contextmanager
def table_snapshot(
    asker: Connection, reader: Connection, facts: ServerFacts, table: TableName, *, transactional: bool
) -> Iterator[TableSnapshot]:
    """`reader` on the table as of a point; a table without transactions stays locked until it is read.

    `asker` is a session for questions and locks with text results. Both are free again afterwards; after an error they
    have to be closed.
    """
    _locked(
        asker if transactional else reader,
        f"LOCK TABLES {table.sql} READ",
        f"table {table} (LOCK TABLES .. READ)",
        None,
    )
    if transactional:
        fetch(reader, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    point = _status(asker, facts)
    structure = read_structure(asker, table)
    if transactional:
        fetch(asker, "UNLOCK TABLES")
    yield TableSnapshot(reader, point, structure)
    fetch(reader, "ROLLBACK" if transactional else "UNLOCK TABLES")


@reads_answers
def prepared_xids(connection: Connection, flavor: Flavor) -> frozenset[str]:
    """The xids that `XA RECOVER` lists, as the server spells them in the XA statements it logs; raises DMError.

    MySQL requires XA_RECOVER_ADMIN, and declares the bytes of an xid as text unless told to convert them. MariaDB
    returns bytes; it spells converted ones in two ways. A MySQL that does not know CONVERT XID (before 5.7.5) logs an
    XA transaction with its COMMIT only, so it is never asked.
    """
    found = set()
    statement = "XA RECOVER CONVERT XID" if dialect(flavor).converts_xids else "XA RECOVER"
    for format_id, global_length, _, data in fetch(connection, statement):
        digits = data.hex() if isinstance(data, bytes) else str(data).removeprefix("0x").lower()
        cut = 2 * int(str(global_length))
        found.add(f"X'{digits[:cut]}',X'{digits[cut:]}',{format_id}")
    return frozenset(found)
