"""Which servers the opposite task reads: what it brings from this task's target is left out, all else is not.

A task may follow several servers, and one that is named as the opposite may follow none that is this target. What was
left out of those would never come to the target. So each mark has the id of its source, and here is asked whether that
is the target.

The checkpoint says which server a source is now, and a target that took over from another one knows itself in it by the
GTIDs (`replication_loop.py`). A load has no checkpoint, and a removed task none any more. So each run also stores the
server that it is about to read, before it writes anything else, in `<task>_syncer_source`. These rows stay, as those of
announced sessions do: a log that is read later still has the marks. A new row stands in the log, too, and tells a
reader to ask again.

What neither says is not left out, and not applied either: the reader pauses. That nothing is said of a source is kept
as well, until a new row comes or the reader would pause: the announced sessions of such a source may be many, and each
question takes a login at both servers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final

from dm.config import Endpoint
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.position import Position
from dm.progress.replication_loop import reads_servers
from dm.progress.tables import CHARSET, SubtaskKey
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, connect, fetch
from dm.sourcelog.upstream.facts import ServerFacts, read_facts

_SOURCE: Final = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    server_uuid VARCHAR(64) NOT NULL,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (id, server_uuid)
) ENGINE=InnoDB {charset}"""

NO_TABLE: Final = (1049, 1146)
"""ER_BAD_DB_ERROR, ER_NO_SUCH_TABLE."""


def note_source(connection: TargetConnection, key: SubtaskKey, server_uuid: str) -> None:
    """Before anything else is written for a source: store which server it is; raises DMError."""
    if not connection.dialect.has_binlog or not server_uuid:
        return  # no task reads it; dump files of another program
    if not _is_noted(connection, key, server_uuid):  # as it is at nearly all starts: DDL stands in the target's binlog
        connection.execute(f"CREATE DATABASE IF NOT EXISTS {Ident(key.meta_schema).sql}")
        connection.execute(_SOURCE.format(table=key.sources.sql, charset=CHARSET))
        connection.execute(
            f"INSERT IGNORE INTO {key.sources.sql} (id, server_uuid) VALUES (%s, %s)", (key.source_id, server_uuid)
        )
    connection.commit()


def _is_noted(connection: TargetConnection, key: SubtaskKey, server_uuid: str) -> bool:
    sql = f"SELECT 1 FROM {key.sources.sql} WHERE id = %s AND server_uuid = %s"
    try:
        return bool(connection.query(sql, (key.source_id, server_uuid)))
    except DMError as error:
        if error.server_errno in NO_TABLE:
            return False
        raise


def has_rows_of(source: Connection, table: TableName) -> bool | None:
    """Whether a table of the opposite has rows; None where it is not there. Raises DMError where it can't be read."""
    try:
        return bool(fetch(source, f"SELECT 1 FROM {table.sql} LIMIT 1"))
    except DMError as error:
        if error.server_errno in NO_TABLE:
            return None
        raise


@reads_answers
def read_by(source: Connection, key: SubtaskKey, target: Connection, facts: ServerFacts) -> dict[str, bool | None]:
    """Whether each source of a task with progress at a source is this target; None where that can't be told.

    Raises DMError.
    """
    found: dict[str, bool | None] = {}
    if has_rows_of(source, key.sources):
        servers: dict[str, set[str]] = {}
        for name, uuid in fetch(source, f"SELECT id, server_uuid FROM {key.sources.sql}"):
            servers.setdefault(str(name), set()).add(str(uuid))
        for name, uuids in servers.items():
            found[name] = None if len(uuids) > 1 and facts.server_uuid in uuids else facts.server_uuid in uuids
    found |= reads_servers(source, key.checkpoint, target, facts)
    passes = {SubtaskKey(key.meta_schema, key.task, name).second.source_id: is_it for name, is_it in found.items()}
    return passes | found


class OppositeSources:
    """Which sources of the opposite are this target; asked where it matters, and kept."""

    def __init__(self, source: Callable[[], Connection], target: Endpoint, opposite: SubtaskKey) -> None:
        self._source = source
        self._target = target
        self._opposite = opposite
        self._known: dict[str, bool | None] = {}

    def of_others(self, source_id: str) -> bool:
        """Whether a source is certainly another server, and some source of the opposite is this target."""
        return self._is_target(source_id) is False and True in self._known.values()

    def demand(self, source_id: str, position: Position) -> None:
        """Raise DMError where a source is not certainly this target."""
        if self._is_target(source_id) is None:
            self.ask_again()  # it may have been said since
        is_target, task = self._is_target(source_id), self._opposite.task
        if is_target is False:
            raise DMError("opposite-elsewhere", task=task, target=self._target.address, position=position)
        if is_target is None:
            raise DMError("opposite-source-unknown", task=task, source=source_id, position=position)

    def ask_again(self) -> None:
        """Forget what is known."""
        self._known = {}

    def _is_target(self, source_id: str) -> bool | None:
        if source_id not in self._known:
            with closing(self._source()) as there, closing(connect(self._target, role="target")) as target:
                found = read_by(there, self._opposite, target, read_facts(target))
            self._known = dict.fromkeys((*self._known, source_id)) | found
        return self._known[source_id]
