"""The state every target session is put into, whatever the server's defaults are.

Each setting is there for the exactness of rows:

- READ COMMITTED: no gap locks between workers that write neighbouring keys.
- unique_checks=1: a collision must be seen. (0 is allowed to delay or skip it.)
- time_zone +00:00: TIMESTAMP values come as UTC.
- sql_mode: strict, so that a value that doesn't fit stops the task; 0 stays 0 in an AUTO_INCREMENT column; zero and
  invalid dates that the source could hold pass. Never NO_BACKSLASH_ESCAPES: the literal encoder relies on escapes;
  never PAD_CHAR_TO_FULL_LENGTH: row comparison relies on CHAR values without padding; never ANSI_QUOTES, nor a mode
  that has it in it: SHOW CREATE TABLE would quote names like texts.
- utf8mb4 with a named collation, so that it doesn't depend on the server's version.
- sql_select_limit without an end: an answer that lacks rows looks like any other.
- completion_type: COMMIT neither begins another transaction nor ends the session.
- wait_timeout of weeks: a lane may have nothing to do for as long, and its session is more than a way to the server (it
  holds the lane's lock). A session that lost its process is ended by the next run.

The user's `session` block comes on top, except for what the above depends on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from dm.config.endpoint import Endpoint
from dm.errors import DMError

CHARSET: Final = "utf8mb4"
COLLATION: Final = "utf8mb4_general_ci"

_MODES: Final = ("STRICT_ALL_TABLES", "NO_AUTO_VALUE_ON_ZERO", "ALLOW_INVALID_DATES")
_NEEDED_MODES: Final = ("NO_AUTO_VALUE_ON_ZERO",)
OTHER_QUOTES: Final = frozenset(
    {"NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"}
    | {"ANSI", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"}  # each has ANSI_QUOTES in it
)
"""Modes in which quotes and backslashes mean something else than to us."""
_FORBIDDEN_MODES: Final = OTHER_QUOTES | {"PAD_CHAR_TO_FULL_LENGTH"}
_ALL_ROWS: Final = (1 << 64) - 1
_IDLE_SECONDS: Final = 2147483  # the largest value that every platform takes
_VARIABLE: Final = re.compile(r"[a-z_][a-z0-9_]*")

FIXED: Final = frozenset(
    {"autocommit", "time_zone", "transaction_isolation", "tx_isolation", "unique_checks", "names", "sql_auto_is_null"}
    | {"character_set_client", "character_set_connection", "character_set_results", "collation_connection"}
    | {"sql_select_limit", "sql_quote_show_create", "completion_type"}
    | {"foreign_key_checks"}  # decided by the task as a whole: the plan depends on it
)
"""Variables a `session` block can't change; what it says of them is left aside."""

CLIENT_HEAD: Final = (
    b"SET NAMES utf8mb4;\nSET SESSION time_zone = '+00:00', foreign_key_checks = 0, unique_checks = 1,\n"
    b"  sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,STRICT_ALL_TABLES';\n"
)
"""What begins a file of statements for the `mysql` client, so that they mean there what they mean here."""

RECORDED: Final = (
    *("sql_mode", "time_zone", "transaction_isolation", "tx_isolation", "autocommit", "unique_checks"),
    *("foreign_key_checks", "character_set_client", "collation_connection", "lock_wait_timeout", "version"),
)
"""Variables that the status shows as the server has them; older and newer servers name the isolation differently."""


def sql_mode(wanted: str | None) -> str:
    """The session's sql_mode: ours, or the user's with what must be in it and without what must not."""
    if wanted is None:
        return ",".join(_MODES)
    modes = [mode for mode in (part.strip().upper() for part in wanted.split(",")) if mode]
    modes = [mode for mode in modes if mode not in _FORBIDDEN_MODES]
    return ",".join([*modes, *(mode for mode in _NEEDED_MODES if mode not in modes)])


def session_statement(session: Mapping[str, str], *, foreign_key_checks: bool) -> str:
    """The SET statement that fixes a session; values of the user's block are quoted unless they are numbers."""
    settings = [
        "autocommit=1",
        "time_zone='+00:00'",
        "unique_checks=1",
        f"wait_timeout={_IDLE_SECONDS}",
        f"foreign_key_checks={int(foreign_key_checks)}",
        "sql_auto_is_null=0",
        f"sql_select_limit={_ALL_ROWS}",
        "completion_type=0",
        f"sql_mode='{_quoted(sql_mode(session.get('sql_mode')))}'",
    ]
    for name, value in session.items():
        if name in FIXED or name == "sql_mode":
            continue
        if not _VARIABLE.fullmatch(name):
            raise DMError("session-variable-invalid", variable=name)
        number = re.fullmatch(r"-?\d+(\.\d+)?", value)
        settings.append(f"{name}={value}" if number else f"{name}='{_quoted(value)}'")
    return "SET " + ", ".join(f"SESSION {setting}" for setting in settings)


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
