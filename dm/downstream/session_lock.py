"""Locks with a name that a session holds until it ends, and who holds them.

MySQL and MariaDB have them (GET_LOCK). TiDB has the functions, but they are no locks to rely on: a lock is a row that a
transaction of the server's own has inserted, which the server gives up after an hour (`max-txn-ttl`), and
IS_USED_LOCK does not tell whose it is. There a session says what it holds by its alias (`tidb_session_alias`, since
7.4), which the list of sessions shows until the session has ended. Two that take a name at once both see the other, and
neither has it. A session has one alias; one that has a name already and takes another only makes sure that nobody else
holds it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dm.downstream.connection import TargetConnection


def take(connection: TargetConnection, name: str, seconds: int = 0) -> bool:
    """Hold the name if nobody else does; waits so long for it."""
    if not connection.tidb:
        return bool(connection.query("SELECT GET_LOCK(%s, %s)", (name, seconds))[0][0] == 1)
    held = _alias(connection)
    if held not in ("", name):
        return not holders(connection, [name])
    _say(connection, name)
    if not holders(connection, [name]) - {connection.connection_id}:
        return True
    _say(connection, held)
    return False


def release(connection: TargetConnection, name: str) -> None:
    """Hold the name no longer."""
    if not connection.tidb:
        connection.query("SELECT RELEASE_LOCK(%s)", (name,))
    elif _alias(connection) == name:
        _say(connection, "")


def holders(connection: TargetConnection, names: Sequence[str]) -> frozenset[int]:
    """The server's numbers of the sessions that hold any of the names."""
    places = ", ".join(["%s"] * len(names))
    if connection.tidb:
        rows = connection.query(
            f"SELECT id FROM information_schema.cluster_processlist WHERE session_alias IN ({places})", tuple(names)
        )
        return frozenset(int(number) for (number,) in rows)
    asked = ", ".join(["IS_USED_LOCK(%s)"] * len(names))
    found = connection.query(f"SELECT {asked}", tuple(names))[0]
    return frozenset(int(number) for number in found if number is not None)


def runs_statement(connection: TargetConnection, session: int) -> bool:
    """Whether a session of the target executes something at the moment."""
    if connection.tidb:  # whose SHOW PROCESSLIST tells of one server of several
        query = "SELECT command FROM information_schema.cluster_processlist WHERE id = %s"
        return any(str(command) == "Query" for (command,) in connection.query(query, (session,)))
    listed = connection.query("SHOW FULL PROCESSLIST")
    return any(int(row[0]) == session and str(row[4]) == "Query" for row in listed)


def _alias(connection: TargetConnection) -> str:
    return str(connection.query("SELECT @@SESSION.tidb_session_alias")[0][0])


def _say(connection: TargetConnection, alias: str) -> None:
    connection.execute("SET SESSION tidb_session_alias = %s", (alias,))
