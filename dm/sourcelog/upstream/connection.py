"""Sessions at an upstream server that ask and read, and the server's errors in our words.

How they log in, and what is not trusted of the server, says `dm.session.login`; what they set, `dm.session.state`. The
login and each answer have a limit; a session that streams rows or events is outside of it. A port that accepts and
says nothing is abandoned after the connect timeout, not the read timeout.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, cast

import pymysql
from pymysql.cursors import Cursor

from dm.changes.computing import VARIABLES, SourceSettings
from dm.config.endpoint import Endpoint
from dm.errors import PRIVILEGE_ERRORS, REFUSED_STATEMENT, WHO, DMError, Grantee, nobody, privilege_missing
from dm.mysql.dialect import dialect, flavor_of
from dm.session import state
from dm.session.answers import reads_answers
from dm.session.login import (
    ANSWER_BYTES,
    LONGEST_WORDS,
    UNSOUND,
    AnswerTooLongError,
    ServerConnection,
    garbled,
    is_garbled,
    login_error,
    open_connection,
    words_of,
)
from dm.session.state import offset_named, offsets_of, offsets_question

__all__ = [
    "PROMPT_SECONDS",
    "Connection",
    "Endpoint",
    "SqlRow",
    "connect",
    "fetch",
    "fetch_named",
    "grantee",
    "limited",
    "server_error",
]

Connection: TypeAlias = "pymysql.Connection[Cursor]"
SqlRow = tuple[Any, ...]

# For callers that must end within ten seconds even if the server neither answers nor refuses.
PROMPT_SECONDS: Final = 8.0


# Error numbers: MySQL "Server Error Message Reference" and "Client Error Message Reference".
_REFUSED = frozenset({1045, 1130, 1251, 1396, 1698, 1820, 1862, 3118, 3879, 4151})
# Too many connections, shutdown, server starting, can't create thread, host unreachable.
_UNREACHABLE = frozenset({1040, 1041, 1129, 1135, 1152, 1203, 1226, 2002, 2003, 2005, 2059})
_LOST = frozenset({1053, 1079, 1158, 1159, 1160, 1161, 1317, 1927, 2006, 2013, 2055, 3169, 4031})


@contextmanager
def limited(connection: Connection) -> Iterator[None]:
    """What is read inside is one answer of limited size."""
    session = cast(ServerConnection, connection)
    session.answer_left = ANSWER_BYTES
    try:
        yield
    finally:
        session.answer_left = None


def grantee(connection: Connection) -> Grantee:
    """The account that the server takes the session for, asked after a refusal, which has ended its answer."""
    try:
        with limited(connection), connection.cursor() as cursor:
            cursor.execute(WHO)
            return Grantee.of(*cursor.fetchall()[0])
    except UNSOUND:
        cast(Any, connection)._force_close()
        return nobody()


def server_error(
    error: BaseException,
    *,
    role: str,
    host: str,
    port: int,
    user: str,
    statement: str = "",
    connecting: bool = False,
    who: Callable[[], Grantee] = nobody,
) -> DMError:
    """The DMError for a driver's exception; the caller raises it from `error`."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    login = _Login(role, f"{host}:{port}", user)
    found = _server_error(error, code, login, statement=statement, connecting=connecting, who=who)
    return found.numbered(code)


class _Login(NamedTuple):
    """The two ends of a connection."""

    role: str
    address: str
    user: str


def _server_error(
    error: BaseException, code: int, login: _Login, *, statement: str, connecting: bool, who: Callable[[], Grantee]
) -> DMError:
    role, address, user = login
    words = words_of(error)
    if is_garbled(error) and (isinstance(error, AnswerTooLongError) or not connecting):
        return garbled(error, address)
    if code in PRIVILEGE_ERRORS:
        said = str(error.args[-1])[:LONGEST_WORDS]
        return privilege_missing(said, role=role, address=address, user=user, cause=words, statement=statement, who=who)
    if code in _REFUSED:
        return DMError("access-denied", role=role, address=address, user=user, cause=words)
    if connecting or code in _UNREACHABLE:
        return DMError("connection-failed", role=role, address=address, user=user, cause=words)
    if code in _LOST or isinstance(error, OSError | pymysql.err.InterfaceError):
        return DMError("connection-lost", role=role, address=address, cause=words)
    name = REFUSED_STATEMENT[statement.lstrip()[:7].upper().startswith(("SELECT", "SHOW "))]
    return DMError(name, role=role, statement=statement, cause=words)


def connect(
    endpoint: Endpoint,
    *,
    role: str = "upstream",
    connect_timeout: float = 5,
    read_timeout: float | None = 60,
) -> Connection:
    """Log in and settle the session; every failure is a DMError."""
    try:
        # Of the login: a silent port counts as one that can't be reached.
        opened = open_connection(
            endpoint, connect_timeout=connect_timeout, login_timeout=connect_timeout, read_timeout=read_timeout
        )
    except UNSOUND as error:
        raise login_error(error, endpoint, role) or server_error(
            error, role=role, host=endpoint.host, port=endpoint.port, user=endpoint.user, connecting=True
        ) from error
    raw = cast(Any, opened)
    connection = cast(Connection, opened)
    opened.answer_left = None
    try:
        _settle(connection, str(raw.get_server_info()), endpoint, role)
    except DMError:
        connection.close()
        raise
    return connection


@reads_answers
def _settle(connection: Connection, greeting: str, endpoint: Endpoint, role: str) -> None:
    try:
        for statement in state.opening("reads", greeting, endpoint.session).statements:
            fetch(connection, statement, role=role)
    except DMError as error:
        raise state.refused_variable(error, endpoint, role) or error from None
    server = dialect(flavor_of(greeting))
    if server.settled:
        found = {str(name).lower(): str(value) for name, value in fetch(connection, state.question(server), role=role)}
        corrections = state.corrections(server, found)
        if corrections:
            fetch(connection, corrections, role=role)


def set_variables(connection: Connection, values: Mapping[str, str | int], *, role: str = "upstream") -> None:
    """Give variables of a session other values than it began with."""
    fetch(connection, state.assignments(values), role=role)


def fetch(
    connection: Connection, sql: str, args: Iterable[object] | None = None, *, role: str = "upstream"
) -> tuple[SqlRow, ...]:
    """All rows of one statement; a server's error comes as a DMError."""
    return _answer(connection, sql, args, role)[1]


def fetch_named(connection: Connection, sql: str, *, role: str = "upstream") -> list[dict[str, Any]]:
    """The same with the columns' names, for answers whose columns depend on the version."""
    names, rows = _answer(connection, sql, None, role)
    return [dict(zip(names, row, strict=True)) for row in rows]


@reads_answers
def threads_running(connection: Connection) -> int:
    """The sessions of the server that execute something now, this one among them."""
    server = dialect(flavor_of(str(cast(Any, connection).get_server_info())))
    return int(str(fetch(connection, server.threads_running)[0][1]))


def _answer(
    connection: Connection, sql: str, args: Iterable[object] | None, role: str
) -> tuple[list[str], tuple[SqlRow, ...]]:
    try:
        with limited(connection), connection.cursor() as cursor:
            cursor.execute(sql, None if args is None else tuple(args))
            described = cursor.description
            return [str(column[0]) for column in described or ()], cursor.fetchall() if described else ()
    except UNSOUND as error:
        if is_garbled(error):
            cast(Any, connection)._force_close()  # in the middle of an answer: the connection is of no further use
        user = connection.user.decode() if isinstance(connection.user, bytes) else connection.user or ""
        host, port, who = connection.host, connection.port, partial(grantee, connection)
        raise server_error(error, role=role, host=host, port=port, user=user, statement=sql, who=who) from error


@reads_answers
def read_source_settings(connection: Connection) -> SourceSettings:
    """Ask the server for its global settings; raises DMError."""
    names = ", ".join(f"'{name}'" for name in VARIABLES)
    rows = fetch(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    found = {str(name).lower(): str(value) for name, value in rows}
    zone, modes = found.pop("time_zone"), found.pop("sql_mode", "")
    offsets = offset_named(zone) or offsets_of(fetch(connection, offsets_question("@@GLOBAL.time_zone")))
    return SourceSettings(zone, offsets, tuple(mode for mode in modes.upper().split(",") if mode), found)


_NAMESPACE = uuid.UUID("5b0c6f2e-0d4f-5b59-9a3c-7d1f0a0b6d6d")
_FIRST = 429_496_729  # DM's own range of replica ids starts here; real servers usually have lower ids
_SPAN = 3_000_000_000


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    """The server id and the uuid of one reader of one source.

    When a replica registers, both servers end an older dump of the same replica: MySQL identifies it by uuid, MariaDB
    by server id. So the identity is computed from what we are (this relay, or this task on this source), never drawn at
    random. A restarted process replaces its own zombie, and two different readers never collide.
    """

    server_id: int
    uuid: str


def identity_for(purpose: str, source_id: str, *, server_id: int = 0, taken: Collection[int] = ()) -> ReplicaIdentity:
    """The identity of `purpose` ("relay" or a task's name) at a source; `server_id` overrides, `taken` is avoided."""
    key = f"{purpose}\0{source_id}"
    if server_id:
        # Two installations with different server ids on one source must differ for MySQL, too.
        return ReplicaIdentity(server_id, str(uuid.uuid5(_NAMESPACE, f"{key}\0{server_id}")))
    own = str(uuid.uuid5(_NAMESPACE, key))
    candidate = _FIRST + zlib.crc32(key.encode()) % _SPAN
    while candidate in taken:
        candidate += 1
    return ReplicaIdentity(candidate, own)
