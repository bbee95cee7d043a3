"""Sessions in which rows are read, and questions about tables asked, whatever the server's defaults are."""

from __future__ import annotations

from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.upstream.connection import Connection, connect, fetch
from dm.upstream.facts import ServerFacts, read_server_uuid

_READ_TIMEOUT = 900.0
_IDLE_SECONDS = 2147483  # the largest value that every platform takes


def question_session(endpoint: Endpoint, facts: ServerFacts | None = None, *, role: str = "upstream") -> Connection:
    """A session of the source for questions about it, whatever the server's defaults are; of the target in that role.

    Raises DMError where another server than the one with these facts answers: an address may lead to several, and what
    the dump puts together must be of one.
    """
    connection = connect(endpoint, role=role, read_timeout=_READ_TIMEOUT)
    try:
        if facts is not None:
            _demand_server(connection, facts)
        # Without modes such as ANSI_QUOTES, SHOW CREATE TABLE writes backticks and all options. Zero dates may be
        # compared with.
        modes = "sql_mode = 'ALLOW_INVALID_DATES', sql_quote_show_create = 1"
        # A session that only holds locks, or waits for others, is silent for as long as the rows take.
        fetch(connection, f"SET SESSION {modes}, net_write_timeout = 3600, wait_timeout = {_IDLE_SECONDS}", role=role)
        # READ UNCOMMITTED would show rows that are rolled back afterwards; no binlog tells of them.
        fetch(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", role=role)
    except DMError:
        connection.close()
        raise
    return connection


def _demand_server(connection: Connection, facts: ServerFacts) -> None:
    now = read_server_uuid(connection)
    if now != facts.server_uuid:
        raise DMError("dump-source-switched", now=now, before=facts.server_uuid)


def row_session(endpoint: Endpoint, facts: ServerFacts | None = None, *, role: str = "upstream") -> Connection:
    """A session in which values come as stored: sent to us without conversion, literals stay utf8mb4."""
    connection = question_session(endpoint, facts, role=role)
    try:
        fetch(connection, "SET SESSION character_set_results = binary", role=role)
    except DMError:
        connection.close()
        raise
    return connection
