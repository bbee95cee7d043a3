"""The one target session that executes DDL, in the state the source's session had.

A statement's meaning depends on its session: sql_mode decides how it is read and which defaults are legal, timestamp
and time zone decide what CURRENT_TIMESTAMP defaults become. All of it is in the query event (MySQL: Query_log_event's
status variables) and is set here for this statement only.
"""

from __future__ import annotations

from collections.abc import Callable

from dm.binlog.reader import Query
from dm.errors import DMError
from dm.ident import TableName
from dm.schema.charset import Collated
from dm.schema.interpretation import database_schema
from dm.schema.table import TableSchema
from dm.target.connection import TargetConnection

LOCK_TRIES = 10
LOCK_RETRY_SECONDS = 1.0

# Modes that change what a definition means; what quotes and backslashes mean is resolved in the text already.
_MODES = {1: "REAL_AS_FLOAT", 2: "PIPES_AS_CONCAT", 8: "IGNORE_SPACE"}


class DdlSession:
    """Executes DDL statements; holds the lock of the DDL lane."""

    def __init__(self, connection: TargetConnection, pause: Callable[[float], bool]) -> None:
        self._connection = connection
        self._pause = pause  # waits that many seconds; True when the run is told to stop

    @property
    def connection_id(self) -> int:
        """The target's number of this session."""
        return self._connection.connection_id

    def execute(self, statement: str, query: Query) -> None:
        """Run one statement as the source ran it; raises DMError."""
        modes = ["ALLOW_INVALID_DATES", "NO_AUTO_VALUE_ON_ZERO"]
        modes += [mode for bit, mode in _MODES.items() if (query.sql_mode or 0) & bit]
        self._connection.execute(
            "SET SESSION sql_mode = %s, SESSION timestamp = %s", (",".join(modes), query.timestamp)
        )
        for left in reversed(range(LOCK_TRIES)):
            try:
                self._connection.execute(statement.encode())
                return
            except DMError as error:
                # No lock was to be had and nothing was executed: DDL is atomic (MySQL 8.0, MariaDB 10.6).
                if error.name != "transaction-aborted" or left == 0 or self._pause(LOCK_RETRY_SECONDS):
                    raise

    def database(self, schema: str) -> TableSchema | None:
        """The schema's defaults, in the form structures have; None when there is no such schema."""
        rows = self._connection.query(
            "SELECT default_character_set_name, default_collation_name FROM information_schema.schemata"
            " WHERE schema_name = %s",
            (schema,),
        )
        return database_schema(TableName(schema, ""), Collated(str(rows[0][0]), str(rows[0][1]))) if rows else None

    def close(self) -> None:
        """End the session."""
        self._connection.close()
