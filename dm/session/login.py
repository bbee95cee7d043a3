"""Logging in at a server: the only place that opens a driver's connection, for source and target alike.

The server at the address may not be the one that was meant, so nothing that it says is trusted.

- It learns no password that it does not know. A method that sends the password itself (`mysql_clear_password`,
  `dialog`) is followed only over TLS whose certificate a CA has vouched for. The password is encrypted with a key that
  the server sends (RSA, of `caching_sha2_password` and `sha256_password` without TLS) only where `security` says
  `get-server-public-key`. `mysql_old_password` is never followed: what it sends tells the password.
  One hole is open where the file names no CA, as in every client of MySQL: without a CA any certificate will do, and a
  server that asks for full authentication inside TLS gets the password. `check-task` warns of it (`unproven`).
- It gets no file: LOAD DATA LOCAL stays off in the driver, which would open what the server names.
- It has no endless answers: what is read as one answer has a limit, and a session that streams rows lifts it. Texts of
  errors are cut.
- What can't be understood is one ordinary error, `server-answer-garbled`, whichever exception the driver makes of it.

Passwords are sent as UTF-8. They are in no text: a driver's or the system's exception is quoted, any other exception is
told by its type alone, because its arguments may hold what was being worked on.
"""

from __future__ import annotations

import ipaddress
import ssl
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pymysql
from pymysql.connections import MAX_PACKET_LEN
from pymysql.connections import MySQLResult as _Result
from pymysql.constants import COMMAND, CR

from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.session.answers import note_question
from dm.session.state import CHARSET, COLLATION
from dm.tls import encrypting_only, naming

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

    _Connection: TypeAlias = "pymysql.Connection[Cursor]"  # generic in the stubs only
else:
    _Connection = pymysql.Connection

ANSWER_BYTES: Final = 256 << 20
"""For one answer that is read as a whole. A row of one byte costs us hundreds, so each read counts more than its
bytes."""
_READ_COST: Final = 128
_LONG: Final = 64 << 10
"""Bytes of a statement of which each copy costs more than another write."""
LONGEST_WORDS: Final = 2000
"""Characters of a server's error message."""

GARBLED: Final = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    NameError,
    RuntimeError,
    ArithmeticError,
    struct.error,
)
"""What pymysql raises when the peer does not speak the protocol.

It raises RuntimeError for a file request, and for an authentication method that needs the `cryptography` package;
NameError is one of its defects; ArithmeticError comes of a DECIMAL that is no number.
"""
UNSOUND: Final = (pymysql.err.Error, OSError, *GARBLED)
"""All that a connection may raise because of its server."""

_IN_CLEAR: Final = (b"mysql_clear_password", b"dialog")
_OLD: Final = b"mysql_old_password"
_OLD_ASKED: Final = "received unknown auth switch request"  # the driver's words for a packet of one byte, 0xfe
_WRONG_NAME: Final = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


class AnswerTooLongError(pymysql.err.InternalError):
    """Raised when an answer exceeds its limit."""


class UnsafeLoginError(pymysql.err.OperationalError):
    """Raised instead of telling the server a password; `what` it asks for, and the `way` out."""

    def __init__(self, what: str, way: str) -> None:
        super().__init__(CR.CR_AUTH_PLUGIN_ERR, what)
        self.what, self.way = what, way


class ServerConnection(_Connection):
    """A driver's connection that does not trust its server."""

    answer_left: int | None = ANSWER_BYTES
    takes_server_key = False
    """Whether a password may be encrypted with a key of the server's own."""
    _verifies = False
    _server_key: bytes | None = None
    known_columns: dict[tuple[bool, tuple[bytes, ...]], tuple[Any, Any, Any]]  # by whether texts are decoded, too
    """What the driver has made of the columns of answers, by the packets."""

    def __init__(self, **given: Any) -> None:
        self.known_columns = {}
        super().__init__(**given)

    def _create_ssl_ctx(self, options: Any) -> ssl.SSLContext:
        self._verifies = bool(options)
        return cast(ssl.SSLContext, options) if options else encrypting_only()

    def set_character_set(self, charset: str, collation: str | None = None) -> None:
        """Nothing: the session's first statement says so too (`dm.session.state`), and saves a round trip."""

    def _read_bytes(self, num_bytes: int) -> bytes:
        if self.answer_left is not None:
            self.answer_left -= num_bytes + _READ_COST
            if self.answer_left < 0:
                cast(Any, self)._force_close()
                raise AnswerTooLongError(CR.CR_MALFORMED_PACKET, f"an answer of more than {ANSWER_BYTES} bytes")
        return cast(bytes, super()._read_bytes(num_bytes))  # type: ignore[misc]  # not in the stubs

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        if unbuffered:
            return super()._read_query_result(unbuffered)  # type: ignore[misc]  # not in the stubs
        connection = cast(Any, self)
        connection._result = None
        result = _KnownAnswer(connection)
        result.read()
        connection._result = result
        if result.server_status is not None:
            connection.server_status = result.server_status
        return result.affected_rows

    def columns_arrived(self, count: int) -> tuple[tuple[bytes, ...], int] | None:
        """The packets of so many columns and of their end, and how many bytes they have, where all of them are here.

        Nothing is taken. None: they are to be read packet by packet, and so is whatever is unusual.
        """
        connection = cast(Any, self)
        try:
            arrived = connection._rfile.peek()
        except OSError:
            return None  # whoever reads the packet tells it
        found, at, number = list[bytes](), 0, connection._next_seq_id
        for _ in range(count + 1):
            begin = at + _HEAD
            end = begin + int.from_bytes(arrived[at : at + 3], "little")
            if end > len(arrived) or arrived[begin - 1] != number:
                return None
            found.append(arrived[begin:end])
            at, number = end, (number + 1) % 256
        return tuple(found), at

    def pass_over(self, packets: int, size: int) -> None:
        """Take packets that have arrived, and are known."""
        connection = cast(Any, self)
        connection._rfile.read(size)
        connection._next_seq_id = (connection._next_seq_id + packets) % 256
        if self.answer_left is not None:
            self.answer_left -= size + 2 * packets * _READ_COST  # what comes next finds it used up

    def _execute_command(self, command: int, sql: bytes | str) -> None:
        if self.answer_left is not None:
            self.answer_left = ANSWER_BYTES  # what comes answers this command
        if command == COMMAND.COM_QUERY:
            note_question(self, f"{self.host}:{self.port}", sql)
        super()._execute_command(command, sql)  # type: ignore[misc]  # not in the stubs

    def query_together(self, statements: Sequence[bytes]) -> None:
        """Send statements in one packet, and read the answer to the first; a long last one is not copied for that."""
        connection = cast(Any, self)
        *others, last = statements
        head = b"".join([part for each in others for part in (each, b";")])
        size = 1 + len(head) + len(last)
        unread = connection._result is not None and connection._result.has_next
        if len(last) < _LONG or size >= MAX_PACKET_LEN or unread or not connection._sock:
            connection.query(head + last if head else last)
            return
        if self.answer_left is not None:
            self.answer_left = ANSWER_BYTES
        note_question(self, f"{self.host}:{self.port}", head or last)
        connection._result = None
        connection._write_bytes(struct.pack("<iB", size, COMMAND.COM_QUERY) + head)
        connection._write_bytes(last)
        connection._next_seq_id = 1
        connection._affected_rows = connection._read_query_result()

    @property
    def server_public_key(self) -> bytes | None:
        """The key that the password is encrypted with where there is no TLS."""
        return self._server_key

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        # The driver sets what the server has sent, right before it encrypts.
        if key is not None and not self.takes_server_key:
            raise UnsafeLoginError(
                "the connection has no TLS, and the server wants the password encrypted with a key of its own",
                "turn TLS on at the server, and name its CA (`ssl-ca` under `security`); if no one else can be at this"
                " address or in between, `get-server-public-key: true` under `security` takes the key that it sends",
            )
        self._server_key = key

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: object = None) -> Any:
        if plugin_name in _IN_CLEAR and not (self._verifies and cast(Any, self)._secure):
            raise UnsafeLoginError(
                f"the server asks for the password in clear ({plugin_name.decode()}), and no CA vouches for the server",
                "name the CA of the server's certificate: `ssl-ca` under `security`",
            )
        if plugin_name == _OLD:
            raise _old_password()
        return super()._process_auth(plugin_name, auth_packet, handler)  # type: ignore[misc]  # not in the stubs

    def _request_authentication(self) -> None:
        try:
            super()._request_authentication()  # type: ignore[misc]  # not in the stubs
        except pymysql.err.OperationalError as error:
            if error.args[:1] == (_OLD_ASKED,):
                raise _old_password() from None
            raise


_HEAD: Final = 4  # of a packet
_KNOWN: Final = 64  # answers of one session


class _KnownAnswer(_Result):
    """The driver's answer to a question; columns that came before, byte by byte, are not taken apart again.

    Each batch of row events asks for the columns of its tables (`dm.changes.event_form`).
    """

    def _get_descriptions(self) -> None:
        connection, made = cast(ServerConnection, self.connection), cast(Any, self)
        arrived = connection.columns_arrived(made.field_count)
        if arrived is None:
            return self._described()
        packets, size = arrived
        known, key = connection.known_columns, (bool(cast(Any, connection).use_unicode), packets)
        if key in known:
            connection.pass_over(len(packets), size)
            made.fields, made.converters, made.description = known[key]
            return None
        self._described()
        if len(known) >= _KNOWN:
            known.clear()
        known[key] = made.fields, made.converters, made.description
        return None

    def _described(self) -> None:
        super()._get_descriptions()  # type: ignore[misc]  # not in the stubs


def _old_password() -> UnsafeLoginError:
    return UnsafeLoginError(
        "the server asks for the password as servers before 4.1 did (mysql_old_password), which tells it to anyone",
        "give the account another method at the server: SET old_passwords = 0, then SET PASSWORD, or ALTER USER",
    )


def open_connection(
    endpoint: Endpoint,
    *,
    connect_timeout: float,
    login_timeout: float,
    read_timeout: float | None,
    client_flag: int = 0,
) -> ServerConnection:
    """Log in; raises one of UNSOUND, for which `login_error` has the error that a person reads.

    Timeouts are seconds without a byte: of the login, and of what comes after it, None for no end.
    """
    security = endpoint.security
    # The driver takes a text for Latin-1.
    password = endpoint.password.get_secret_value().encode(errors="surrogatepass")
    connection = ServerConnection(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=cast(Any, password),
        charset=CHARSET,
        collation=COLLATION,
        autocommit=None,
        connect_timeout=connect_timeout,
        read_timeout=login_timeout,
        write_timeout=login_timeout,
        local_infile=False,
        client_flag=client_flag,
        program_name="dm",
        ssl=cast(Any, security.context() if security else None),
        defer_connect=True,
    )
    connection.takes_server_key = security is not None and security.get_server_public_key
    connection.connect()
    raw: Any = connection
    raw._read_timeout = raw._write_timeout = read_timeout
    return connection


def words_of(error: BaseException, joint: str = ": ") -> str:
    """What an exception says, without what it may hold of ours."""
    if not isinstance(error, pymysql.err.Error | OSError | RuntimeError):
        return type(error).__name__
    return joint.join(str(arg) for arg in error.args)[:LONGEST_WORDS] or type(error).__name__


def login_error(error: BaseException, endpoint: Endpoint, role: str) -> DMError | None:
    """The error for a login that is not to be tried again as it is; None where the two sides judge by themselves."""
    address, user = endpoint.address, endpoint.user
    if isinstance(error, UnsafeLoginError):
        return DMError("login-unsafe", role=role, address=address, user=user, what=error.what, way=error.way)
    refused = getattr(error, "original_exception", error)
    if not isinstance(refused, ssl.SSLCertVerificationError):
        return None
    why, way = _certificate(refused, endpoint)
    return DMError("certificate-refused", role=role, address=address, why=why, way=way, cause=words_of(error))


def garbled(error: BaseException, address: str) -> DMError:
    """The error for an answer that no server gives."""
    return DMError("server-answer-garbled", address=address, what=words_of(error))


def is_garbled(error: BaseException) -> bool:
    """Whether an exception says that the peer does not answer as a server does."""
    return isinstance(error, AnswerTooLongError) or (
        isinstance(error, GARBLED) and not isinstance(error, pymysql.err.Error | OSError)
    )


def _certificate(error: ssl.SSLCertVerificationError, endpoint: Endpoint) -> tuple[str, str]:
    code = getattr(error, "verify_code", None)
    if code is None:  # the socket's own look at the common name
        return str(error.args[-1]), "if this is the server that you mean, list that name in `cert-allowed-cn`"
    if code not in _WRONG_NAME:
        return error.verify_message, "name the CA that has signed the server's certificate: `ssl-ca` under `security`"
    names = _presented(endpoint)
    found = f"it is for {', '.join(names)}" if names else "it names no host"
    way = (
        "connect to a name that the certificate has, or list its common name in `cert-allowed-cn` under `security`,"
        " beside `ssl-ca`"
    )
    return f"the name {endpoint.host} is not in it; {found}", way


def _presented(endpoint: Endpoint) -> list[str]:
    """The names in the server's certificate, whose CA is the right one; read by a connection that does not log in."""
    security = endpoint.security
    context = security.context() if security else None
    if context is None:
        return []
    reader, names = naming(context)
    connection = ServerConnection(
        host=endpoint.host, port=endpoint.port, user=endpoint.user, connect_timeout=5, read_timeout=5,
        ssl=cast(Any, reader), defer_connect=True,
    )  # fmt: skip
    with suppress(*UNSOUND):  # it always ends so, once the names are known
        connection.connect()
    return names


def unproven(endpoint: Endpoint) -> bool:
    """Whether whoever answers at the address, or is in between, could be told the password."""
    if not endpoint.password.get_secret_value() or (endpoint.security and endpoint.security.verifies):
        return False
    try:
        return not ipaddress.ip_address(endpoint.host).is_loopback
    except ValueError:
        return endpoint.host.lower() != "localhost"
