"""What the target's errors mean for a task: which heal by trying again, and what to tell the user about the rest.

Numbers are those of the server's error message reference (MySQL "Server Error Message Reference"; MariaDB "Error
Codes"). Messages of the server are handed on as the raw cause; they name keys and users, never passwords. The statement
is shown by its shape only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pymysql
from pymysql.constants import CR

from dm.errors import PRIVILEGE_ERRORS, REFUSED_STATEMENT, DMError, Grantee, nobody, privilege_missing
from dm.session.answers import shape
from dm.session.login import LONGEST_WORDS, AnswerTooLongError, garbled, is_garbled, words_of

# The transaction is gone, the session lives: the same transaction may simply be sent again.
ABORTED: Final = {
    1205: "lock wait timeout",
    1213: "deadlock",
    1317: "query interrupted",
    1412: "the table was changed, the transaction is to be tried again",
    1614: "transaction branch rolled back because of a deadlock",
    1969: "the statement took too long",  # MariaDB, max_statement_time
    3024: "the statement took too long",  # MySQL and TiDB, max_execution_time
    3100: "rolled back before the commit",
    3101: "rolled back by the group",
    3572: "a lock is held (NOWAIT)",
    # TiDB's own ("TiDB Error Codes and Troubleshooting"): conflicts of optimistic transactions, a schema that changed.
    8002: "write conflict",
    8005: "write conflict",
    8022: "conflict at the commit",
    8027: "the server's schema is out of date",
    8028: "the schema changed meanwhile",
    8229: "the transaction was open for too long",
    8253: "the server ended the statement as one that takes too much",  # of a resource group (QUERY_LIMIT)
    9006: "the transaction was open for too long",
    9007: "write conflict",
}

# The server says that COMMIT failed, and not what became of the transaction.
ERROR_DURING_COMMIT: Final = 1180

# The session is gone.
LOST: Final = frozenset(
    {CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR}
    | {
        1080,
        1152,
        1158,
        1159,
        1160,
        1161,
        1184,
        1927,
        4031,
    }  # aborted, network errors, killed, disconnected for idleness
)

# The server does not do it now.
UNAVAILABLE: Final = {
    1021: "disk full",
    1037: "out of memory",
    1038: "out of sort memory",
    1040: "too many connections",
    1041: "out of memory",
    1047: "the node is not ready",  # Galera
    1053: "server shutdown in progress",
    1077: "server shutdown",
    1079: "server shutdown",
    1114: "table full",
    1129: "host blocked",
    1135: "no thread",
    1203: "too many connections of this user",
    1206: "too many locks",
    1226: "the user's limit is reached",
    1290: "the server is read-only",
    1637: "too many transactions",
    1792: "the session is read-only",
    1836: "the server is read-only",
    1878: "a temporary file could not be written",
    3032: "the server is in offline mode",
    3168: "the server is not ready",
    # TiDB: time-outs of its parts, and regions that are moving.
    9001: "PD did not answer",
    9002: "TiKV did not answer",
    9003: "TiKV is busy",
    9004: "locks are being resolved",
    9005: "the region is unavailable",
    9008: "the store has too many requests",
    9010: "the store's command is stale",
    9011: "the store has no timestamps yet",
    8176: "the server's memory is used up",
    8252: "the resource group has used up its share",
}

# Where a row, a transaction or a statement is larger than TiDB takes.
_TOO_LARGE: Final = {
    8001: "tidb_mem_quota_query",
    8004: "txn-total-size-limit of the server's configuration",
    8025: "tidb_txn_entry_size_limit",
    8175: "tidb_mem_quota_query",
}

# TiDB's number for whatever has none, and what it says of parts of it that are ending, or can't be reached now.
_UNNUMBERED: Final = 1105
_PASSING: Final = re.compile(
    r"context canceled|context deadline exceeded|shutdown|shutting down|\bEOF\b|rpc error|connection refused|timeout",
    re.IGNORECASE,
)

# What can't be made, written, closed or renamed, with the system's reason: no space left, quota exceeded (Linux). The
# small numbers are those of the servers' file functions, whose errors are handed on as they are.
_FILE_TROUBLE: Final = frozenset({1, 3, 4, 20, 1004, 1005, 1006, 1025, 1026, 1030})
_NO_SPACE: Final = re.compile(r"\b(?:errno|errcode|error):? (?:28|122)\b", re.IGNORECASE)

DENIED: Final = frozenset({1045, 1130, 1698, 3118, 3955, 4151})
_DUPLICATE: Final = frozenset({1062, 1586})
# A row that the target's table does not take, by what of the table refuses it: each has a way out of its own.
_ROW_REFUSED: Final = {
    **dict.fromkeys((3819, 4025), "row-check-refused"),
    1690: "row-expression-failed",
    # NULL, out of range, truncated, no default, no such text or number, too long, no such geometry or moment, no JSON.
    **dict.fromkeys(
        (1048, 1263, 1264, 1265, 1292, 1364, 1366, 1367, 1406, 1411, 1416, 1441, 3140), "row-value-refused"
    ),
    1526: "row-partition-missing",
    **dict.fromkeys((1216, 1217, 1451, 1452), "row-reference-refused"),
}
_WRITES: Final = re.compile(rb"(?:SET STATEMENT .* FOR )?(?:INSERT|REPLACE|UPDATE|DELETE|LOAD|BINLOG) ", re.IGNORECASE)
_NO_TABLE: Final = 1146
_PACKET: Final = 1153


def number_of(error: BaseException) -> int:
    """The error's number, 0 where it has none."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def is_lost(error: BaseException) -> bool:
    """Whether the session can't be used any more."""
    if isinstance(error, pymysql.err.InterfaceError | OSError):
        return True
    # "Packet sequence number wrong": the stream of packets is out of step.
    return number_of(error) in LOST or (isinstance(error, pymysql.err.InternalError) and number_of(error) == 0)


def failure(
    error: Exception,
    address: str,
    sql: bytes = b"",
    *,
    user: str = "",
    role: str = "target",
    who: Callable[[], Grantee] = nobody,
) -> DMError:
    """The error of this package for an error of the driver."""
    found = _failure(error, address, sql, user=user, role=role, who=who)
    return found.numbered(number_of(error))


def _failure(
    error: Exception, address: str, sql: bytes, *, user: str, role: str, who: Callable[[], Grantee]
) -> DMError:
    number = number_of(error)
    cause = words_of(error, " ")
    if is_garbled(error):
        return garbled(error, address)
    if is_lost(error):
        return DMError("connection-lost", role=role, address=address, cause=cause)
    if number in ABORTED:
        return DMError("transaction-aborted", reason=ABORTED[number], cause=cause)
    if number in UNAVAILABLE:
        return DMError("target-unavailable", address=address, reason=UNAVAILABLE[number], cause=cause)
    if number in _FILE_TROUBLE and _NO_SPACE.search(cause):
        return DMError("target-unavailable", address=address, reason="disk full", cause=cause)
    if number == _UNNUMBERED and _PASSING.search(cause):
        return DMError("target-unavailable", address=address, reason="parts of it do not answer", cause=cause)
    if number in _TOO_LARGE:
        return DMError("target-limit", limit=_TOO_LARGE[number], statement=shape(sql), cause=cause)
    if number in PRIVILEGE_ERRORS:
        words, statement = str(error.args[-1])[:LONGEST_WORDS], sql.decode("utf-8", "replace")
        return privilege_missing(
            words, role=role, address=address, user=user, cause=cause, statement=statement, who=who
        )
    if number in DENIED:
        return DMError("access-denied", role=role, address=address, user=user, cause=cause)
    if number in _DUPLICATE:
        return DMError("duplicate-key", statement=shape(sql), cause=cause)
    if number == _PACKET:
        return packet_too_large(sql, cause)
    if number in _ROW_REFUSED and _WRITES.match(sql):
        return DMError(_ROW_REFUSED[number], statement=shape(sql), cause=cause)
    name = REFUSED_STATEMENT[sql.lstrip()[:7].upper().startswith((b"SELECT", b"SHOW "))]
    return DMError(name, role=role, statement=shape(sql), cause=cause)


def packet_too_large(sql: bytes, cause: str) -> DMError:
    """The error for a statement that the target does not take whole."""
    return DMError("packet-too-large", size=len(sql), statement=shape(sql), cause=cause)


def connect_failure(error: Exception, address: str, user: str, *, role: str = "target") -> DMError:
    """The error for an attempt to connect that failed."""
    if is_lost(error) or (is_garbled(error) and not isinstance(error, AnswerTooLongError)):
        cause = words_of(error, " ")
        failed = DMError("connection-failed", role=role, address=address, user=user, cause=cause)
        return failed.numbered(number_of(error))
    return failure(error, address, user=user, role=role)
