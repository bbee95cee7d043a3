"""Two tasks in opposite directions: how each is known by the other, at the server that it writes to.

What is left out, and by what it is known, is in `dm.sourcelog.stream.marks`. Here is what a task writes for it:

- A row of `<task>_syncer_worker` or `<task>_loader_checkpoint` begins each transaction with rows of tables. That is no
  different where a task has no opposite; it is what makes a crash harmless.
- A session that is about to execute DDL inserts a row into `<task>_syncer_session`, once and before its first
  statement: in a stream, a load, where a table is emptied for a reload or taken away. The row has the moment at which
  the server was started, and its id: a replica that becomes the source has the rows, too. Rows stay:
  what a reading that begins in the past may meet is not known here.
- `<task>_syncer_opposite` names the opposite, so that its own check finds that the two name each other.
- `<task>_syncer_source` says which servers it reads (`opposite_sources.py`).

The number of such a session. Servers number their sessions from 1, and any client may write under another number, if
its account has the privilege: the output of mysqlbinlog does. So the task's session does the same, and takes one that
no server has come to, at random. An account without the privilege keeps the server's number, and `check-task` says what
that leaves open.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from dm.config import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.progress.opposite_sources import NO_TABLE, OppositeSources, has_rows_of
from dm.progress.tables import CHARSET, SubtaskKey
from dm.session.answers import reads_answers
from dm.sourcelog.stream.file_births import FileBirth
from dm.sourcelog.stream.marks import OWN, EarlierSessions, Marks, MarkTables
from dm.sourcelog.upstream.connection import Connection, fetch
from dm.sourcelog.upstream.facts import ServerFacts

_SESSION: Final = """CREATE TABLE IF NOT EXISTS {table} (
    connection_id BIGINT UNSIGNED NOT NULL,
    started BIGINT NOT NULL,
    server_id BIGINT UNSIGNED NOT NULL,
    id VARCHAR(32) NOT NULL,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (connection_id, started, server_id)
) ENGINE=InnoDB {charset}"""

_OPPOSITE: Final = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    task VARCHAR(64) NOT NULL,
    meta_schema VARCHAR(64) NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB {charset}"""

_JITTER: Final = 2  # seconds: a start is told as a time and a number of seconds since


@dataclass(frozen=True, slots=True)
class Opposite:
    """The task in the other direction, as this one's file names it."""

    meta_schema: str  # at the source
    task: str

    @property
    def key(self) -> SubtaskKey:
        """Its progress, of whatever source."""
        return SubtaskKey(self.meta_schema, self.task, "")

    @property
    def marking(self) -> tuple[TableName, ...]:
        """The tables of which a row begins each of its transactions."""
        return tuple(
            table for key in (self.key, self.key.share) for table in (key.worker, key.table("loader_checkpoint"))
        )

    def tables(self, *, folded: bool) -> MarkTables:
        """Its progress tables at a server that folds names, or does not."""

        def spelled(tables: tuple[TableName, ...]) -> frozenset[TableName]:
            return frozenset(TableName(t.schema.lower(), t.table.lower()) if folded else t for t in tables)

        return MarkTables(
            spelled(self.marking),
            spelled((self.key.session,)),
            spelled((self.key.sources,)),
            spelled((self.key.intent,)),
            spelled((self.key.checkpoint,)),
            folded=folded,
        )


def opposite_of(subtask: SubtaskConfig) -> Opposite | None:
    """The opposite that a task's file names for a source."""
    return Opposite(subtask.opposite_meta_schema, subtask.opposite) if subtask.opposite else None


def marks_of(subtask: SubtaskConfig, facts: ServerFacts, source: Callable[[], Connection]) -> Marks | None:
    """What leaves out the opposite's transactions of rows; None where there is no opposite.

    `source` opens a session at the source, whose facts are given.
    """
    opposite = opposite_of(subtask)
    if opposite is None:
        return None
    return Marks(_tables(opposite, facts), OppositeSources(source, subtask.target, opposite.key))


def marks_with_statements(
    subtask: SubtaskConfig, facts: ServerFacts, source: Callable[[], Connection], stored: FileBirth | None
) -> Marks | None:
    """The same for a reading that executes statements; `stored` is what is known at the place that it begins at."""
    opposite = opposite_of(subtask)
    if opposite is None:
        return None
    announced = None if stored is None else stored.announced
    sources = OppositeSources(source, subtask.target, opposite.key)
    earlier = sessions_for(source, opposite, sources.of_others)
    return Marks(_tables(opposite, facts), sources, stored=announced, earlier=earlier)


def _tables(opposite: Opposite, facts: ServerFacts) -> MarkTables:
    return opposite.tables(folded=facts.lower_case_table_names != 0)


# At the target: what a task says of itself.


def _renumber(connection: TargetConnection) -> int:
    """Have the binlog show the session's statements under a number of their own; gives it, or the server's."""
    own = OWN + secrets.randbelow(OWN)
    try:
        connection.execute(f"SET SESSION pseudo_thread_id = {own}")
    except DMError as error:
        if error.name != "privilege-missing":
            raise
        return connection.connection_id
    return own


@reads_answers
def announce(connection: TargetConnection, key: SubtaskKey) -> None:
    """Before a session's first DDL statement: store that what it executes is the task's; raises DMError."""
    connection.execute(f"CREATE DATABASE IF NOT EXISTS {Ident(key.meta_schema).sql}")
    if not connection.dialect.has_binlog:
        return  # no task reads it
    connection.execute(_SESSION.format(table=key.session.sql, charset=CHARSET))
    up = int(connection.query("SHOW GLOBAL STATUS LIKE 'Uptime'")[0][1])
    number = _renumber(connection)
    connection.begin()
    connection.execute(
        f"INSERT IGNORE INTO {key.session.sql} (connection_id, started, server_id, id)"
        " VALUES (%s, UNIX_TIMESTAMP(SYSDATE()) - %s, @@GLOBAL.server_id, %s)",
        (number, up, key.source_id),
    )
    connection.commit()


def declare(connection: TargetConnection, key: SubtaskKey, opposite: Opposite | None) -> None:
    """Store which task is the opposite, or that none is; raises DMError."""
    if opposite is None:  # as in nearly all starts: one statement, and no table is made for it
        try:
            connection.execute(f"DELETE FROM {key.opposite.sql} WHERE id = %s", (key.source_id,))
        except DMError as error:
            if error.server_errno not in NO_TABLE:
                raise
        return
    connection.execute(_OPPOSITE.format(table=key.opposite.sql, charset=CHARSET))
    connection.execute(
        f"REPLACE INTO {key.opposite.sql} (id, task, meta_schema) VALUES (%s, %s, %s)",
        (key.source_id, opposite.task, opposite.meta_schema),
    )


# At the source: what the opposite says of itself.


@reads_answers
def names(source: Connection, opposite: Opposite, key: SubtaskKey) -> bool:
    """Whether the opposite names this task; raises DMError."""
    if not has_rows_of(source, opposite.key.opposite):
        return False
    rows = fetch(source, f"SELECT task, meta_schema FROM {opposite.key.opposite.sql}")
    return (key.task, key.meta_schema) in [(str(task), str(schema)) for task, schema in rows]


def sessions_for(
    source: Callable[[], Connection], opposite: Opposite, of_others: Callable[[str], bool]
) -> Callable[[int, int], EarlierSessions]:
    """What the table of announcements says for a reading that begins in a server's file made at some time.

    Asks the server that is the source now; where the file is another one's, nothing is known of its starts. That
    matters for numbers that servers give. `of_others`: which sources of the opposite are not the target.
    """

    @reads_answers
    def earlier(server_id: int, age: int) -> EarlierSessions:
        with closing(source()) as connection:
            table = opposite.key.session
            if not has_rows_of(connection, table):
                return EarlierSessions()
            up = int(fetch(connection, "SHOW GLOBAL STATUS LIKE 'Uptime'")[0][1])
            now = int(fetch(connection, "SELECT UNIX_TIMESTAMP()")[0][0])
            here = int(fetch(connection, "SELECT @@GLOBAL.server_id")[0][0])
            rows = fetch(
                connection, f"SELECT connection_id, started, id FROM {table.sql} WHERE server_id = %s", (server_id,)
            )
        found = [(int(number), int(since)) for number, since, name in rows if not of_others(str(name))]
        own = frozenset(number for number, _ in found if number >= OWN)
        given = [(number, since) for number, since in found if number < OWN]
        started = now - up
        if here != server_id:
            return EarlierSessions(own, frozenset(number for number, _ in given))
        if age >= started - _JITTER:
            return EarlierSessions(own | {number for number, since in given if since >= started - _JITTER})
        return EarlierSessions(own, frozenset(number for number, since in given if since < started - _JITTER))

    return earlier
