"""What every session of dm sets, at source and target: the one place.

A server's global variables are its administrator's, and each new session begins with them. Many change what a session
reads or writes: with ANSI_QUOTES a SHOW CREATE TABLE has other quotes, with `sql_select_limit` an answer ends early.
So no session relies on a default. Whatever changes what dm reads or writes is set here, when the session begins.

A session *reads* (all at the source; those of comparisons at the target) or *writes* (the others at the target).

- time_zone +00:00: TIMESTAMP values come and go as UTC.
- sql_mode: never a mode in which quotes and backslashes mean something else than to us; never PAD_CHAR_TO_FULL_LENGTH,
  since row comparison relies on CHAR values without padding. Zero and invalid dates that the source could hold pass.
  A session that writes is strict, so that a value that doesn't fit stops the task; 0 stays 0 in an AUTO_INCREMENT
  column.
- utf8mb4 with a named collation, so that it doesn't depend on the server's version. It stands in the first statement,
  not in one of the driver's own: each statement is a round trip, and a task's start has thirty sessions.
- Isolation: a session that reads never shows rows that are rolled back afterwards. One that writes takes no gap locks.
  Neither is read-only.
- unique_checks=1: a collision must be seen. (0 is allowed to delay or skip it.)
- Answers are whole (`sql_select_limit`, `group_concat_max_len`, `sql_big_selects`), of the present
  (`system_versioning_asof`), and take as long as they take (`max_execution_time`, `max_statement_time`).
- Words are English, and counts are as we read them (`lc_messages`, `sql_notes`, `sql_warnings`).
- Waits: a lane may have nothing to do for weeks, and a session that holds locks or a snapshot is silent while others
  read. Such a session is more than a way to the server (it holds the lane's lock).
- What expressions of a table depend on (`EXPRESSION_VARIABLES`) has the values of the source's server where a task
  writes (`dm.changes.computing`), else those of a server as its makers deliver it. A session that reads has the
  server's own: a server keeps, for all sessions, how the first one that opens a table computes its expressions. So a
  session of ours that had other digits or modes would change what the source's own sessions compute.
- DDL means what it says: `sql_if_exists`, `default_storage_engine`, `old_alter_table` (also `alter_algorithm`).

The user's `session` block comes on top, except for what exactness rests on (`FIXED`).

Left as the server has it: what a session may not change without a privilege, if the worst that it does is a refusal
(`sql_require_primary_key`, `innodb_strict_mode`); a wait after which dm tries again (`innodb_lock_wait_timeout`); what
only makes faster or slower; what a part of dm sets itself when it needs it (`collation_server` and more for DDL,
`slave_exec_mode` for row events). `LATER` has those that are set only where they differ, as far as the account may.

A variable that not every version has stands in an executable comment: the server itself decides, also behind a proxy
that greets with another version. `/*!` is for MySQL here: MariaDB leaves versions from 5.7 alone. TiDB takes any.

The question for a time zone's offsets, which tells zones apart whatever their names are.

SYSTEM is another zone on each machine, and a server names it by an abbreviation (CEST). So the offsets themselves are
asked for, week by week over the time that a TIMESTAMP has. Zones that differ change their offset on other days. Only
the weeks in which it changes are sent: each start of a task asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.mysql.dialect import Dialect, dialect, flavor_of
from dm.mysql.dialect.tidb import VARIABLES

Purpose = Literal["reads", "writes"]

CHARSET: Final = "utf8mb4"
COLLATION: Final = "utf8mb4_general_ci"

OTHER_QUOTES: Final = frozenset(
    {"NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"}
    | {"ANSI", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"}  # each has ANSI_QUOTES in it
)
"""Modes in which quotes and backslashes mean something else than to us."""

EXPRESSION_VARIABLES: Final = (
    *("time_zone", "sql_mode", "div_precision_increment", "lc_time_names", "default_week_format"),
    *("block_encryption_mode", "default_regex_flags", "old_mode"),
)
"""What the value of a generated column, a functional key or a CHECK depends on besides the row; not each server has
the last three."""

USUAL_MODE: Final = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"
"""Of a session that writes, unless the user or the source has other ones."""
_NEEDED_MODES: Final = ("NO_AUTO_VALUE_ON_ZERO",)
_FORBIDDEN_MODES: Final = OTHER_QUOTES | {"PAD_CHAR_TO_FULL_LENGTH"}
_TRADITIONAL: Final = "NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO"
"""What this name stands for besides the strict modes, as far as it concerns rows."""
_READING_MODE: Final = "ALLOW_INVALID_DATES"
_KEPT_BY_SERVERS: Final = frozenset({"div_precision_increment", "lc_time_names", "default_week_format"})
_READING_AS_THE_SERVER: Final = (
    f"CONCAT('{_READING_MODE}', IF(FIND_IN_SET('NO_UNSIGNED_SUBTRACTION', @@GLOBAL.sql_mode),"
    " ',NO_UNSIGNED_SUBTRACTION', ''))"
)
_ISOLATION: Final[dict[Purpose, str]] = {"reads": "REPEATABLE READ", "writes": "READ COMMITTED"}
_ALL_ROWS: Final = (1 << 64) - 1
_IDLE_SECONDS: Final = 2147483  # the largest value that every platform takes
_WAIT_SECONDS: Final = 86400
_VARIABLE: Final = re.compile(r"[a-z_][a-z0-9_]*")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")

# For every server of every version, a TiDB included; what else one heeds, `dm.mysql.dialect.tidb` has.
_ALWAYS: Final = {
    "autocommit": "1",
    "time_zone": "'+00:00'",
    "unique_checks": "1",
    "sql_select_limit": str(_ALL_ROWS),
    "sql_auto_is_null": "0",
    "completion_type": "0",
    "wait_timeout": str(_IDLE_SECONDS),
}
_WITHOUT_VERSIONS: Final = {"max_execution_time": "0"}  # at once: the question for the rest is a statement as well
# For every other one. MariaDB before 10.3.7 takes 0 for `old_alter_table` as well.
_BY_VERSION: Final = {
    "sql_quote_show_create": "1",
    "sql_big_selects": "1",
    "sql_safe_updates": "0",
    "sql_buffer_result": "0",
    "sql_notes": "1",
    "sql_warnings": "0",
    "lock_wait_timeout": str(_WAIT_SECONDS),
    "net_read_timeout": "600",
    "net_write_timeout": "3600",
    "group_concat_max_len": str(1 << 24),
    "max_sort_length": "1024",
    "div_precision_increment": "4",
    "default_week_format": "0",
    "lc_time_names": "'en_US'",
    "lc_messages": "'en_US'",
    "default_storage_engine": "'InnoDB'",
    "old_alter_table": "0",
}
# Since a version, as executable comments count it.
_MYSQL: Final = (
    (50706, "block_encryption_mode", "'aes-128-ecb'"),
    (50708, "max_execution_time", "0"),
    (50722, "show_create_table_verbosity", "0"),
    # Row events have the columns of keys that the server has made by itself; so does what is shown.
    (80030, "show_gipk_in_create_table_and_information_schema", "1"),
)
_MARIADB: Final = (
    (100101, "max_statement_time", "0"),
    (100101, "default_regex_flags", "''"),
    (100101, "old_mode", "''"),
    (100201, "check_constraint_checks", "1"),
    (100301, "idle_transaction_timeout", "0"),
    (100301, "idle_readonly_transaction_timeout", "0"),
    (100301, "idle_write_transaction_timeout", "0"),
    (100304, "system_versioning_asof", "DEFAULT"),
    (100502, "sql_if_exists", "0"),
    (100601, "old_mode", "'UTF8_IS_UTF8MB3'"),
    (110201, "character_set_collations", "''"),
)

FIXED: Final = frozenset(
    {"autocommit", "time_zone", "unique_checks", "names", "sql_auto_is_null", "sql_select_limit", "completion_type"}
    | {"transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only"}
    | {"character_set_client", "character_set_connection", "character_set_results", "collation_connection"}
    | {"sql_quote_show_create", "sql_safe_updates", "sql_notes", "sql_warnings"}
    | {"system_versioning_asof", "sql_if_exists", "show_gipk_in_create_table_and_information_schema"}
    | {"default_storage_engine", "old_alter_table", "alter_algorithm"}
    | {"div_precision_increment", "lc_time_names", "default_week_format", "default_regex_flags"}
    | {"foreign_key_checks"}  # decided by the task as a whole: the plan depends on it
)
"""Variables a `session` block can't change; what it says of them is left aside. So is `sql_mode` of one that reads."""

CLIENT_HEAD: Final = (
    b"SET NAMES utf8mb4;\nSET SESSION time_zone = '+00:00', foreign_key_checks = 0, unique_checks = 1,\n"
    b"  sql_mode = '" + USUAL_MODE.encode() + b"';\n"
)
"""What begins a file of statements for the `mysql` client, so that they mean there what they mean here."""

RECORDED: Final = (
    *("sql_mode", "time_zone", "transaction_isolation", "tx_isolation", "autocommit", "unique_checks"),
    *("foreign_key_checks", "character_set_client", "collation_connection", "lock_wait_timeout", "version"),
)
"""Variables that the status shows as the server has them; older and newer servers name the isolation differently."""


@dataclass(frozen=True, slots=True)
class Restricted:
    """A variable that some versions let only privileged accounts change for a session, and between what it may be."""

    name: str
    least: int
    most: int
    mysql: int = 0  # since this version; 0 for every server


LATER: Final = (
    Restricted("max_error_count", 64, 65535),  # a refused row is judged by its warnings
    Restricted("sql_generate_invisible_primary_key", 0, 0, 80030),  # the source's table has no such column
)
"""In the order of their versions."""


@dataclass(frozen=True, slots=True)
class SessionSetup:
    """How a session begins."""

    statements: tuple[str, ...]
    values: Mapping[str, str]  # what it has then, as far as it is known without asking; texts without quotes


def sql_mode(wanted: str | None) -> str:
    """The sql_mode of a session that writes: ours, or the user's with what must be in it and without what must not."""
    if wanted is None:
        return USUAL_MODE
    modes = [mode for mode in (part.strip().upper() for part in wanted.split(",")) if mode]
    modes = [mode for mode in modes if mode not in _FORBIDDEN_MODES]
    return ",".join([*modes, *(mode for mode in _NEEDED_MODES if mode not in modes)])


def lenient(mode: str) -> str:
    """The same mode for a session that takes what it can of each value."""
    modes = ",".join(_TRADITIONAL if each == "TRADITIONAL" else each for each in mode.split(","))
    return ",".join(each for each in modes.split(",") if not each.startswith("STRICT_"))


def opening(
    purpose: Purpose,
    greeting: str,
    block: Mapping[str, str],
    *,
    foreign_key_checks: bool = False,
    expressions: Mapping[str, str] = MappingProxyType({}),
) -> SessionSetup:
    """What a session begins with; `greeting` is what the server has called its version, `block` the user's.

    `expressions`: the source's values of what a target's expressions depend on, where they are not the usual ones.
    Raises DMError `session-variable-invalid`.
    """
    server = dialect(flavor_of(greeting))
    mode = sql_mode(block.get("sql_mode")) if purpose == "writes" else _READING_MODE
    settings = _ALWAYS | {"sql_mode": f"'{_quoted(mode)}'", "foreign_key_checks": str(int(foreign_key_checks))}
    settings |= _WITHOUT_VERSIONS if server.settled else _BY_VERSION
    if purpose == "writes":
        found = {
            name: value
            for name, value in expressions.items()
            if server.takes_collation_numbers or name != "lc_time_names"
        }
        settings |= {name: _literal(name, value) for name, value in found.items()}
    elif not server.settled:
        settings = {name: value for name, value in settings.items() if name not in _KEPT_BY_SERVERS}
        settings["sql_mode"] = _READING_AS_THE_SERVER
    # Of ASCII alone, which means the same in whatever the greeting has agreed on.
    first = f"SET NAMES {CHARSET} COLLATE {COLLATION}, " + ", ".join(
        f"SESSION {name} = {value}" for name, value in settings.items()
    )
    if not server.settled:
        first += "".join(f" /*!{since} , SESSION {name} = {value} */" for since, name, value in _MYSQL)
        first += "".join(f" /*M!{since} , SESSION {name} = {value} */" for since, name, value in _MARIADB)
    users = {name: _literal(name, value) for name, value in block.items() if _is_users(name, server)}
    statements = [first]
    if users:
        statements.append("SET " + ", ".join(f"SESSION {name} = {value}" for name, value in users.items()))
    statements.append(f"SET SESSION TRANSACTION ISOLATION LEVEL {_ISOLATION[purpose]}, READ WRITE")
    values = {name: value.strip("'") for name, value in settings.items()}
    values |= {"sql_mode": mode, "character_set_results": CHARSET}
    return SessionSetup(tuple(statements), values | {name: block[name] for name in users})


def _is_users(name: str, server: Dialect) -> bool:
    if name in FIXED or name == "sql_mode":
        return False
    return not name.startswith(VARIABLES) or (bool(server.settled) and name not in server.settled)


def _literal(name: str, value: str) -> str:
    """A numeric variable refuses text; every value in the file is text."""
    if not _VARIABLE.fullmatch(name):
        raise DMError("session-variable-invalid", variable=name)
    return value if _NUMBER.fullmatch(value) else f"'{_quoted(value)}'"


def later_asked(greeting: str) -> str:
    """What goes into a query that asks for LATER: each server answers for those that it has, which are the first."""
    if dialect(flavor_of(greeting)).settled:
        return ""
    return "".join(f" /*!{each.mysql} , @@{each.name} */" if each.mysql else f", @@{each.name}" for each in LATER)


def to_change(found: Sequence[Any], has: Mapping[str, str]) -> dict[str, int]:
    """What is to be changed of LATER, by what a server has answered; not what the user's block has set."""
    return {
        each.name: each.least
        for each, value in zip(LATER, found, strict=False)
        if not each.least <= int(value) <= each.most and each.name not in has
    }


def assignments(values: Mapping[str, str | int]) -> str:
    """The statement that gives variables of a session these values."""
    return "SET " + ", ".join(f"SESSION {name} = {_literal(name, str(value))}" for name, value in values.items())


def refused_variable(error: DMError, endpoint: Endpoint, role: str) -> DMError | None:
    """The error that names the variable of the user's block, and where it stands; None if it is about none of them.

    What the server refuses it names in quotes: "Unknown system variable 'x'" (1193), "Variable 'x' can't be set to the
    value of 'y'" (1231), "Incorrect argument type to variable 'x'" (1232), "Variable 'x' is a GLOBAL variable" (1229).
    """
    for name in re.findall(r"'(\w+)'", error.cause):
        if name.lower() in endpoint.session:
            place = endpoint.session_places.get(name.lower(), "")
            refused = DMError(
                "session-variable-refused", role=role, variable=name.lower(), place=place, cause=error.cause
            )
            return refused.numbered(error.server_errno)
    return None


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")


def question(server: Dialect) -> str:
    """The query for what a session has of the variables that are settled."""
    names = ", ".join(f"'{name}'" for name in server.settled)
    return f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})"


def corrections(server: Dialect, found: Mapping[str, str]) -> str:
    """The statement that puts right what differs; empty where nothing does."""
    changed = [
        f"SESSION {name} = '{value}'"
        for name, value in server.settled.items()
        if name in found and found[name].upper() != value.upper()
    ]
    return f"SET {', '.join(changed)}" if changed else ""


Offsets = tuple[tuple[int, int], ...]
"""A zone's offsets: since which week of 1970 how many minutes east. Empty: the zone is not known."""

WEEKS: Final = 3548  # from 1970 into January 2038
_PLAIN: Final = re.compile(r"([+-])(\d\d?):(\d\d)")


def offsets_question(zone: str) -> str:
    """The query for the minutes that a zone, an SQL expression, is east of UTC since which week; NULL: not known."""
    week = "x.d + 16 * y.d + 256 * z.d"
    digits = f"(SELECT 0 AS d{''.join(f' UNION ALL SELECT {digit}' for digit in range(1, 16))})"
    return (
        f"SELECT {week} AS since, {_east(week, zone)} AS east, {_east(f'{week} - 1', zone)} AS before_it"
        f" FROM {digits} x, {digits} y, {digits} z WHERE {week} < {WEEKS} HAVING since = 0 OR NOT east <=> before_it"
    )


def _east(week: str, zone: str) -> str:
    # No parentheses: to a TiDB `INTERVAL (` begins the function of that name (its grammar, parser.y).
    moment = f"'1970-01-08 12:00:00' + INTERVAL {week} WEEK"
    return f"TIMESTAMPDIFF(MINUTE, {moment}, CONVERT_TZ({moment}, '+00:00', {zone}))"


def offsets_of(rows: Iterable[tuple[Any, ...]]) -> Offsets:
    """The answer as the weeks in which the offset changes, each with its minutes; empty: the zone is not known."""
    found = sorted((int(week), east) for week, east, _ in rows)
    if any(east is None for _, east in found):
        return ()
    return tuple((week, int(east)) for week, east in found)


def offset_named(zone: str) -> Offsets:
    """The offset of a zone that is called by it; empty: it has another name."""
    found = _PLAIN.fullmatch(zone)
    if found is None:
        return ()
    minutes = int(found[2]) * 60 + int(found[3])
    return ((0, -minutes if found[1] == "-" else minutes),)


def offset_name(minutes: int) -> str:
    """What a zone is called that is always as many minutes east."""
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
