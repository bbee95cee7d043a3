"""Connections to an upstream server, and the server's errors in our words.

Every session has the same settings, whatever the server's defaults: utf8mb4, time zone +00:00, results with all their
rows.

The server at the address may not be the one that was meant, so its answers are not trusted. LOAD DATA LOCAL is refused,
because a server could ask any client for its files. A password is never sent in clear over a connection without TLS.
Answers have a size limit. What can't be understood is an ordinary error. A port that accepts and says nothing is
abandoned after the connect timeout, not the read timeout.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, cast

import pymysql
from pymysql.constants import CR
from pymysql.cursors import Cursor

from dm.config.endpoint import TIDB_VARIABLES, Endpoint
from dm.errors import PRIVILEGE_ERRORS, REFUSED_STATEMENT, WHO, DMError, Grantee, nobody, privilege_missing
from dm.tls import EncryptedConnection

__all__ = [
    "GARBLED",
    "LONGEST_WORDS",
    "PROMPT_SECONDS",
    "Connection",
    "Endpoint",
    "SqlRow",
    "connect",
    "fetch",
    "grantee",
    "limited",
    "server_error",
]

Connection: TypeAlias = "pymysql.Connection[Cursor]"
SqlRow = tuple[Any, ...]

# For callers that must end within ten seconds even if the server neither answers nor refuses.
PROMPT_SECONDS: Final = 8.0


# For one answer that is read as a whole. A row of one byte costs us hundreds, so each read counts more than its bytes.
ANSWER_BYTES: Final = 256 << 20
_READ_COST: Final = 128
_ALL_ROWS: Final = (1 << 64) - 1  # for sql_select_limit
LONGEST_WORDS: Final = 2000  # of a server's error message

# What pymysql raises when the peer does not speak the protocol. It raises RuntimeError for a file request, and for an
# authentication method that needs TLS or the `cryptography` package; NameError is one of its defects.
GARBLED: Final = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    NameError,
    RuntimeError,
    struct.error,
)

ER_NOT_SUPPORTED_AUTH_MODE: Final = 1251

# Error numbers: MySQL "Server Error Message Reference" and "Client Error Message Reference".
_REFUSED = frozenset({1045, 1130, 1251, 1396, 1698, 1820, 1862, 3118, 3879, 4151})
# Too many connections, shutdown, server starting, can't create thread, host unreachable.
_UNREACHABLE = frozenset({1040, 1041, 1129, 1135, 1152, 1203, 1226, 2002, 2003, 2005, 2059})
_LOST = frozenset({1053, 1079, 1158, 1159, 1160, 1161, 1317, 1927, 2006, 2013, 2055, 3169, 4031})


class AnswerTooLongError(pymysql.err.InternalError):
    """Raised when an answer exceeds its limit."""


class _Session(EncryptedConnection):
    """A connection that stops reading an answer at a limit; the login is limited, streamed rows are not."""

    answer_left: int | None = ANSWER_BYTES

    def _read_bytes(self, num_bytes: int) -> bytes:
        if self.answer_left is not None:
            self.answer_left -= num_bytes + _READ_COST
            if self.answer_left < 0:
                raw = cast(Any, self)
                raw._force_close()
                raise AnswerTooLongError(CR.CR_MALFORMED_PACKET, f"an answer of more than {ANSWER_BYTES} bytes")
        return cast(bytes, super()._read_bytes(num_bytes))  # type: ignore[misc]  # not in the stubs


class _NeverInClear:
    """Answers a server that asks for the plain password."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def authenticate(self, _packet: object) -> object:
        words = "the server asks for the password in clear, and the connection has no TLS"
        raise pymysql.err.OperationalError(ER_NOT_SUPPORTED_AUTH_MODE, words)


@contextmanager
def limited(connection: Connection) -> Iterator[None]:
    """What is read inside is one answer of limited size."""
    session = cast(_Session, connection)
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
    except (pymysql.err.Error, OSError, *GARBLED):
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
    words = ": ".join(str(arg) for arg in error.args)[:LONGEST_WORDS] or type(error).__name__
    if isinstance(error, AnswerTooLongError) or (isinstance(error, GARBLED) and not connecting):
        return DMError("server-answer-garbled", address=address, what=words)
    if code in PRIVILEGE_ERRORS:
        said = str(error.args[-1])
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
    """Log in and fix the session; every failure is a DMError."""
    try:
        tls = endpoint.security.context() if endpoint.security else None
        in_clear: dict[str, Callable[[Any], Any]] = (
            {} if tls is not None else {"mysql_clear_password": _NeverInClear, "dialog": _NeverInClear}
        )
        connection = _Session(
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=endpoint.password.get_secret_value(),
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=connect_timeout,
            read_timeout=connect_timeout,  # of the login; a silent port counts as one that can't be reached
            write_timeout=connect_timeout,
            local_infile=False,
            program_name="dm",
            auth_plugin_map=in_clear,
            ssl=tls,
        )
    except (pymysql.err.Error, OSError, *GARBLED) as error:
        raise server_error(
            error, role=role, host=endpoint.host, port=endpoint.port, user=endpoint.user, connecting=True
        ) from error
    raw = cast(Any, connection)
    raw._read_timeout = raw._write_timeout = read_timeout
    connection.answer_left = None
    try:
        _fix_session(connection, endpoint, role)
    except DMError:
        connection.close()
        raise
    return connection


def _fix_session(connection: Connection, endpoint: Endpoint, role: str) -> None:
    tidb = "tidb" in str(cast(Any, connection).get_server_info()).lower()
    for name, value in endpoint.session.items():
        if name.startswith(TIDB_VARIABLES) and not tidb:
            continue
        if not name.replace("_", "").isalnum():
            raise DMError("statement-failed", role=role, statement=f"SET {name}", cause="not a variable name")
        # A numeric variable refuses text; every value in the file is text.
        number = int(value) if re.fullmatch(r"-?\d{1,19}", str(value)) else None
        try:
            fetch(connection, f"SET SESSION `{name}` = %s", (value if number is None else number,), role=role)
        except DMError as error:
            if error.name != "statement-failed":
                raise
            place = endpoint.session_places.get(name, "")
            refused = DMError("session-variable-refused", role=role, variable=name, place=place, cause=error.cause)
            raise refused.numbered(error.server_errno) from None
    # Last, whatever the user's block says: what is read and written here is UTC, and no answer ends before its last row
    # (`DEFAULT` would be the server's global limit). Row events have the columns of keys that the server has made by
    # itself; MySQL has the switch for showing them since 8.0.30, and MariaDB leaves this comment alone. TiDB heeds it,
    # whatever its version, and has no such switch.
    shown = "" if tidb else "/*!80030 , show_gipk_in_create_table_and_information_schema = ON */"
    fetch(connection, f"SET SESSION time_zone = '+00:00', sql_select_limit = {_ALL_ROWS} {shown}", role=role)


def fetch(
    connection: Connection, sql: str, args: Iterable[object] | None = None, *, role: str = "upstream"
) -> tuple[SqlRow, ...]:
    """All rows of one statement; a server's error comes as a DMError."""
    try:
        with limited(connection), connection.cursor() as cursor:
            cursor.execute(sql, None if args is None else tuple(args))
            return cursor.fetchall() if cursor.description else ()
    except (pymysql.err.Error, OSError, *GARBLED) as error:
        if not isinstance(error, pymysql.err.Error | OSError):
            cast(Any, connection)._force_close()  # in the middle of an answer: the connection is of no further use
        user = connection.user.decode() if isinstance(connection.user, bytes) else connection.user or ""
        host, port, who = connection.host, connection.port, partial(grantee, connection)
        raise server_error(error, role=role, host=host, port=port, user=user, statement=sql, who=who) from error
