"""What an upstream server is, where its binlog stands, and sessions that must be on that very server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.dialect import Dialect, Flavor, dialect, flavor_of
from dm.mysql.schema.charset import collations_query
from dm.mysql.schema.literal_bytes import structure_text
from dm.mysql.sql.context import version_number
from dm.position import Position
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, connect, fetch, set_variables

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server variables that replication depends on."""

    flavor: Flavor
    version_text: str
    version: int  # 80036 for 8.0.36, the form of executable comments
    server_uuid: str
    server_id: int
    log_bin: bool
    binlog_format: str
    binlog_row_image: str
    binlog_row_metadata: str  # "" if the server has no such variable
    binlog_checksum: str
    gtid_mode: bool
    gtid_ordered: bool  # numbers only grow, per domain: always on MySQL, where they form sets; MariaDB's strict mode
    lower_case_table_names: int
    time_zone: str
    system_time_zone: str  # the server's name for the zone SYSTEM, determined at its start
    sql_mode: str
    utf8_is_utf8mb3: bool  # of its global old_mode; a session's own choice is not logged
    explicit_timestamps: bool  # explicit_defaults_for_timestamp of the server, for events that do not tell it
    logs_cascades: bool  # the binlog contains what foreign keys do

    @property
    def base_flavor(self) -> str:
        """The name for people."""
        return self.dialect.title

    @property
    def dialect(self) -> Dialect:
        """What the server has."""
        return dialect(self.flavor, self.version)


_WANTED = (
    "version",
    "server_uuid",
    "server_id",
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_checksum",
    "gtid_mode",
    "gtid_strict_mode",
    "gtid_domain_id",
    "lower_case_table_names",
    "time_zone",
    "system_time_zone",
    "sql_mode",
    "old_mode",
    "explicit_defaults_for_timestamp",
    "innodb_native_foreign_keys",
)

UTF8_IS_UTF8MB3: Final = "UTF8_IS_UTF8MB3"
"""The word in MariaDB's old_mode without which utf8 means utf8mb4."""


@reads_answers
def _variables(connection: Connection, wanted: Iterable[str]) -> dict[str, str]:
    names = ", ".join(f"'{name}'" for name in wanted)
    rows = fetch(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    return {str(name).lower(): str(value) for name, value in rows}


def _uuid(found: Mapping[str, str]) -> str:
    """What identifies a server."""
    if not dialect(flavor_of(found["version"])).has_server_uuid:
        # DM names such a server by its domain and server id.
        return f"{int(found['gtid_domain_id'])}-{int(found['server_id'])}"
    uuid = found["server_uuid"].lower()
    if not _UUID.fullmatch(uuid):  # it becomes the name of a directory
        raise ValueError(f"server_uuid = {uuid!r}")
    return uuid


@reads_answers
def read_server_uuid(connection: Connection) -> str:
    """Ask the server for its identity."""
    return _uuid(_variables(connection, ("version", "server_uuid", "server_id", "gtid_domain_id")))


@reads_answers
def read_facts(connection: Connection) -> ServerFacts:
    """Ask the server for its facts."""
    found = _variables(connection, _WANTED)
    text = found["version"]
    version = version_number(text)
    flavor = flavor_of(text)
    server = dialect(flavor, version)
    return ServerFacts(
        flavor=flavor,
        version_text=text,
        version=version,
        server_uuid=_uuid(found),
        server_id=int(found["server_id"]),
        log_bin=found.get("log_bin", "OFF") == "ON",
        binlog_format=found.get("binlog_format", "ROW"),
        binlog_row_image=found.get("binlog_row_image", "FULL"),
        binlog_row_metadata=found.get("binlog_row_metadata", ""),
        binlog_checksum=found.get("binlog_checksum", "NONE"),
        gtid_mode=server.gtids_have_domains or found.get("gtid_mode", "OFF") == "ON",
        gtid_ordered=not server.gtids_have_domains or found.get("gtid_strict_mode", "OFF") == "ON",
        lower_case_table_names=int(found.get("lower_case_table_names", "0")),
        time_zone=found["time_zone"],
        system_time_zone=found.get("system_time_zone", ""),
        sql_mode=found["sql_mode"],
        utf8_is_utf8mb3=not server.chooses_utf8 or UTF8_IS_UTF8MB3 in found.get("old_mode", UTF8_IS_UTF8MB3),
        # A server without this variable behaves as if it were OFF.
        explicit_timestamps=found.get("explicit_defaults_for_timestamp", "OFF") == "ON",
        logs_cascades=server.logs_cascades and found.get("innodb_native_foreign_keys", "OFF") != "ON",
    )


@reads_answers
def collation_names(connection: Connection, facts: ServerFacts) -> dict[int, str]:
    """The server's collations by their numbers in the binlog."""
    query = collations_query(facts.flavor, facts.version)
    return {int(number): _text(name) for number, name in fetch(connection, query)}


@reads_answers
def executed_gtids(connection: Connection, facts: ServerFacts) -> GtidSet:
    """The set of everything in the server's binlog, purged parts included."""
    # The highest number of each domain. gtid_binlog_pos has the last one, which may be lower without strict mode.
    variable = "@@global.gtid_binlog_state" if facts.dialect.gtids_have_domains else "@@global.gtid_executed"
    return GtidSet.parse(str(fetch(connection, f"SELECT {variable}")[0][0] or ""), facts.flavor)


@reads_answers
def purged_gtids(connection: Connection, facts: ServerFacts) -> GtidSet:
    """The set that the server can no longer send; unknown and empty on MariaDB."""
    if facts.dialect.gtids_have_domains:
        return GtidSet.empty("mariadb")
    return GtidSet.parse(str(fetch(connection, "SELECT @@global.gtid_purged")[0][0] or ""), facts.flavor)


@reads_answers
def binlog_status(connection: Connection, facts: ServerFacts) -> tuple[str, int, str]:
    """File, offset and (MySQL) GTID set of the binlog's end, as one answer of the server."""
    modern = facts.dialect.says_binary_log_status
    rows = fetch(connection, "SHOW BINARY LOG STATUS" if modern else "SHOW MASTER STATUS")
    if not rows:
        raise DMError("binlog-disabled", address=f"{connection.host}:{connection.port}")
    return str(rows[0][0]), int(rows[0][1]), "" if facts.dialect.gtids_have_domains else str(rows[0][4] or "")


@reads_answers
def binlog_end(connection: Connection, facts: ServerFacts | None = None, *, exact: bool = True) -> Position:
    """The end of the server's binlog; with `exact` the GTID set is the one of exactly this offset."""
    facts = facts or read_facts(connection)
    file, offset, gtids = binlog_status(connection, facts)
    if not facts.dialect.gtids_have_domains:
        # Offset and Executed_Gtid_Set of one row are consistent: both are read under the binlog's end-position lock.
        executed = GtidSet.parse(gtids, "mysql")
        # Without gtid_mode=ON the last transaction may have no GTID.
        return Position(facts.server_uuid, file, offset, executed if facts.gtid_mode else executed.then_anonymous())
    if not exact:
        return Position(facts.server_uuid, file, offset, executed_gtids(connection, facts))
    found = fetch(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (file, offset))[0][0]
    return Position(facts.server_uuid, file, offset, GtidSet.parse(str(found or ""), "mariadb"))


@reads_answers
def binlog_files(connection: Connection) -> tuple[tuple[str, int], ...]:
    """Names and sizes of the server's binlog files, oldest first."""
    return tuple((str(row[0]), int(row[1])) for row in fetch(connection, "SHOW BINARY LOGS"))


_KEPT: Final = ("binlog_expire_logs_auto_purge", "binlog_expire_logs_seconds", "expire_logs_days")


@reads_answers
def binlog_kept_seconds(connection: Connection) -> int:
    """After how long the server purges binlog files by itself; 0 where it never does by age.

    MySQL 8 has seconds beside the days of earlier versions, of which one is 0 (Reference Manual, "Binary Logging
    Options and Variables"). MariaDB has had both as one value since 10.6.1, days with a fraction.
    """
    found = _variables(connection, _KEPT)
    if found.get("binlog_expire_logs_auto_purge", "ON") == "OFF":
        return 0
    seconds = int(found.get("binlog_expire_logs_seconds", "0"))
    return seconds or round(float(found.get("expire_logs_days", "0")) * 86400)


@reads_answers
def binlog_kept_bytes(connection: Connection) -> int:
    """How large all binlog files together may get before the server purges the oldest; 0 where they may be any size.

    Only a MariaDB has such a limit, since 11.4 (Replication and Binary Log System Variables).
    """
    return int(_variables(connection, ("max_binlog_total_size",)).get("max_binlog_total_size", "0"))


@reads_answers
def read_structure(connection: Connection, table: TableName) -> str:
    """The server's own CREATE TABLE text, as SQL."""
    server = dialect(flavor_of(str(cast(Any, connection).get_server_info())))
    query = f"SHOW CREATE TABLE {table.sql}"
    return structure_text(partial(_fetch_bytes, connection, query), partial(_results_in_binary, connection), server)


@reads_answers
def _fetch_bytes(connection: Connection, query: str) -> bytes:
    """The second column of the first row, as it came."""
    driver = cast(Any, connection)
    usual, driver.use_unicode = driver.use_unicode, False
    try:
        return cast(bytes, fetch(connection, query)[0][1])
    finally:
        driver.use_unicode = usual


@contextmanager
@reads_answers
def _results_in_binary(connection: Connection) -> Iterator[None]:
    before = _fetch_bytes(connection, "SELECT 0, @@SESSION.character_set_results").decode("ascii")
    set_variables(connection, {"character_set_results": "binary"})
    try:
        yield
    finally:
        if cast(Any, connection).open:
            set_variables(connection, {"character_set_results": before})


@reads_answers
def created_at(connection: Connection, table: TableName) -> int | None:
    """When a table was created or, at a MariaDB, its structure was changed last; seconds since 1970."""
    query = (
        "SELECT UNIX_TIMESTAMP(create_time) FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    )
    rows = fetch(connection, query, (table.schema, table.table))
    return None if not rows or rows[0][0] is None else int(rows[0][0])


@reads_answers
def has_table(connection: Connection, table: TableName) -> bool:
    """Whether a table of this name, not a view, exists now."""
    return any(kind != "VIEW" for kind in _kinds(connection, table))


@reads_answers
def has_view(connection: Connection, name: TableName) -> bool:
    """Whether a view of this name exists now."""
    return "VIEW" in _kinds(connection, name)


@reads_answers
def _kinds(connection: Connection, name: TableName) -> list[str]:
    query = "SELECT table_type FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    return [_text(kind) for (kind,) in fetch(connection, query, (name.schema, name.table))]


@reads_answers
def list_tables(connection: Connection) -> tuple[TableName, ...]:
    """Every table with its own rows that the user may see, ordered by name."""
    # MariaDB has its own type for tables with history. They can't be replicated; a task that lists one must learn of
    # it.
    rows = fetch(
        connection,
        "SELECT table_schema, table_name FROM information_schema.tables"
        " WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY 1, 2",
    )
    return tuple(TableName(_text(schema), _text(name)) for schema, name in rows)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


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
