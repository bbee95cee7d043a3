"""A session without its strict modes, for one statement.

MySQL takes a mode with the statement (SET_VAR), and so does MariaDB (SET STATEMENT). A TiDB does not heed such a hint
of a statement that writes. So its session changes for the statement, and is what it was behind it, whatever came of the
statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from dm.changes.statement import LAX_MODE, ApplyStatement
from dm.downstream.connection import TargetConnection


@contextmanager
def lenient(connection: TargetConnection) -> Iterator[None]:
    """Meanwhile the session takes what it can of each value; a session that broke is not put back."""
    mode = str(connection.query("SELECT @@SESSION.sql_mode")[0][0])
    connection.execute("SET SESSION sql_mode = %s", (LAX_MODE,))
    try:
        yield
    finally:
        if connection.alive:
            connection.execute("SET SESSION sql_mode = %s", (mode,))


def as_it_asks(connection: TargetConnection, statement: ApplyStatement) -> AbstractContextManager[None]:
    """The session as a statement asks for it."""
    return lenient(connection) if statement.lenient else nullcontext()
