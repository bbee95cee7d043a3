"""Query events: a statement as text, and the session it ran in.

The session comes first as "status variables": codes in growing order (MariaDB 11.5 and later breaks that order), each
with its own length. An unknown code ends the reading, as in the server, because its length is unknown;
`QuerySession.complete` is then False. The same session bytes repeat all the time (every BEGIN), so they are parsed
once.

Codes and lengths: MySQL source, Query_event::Query_event_status_vars; MariaDB source, Query_log_event.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from dm.binlog.cursor import ByteCursor, Malformed
from dm.binlog.header import LOG_EVENT_THREAD_SPECIFIC_F, EventHeader
from dm.binlog.statement_text import from_structure, like_temporary, readings
from dm.errors import DMError

_FIXED = Struct(
    "<IIBHH"
)  # thread, execution seconds, length of the schema's name, error, length of the status variables
_SESSIONS_KEPT: Final = 512
_TOO_MANY_SCHEMAS: Final = 254  # OVER_MAX_DBS_IN_EVENT_MTS


@dataclass(slots=True)
class QuerySession:
    """The session variables logged with a statement, None if not logged; shared, never changed once read."""

    flags2: int | None = None  # bits of autocommit, foreign_key_checks, unique_checks, sql_auto_is_null
    sql_mode: int | None = None
    auto_increment: tuple[int, int] | None = None  # increment, offset
    charset: tuple[int, int, int] | None = None  # character_set_client, collation_connection, collation_server, as ids
    time_zone: str | None = None
    lc_time_names: int | None = None
    charset_database: int | None = None
    invoker: tuple[str, str] | None = None
    updated_schemas: tuple[str, ...] | None = None
    microseconds: int | None = None
    explicit_defaults_for_timestamp: bool | None = None
    xid: int | None = None  # of a DDL
    default_collation_for_utf8mb4: int | None = None
    sql_require_primary_key: int | None = None
    default_table_encryption: int | None = None
    # MariaDB 11.2: the collations that character_set_collations names, if the statement used it; by default numbers of
    charset_collations: tuple[tuple[int, int], ...] | None = None
    alter_flags: int | None = None  # MariaDB, binlog_alter_two_phase
    alter_start: int | None = None
    complete: bool = True
    schemas_unlisted: bool = False  # it used too many to list


@dataclass(slots=True)
class Query:
    """One statement logged as text."""

    schema: str
    sql: bytes
    session: QuerySession
    timestamp: int
    thread_id: int
    exec_time: int
    error_code: int
    uses_temporary: bool = False  # some of its tables are temporary ones of its session
    in_transaction: bool = False  # it stands between the begin and the end of one, as a CREATE TABLE .. SELECT does

    @property
    def readings(self) -> tuple[str, ...]:
        """The statement as text, twice where its character set is not told; raises DMError when it is invalid."""
        charset = self.session.charset
        return readings(self.sql, None if charset is None else charset[0], by_server=self.by_server)

    @property
    def by_server(self) -> bool:
        """Whether the server wrote it from a table's structure, as its form and a sign in the event say."""
        return from_structure(self.sql) if self.in_transaction else self.like_temporary

    @property
    def like_temporary(self) -> bool:
        """Whether the server wrote it for a CREATE TABLE .. LIKE a temporary table."""
        return self.uses_temporary and not self.in_transaction and like_temporary(self.sql)

    @property
    def text(self) -> str:
        """The statement as text; raises DMError when it is invalid, or may be one of two texts."""
        found = self.readings
        if len(found) > 1:
            raise DMError("statement-charset-unclear", statement=found[0], other=found[1])
        return found[0]

    @property
    def undecodable(self) -> DMError | None:
        """Why the statement is no valid text; None if it is."""
        try:
            _ = self.readings
        except DMError as error:
            return error
        return None

    @property
    def readable(self) -> str:
        """The statement's text; invalid bytes are escaped, and of two texts it is the client's."""
        try:
            return self.readings[0]
        except DMError:
            return self.sql.decode("utf-8", "backslashreplace")

    @property
    def sql_mode(self) -> int | None:
        """The sql_mode's bits."""
        return self.session.sql_mode

    @property
    def charset(self) -> tuple[int, int, int] | None:
        """Collation ids of client, connection and server."""
        return self.session.charset

    @property
    def time_zone(self) -> str | None:
        """The session's time zone."""
        return self.session.time_zone

    @property
    def default_collation_for_utf8mb4(self) -> int | None:
        """Collation id that utf8mb4 stood for."""
        return self.session.default_collation_for_utf8mb4

    @property
    def microseconds(self) -> int | None:
        """What follows the seconds of `timestamp`."""
        return self.session.microseconds

    @property
    def xid(self) -> int | None:
        """The transaction number of a DDL."""
        return self.session.xid


def _updated_schemas(cursor: ByteCursor) -> tuple[str, ...] | None:
    count = cursor.uint(1)
    if count == _TOO_MANY_SCHEMAS:
        return None
    return tuple(cursor.until_nul().decode() for _ in range(count))


def parse_session(raw: bytes) -> QuerySession:
    """Read status variables."""
    cursor = ByteCursor(raw)
    session = QuerySession()
    while cursor.left:
        code = cursor.uint(1)
        if code == 0:
            session.flags2 = cursor.uint(4)
        elif code == 1:
            session.sql_mode = cursor.uint(8)
        elif code == 2:  # the catalog with its NUL
            cursor.short_bytes()
            cursor.nul()
        elif code == 3:
            session.auto_increment = (cursor.uint(2), cursor.uint(2))
        elif code == 4:
            session.charset = (cursor.uint(2), cursor.uint(2), cursor.uint(2))
        elif code == 5:
            session.time_zone = cursor.short_bytes().decode()
        elif code == 6:  # the catalog
            cursor.short_bytes()
        elif code == 7:
            session.lc_time_names = cursor.uint(2)
        elif code == 8:
            session.charset_database = cursor.uint(2)
        elif code == 9:  # tables of a multi-table UPDATE
            cursor.take(8)
        elif code == 10:  # bytes the source's dump thread had written
            cursor.take(4)
        elif code == 11:
            session.invoker = (cursor.short_bytes().decode(), cursor.short_bytes().decode())
        elif code == 12:
            session.updated_schemas = _updated_schemas(cursor)
            session.schemas_unlisted = session.updated_schemas is None
        elif code in (13, 128):  # 128 is MariaDB's
            session.microseconds = cursor.uint(3)
        elif code == 16:
            session.explicit_defaults_for_timestamp = cursor.uint(1) != 0
        elif code in (17, 129):  # 129 is MariaDB's
            session.xid = cursor.uint(8)
        elif code == 18:
            session.default_collation_for_utf8mb4 = cursor.uint(2)
        elif code == 19:
            session.sql_require_primary_key = cursor.uint(1)
        elif code == 20:
            session.default_table_encryption = cursor.uint(1)
        elif code == 130:  # MariaDB: extra flags of the GTID; with COMMIT or ROLLBACK ALTER the number of its START
            flags = cursor.uint(1)
            session.alter_flags = flags
            if flags & 0x0C:
                session.alter_start = cursor.uint(8)
        elif code == 131:
            pairs = cursor.uint(1)
            session.charset_collations = tuple((cursor.uint(2), cursor.uint(2)) for _ in range(pairs))
        elif code == 255:  # MariaDB pads with these
            continue
        else:
            session.complete = False
            break
    return session


class _Sessions(dict[bytes, QuerySession]):
    """Sessions by their bytes."""

    def __missing__(self, raw: bytes) -> QuerySession:
        if len(self) >= _SESSIONS_KEPT:
            self.clear()
        session = parse_session(raw)
        self[raw] = session
        return session


known_sessions: Final = _Sessions()
"""What was read so far."""


def parse_query(data: bytes, at: int, end: int, header: EventHeader, *, more: int = 0) -> Query:
    """Read a query event's body, whose fixed part is `more` bytes longer than a plain query's."""
    if at + _FIXED.size + more > end:
        raise Malformed("it is shorter than its fixed part")
    thread_id, exec_time, schema_length, error_code, status_length = _FIXED.unpack_from(data, at)
    at += _FIXED.size + more
    schema_at = at + status_length
    sql_at = schema_at + schema_length + 1
    if sql_at > end or data[sql_at - 1]:
        raise Malformed("its schema's name does not end where it should")
    return Query(
        data[schema_at : sql_at - 1].decode(),
        data[sql_at:end],
        known_sessions[data[at:schema_at]],
        header.timestamp,
        thread_id,
        exec_time,
        error_code,
        bool(header.flags & LOG_EVENT_THREAD_SPECIFIC_F),
    )
