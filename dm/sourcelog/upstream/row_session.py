"""Sessions in which rows are read, and long questions about tables asked, of one server."""

from __future__ import annotations

from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.sourcelog.upstream.connection import Connection, connect, set_variables
from dm.sourcelog.upstream.facts import ServerFacts, read_server_uuid

_READ_TIMEOUT = 900.0


def question_session(endpoint: Endpoint, facts: ServerFacts | None = None, *, role: str = "upstream") -> Connection:
    """A session of the source for questions that may take long; of the target in that role.

    Raises DMError where another server than the one with these facts answers: an address may lead to several, and what
    the dump puts together must be of one.
    """
    connection = connect(endpoint, role=role, read_timeout=_READ_TIMEOUT)
    try:
        if facts is not None:
            _demand_server(connection, facts)
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
        set_variables(connection, {"character_set_results": "binary"}, role=role)
    except DMError:
        connection.close()
        raise
    return connection
