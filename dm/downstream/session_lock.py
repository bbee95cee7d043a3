"""Named locks that a session holds until it ends, and their holders.

MySQL and MariaDB have such locks (GET_LOCK). TiDB has the functions, but not reliable locks: a lock is a row inserted
by a transaction of the server's own, which the server gives up after an hour (`max-txn-ttl`), and IS_USED_LOCK does not
tell the holder. There a session shows what it holds in its alias (`tidb_session_alias`, since 7.4), which the list of
sessions has until the session has ended. If two sessions take a name at the same time, each sees the other, and neither
gets it. A session has one alias. A session that already has a name and takes another only makes sure that no other
session holds that name.

A TiDB asks each server of its cluster, itself included, through the status ports (`status-port`, closed with
`report-status = false`). If a server does not answer, there is a warning after 40 s, and the list lacks its sessions.
Such a list proves nothing. So the query has a time limit, and a warning is an error. The limit has two clocks: that of
the query to each server, whose end is a warning, and that of the statement, whose end is an error (3024). Either way,
and for any other sign that parts of the cluster do not answer, the caller gets the same error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.session.answers import reads_answers

_CLUSTER_SECONDS: Final = 10  # for all servers of a TiDB to tell their sessions
_UNANSWERED: Final = ("transaction-aborted", "target-unavailable")  # the question was ended, or parts were not reached


@reads_answers
def take(connection: TargetConnection, name: str, seconds: int = 0) -> bool:
    """Take the name unless another session holds it; waits at most this long."""
    if connection.dialect.locks_by_name:
        return bool(connection.query("SELECT GET_LOCK(%s, %s)", (name, seconds))[0][0] == 1)
    held = _alias(connection)
    if held not in ("", name):
        return not holders(connection, [name])
    _say(connection, name)
    found = holders(connection, [name])
    if connection.connection_id not in found:
        raise _unseen(connection, "the session that asked is not in the list")
    if len(found) == 1:
        return True
    _say(connection, held)
    return False


def release(connection: TargetConnection, name: str) -> None:
    """Release the name."""
    if connection.dialect.locks_by_name:
        connection.query("SELECT RELEASE_LOCK(%s)", (name,))
    elif _alias(connection) == name:
        _say(connection, "")


@reads_answers
def holders(connection: TargetConnection, names: Sequence[str]) -> frozenset[int]:
    """The server's numbers of the sessions that hold any of the names."""
    places = ", ".join(["%s"] * len(names))
    if not connection.dialect.locks_by_name:
        rows = _of_cluster(connection, "id", f"session_alias IN ({places})", tuple(names))
        return frozenset(int(str(number)) for (number,) in rows)
    asked = ", ".join(["IS_USED_LOCK(%s)"] * len(names))
    found = connection.query(f"SELECT {asked}", tuple(names))[0]
    return frozenset(int(number) for number in found if number is not None)


@reads_answers
def runs_statement(connection: TargetConnection, session: int) -> bool:
    """Whether a session of the target is executing a statement."""
    if not connection.dialect.locks_by_name:  # whose SHOW PROCESSLIST tells of one server of several
        commands = _of_cluster(connection, "command", "id = %s", (session,))
        return any(str(command) == "Query" for (command,) in commands)
    listed = connection.query("SHOW FULL PROCESSLIST")
    return any(int(row[0]) == session and str(row[4]) == "Query" for row in listed)


def words_while_asking(connection: TargetConnection) -> str:
    """What a run waits for while it looks for earlier sessions; empty if one server knows all of them."""
    if connection.dialect.locks_by_name:
        return ""
    return (
        f"all TiDB servers of {connection.address} are asked for the sessions of earlier runs, by their status ports"
        " (`information_schema.cluster_processlist`)"
    )


def demand_all_seen(connection: TargetConnection) -> None:
    """Raise DMError if a TiDB does not show the sessions of all servers of its cluster."""
    if not connection.dialect.locks_by_name:
        _of_cluster(connection, "id", "id = 0", ())


@reads_answers
def _of_cluster(
    connection: TargetConnection, column: str, condition: str, parameters: tuple[object, ...]
) -> Sequence[tuple[object, ...]]:
    """A column of the sessions of all TiDB servers; raises DMError where one of them has not answered."""
    limit = f"/*+ MAX_EXECUTION_TIME({_CLUSTER_SECONDS * 1000}) */"
    try:
        rows = connection.query(
            f"SELECT {limit} {column} FROM information_schema.cluster_processlist WHERE {condition}", parameters
        )
    except DMError as error:
        if error.name in _UNANSWERED:
            raise _unseen(connection, error.cause).numbered(error.server_errno) from error
        raise
    warnings = connection.query("SHOW WARNINGS")
    if warnings:
        raise _unseen(connection, "; ".join(str(message) for *_, message in warnings))
    return rows


def _unseen(connection: TargetConnection, cause: str) -> DMError:
    return DMError("tidb-sessions-unseen", address=connection.address, seconds=_CLUSTER_SECONDS, cause=cause)


@reads_answers
def _alias(connection: TargetConnection) -> str:
    return str(connection.query("SELECT @@SESSION.tidb_session_alias")[0][0])


def _say(connection: TargetConnection, alias: str) -> None:
    connection.execute("SET SESSION tidb_session_alias = %s", (alias,))
