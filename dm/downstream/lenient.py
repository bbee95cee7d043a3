"""A session without its strict modes, for one statement.

Only the strict modes go. The others may decide what the target computes of the row, such as those that the source's
server has (`dm.changes.computing`), and the user's are the user's.

In our usual mode MySQL takes a mode with the statement (SET_VAR), and so does MariaDB (SET STATEMENT). A TiDB does not
heed such a hint of a statement that writes, and a MySQL warns of some modes each time that it takes them, where
warnings are counted. So there the session changes for the statement, and is what it was after it, whatever came of it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from dm.changes.statement import ApplyStatement
from dm.downstream.connection import TargetConnection
from dm.session import state


def lenient(connection: TargetConnection) -> AbstractContextManager[None]:
    """Meanwhile the session takes what it can of each value; a session that broke is not put back."""
    return connection.as_set({"sql_mode": state.lenient(connection.has("sql_mode"))})


def as_it_asks(connection: TargetConnection, statement: ApplyStatement) -> AbstractContextManager[None]:
    """The session as a statement asks for it."""
    return lenient(connection) if statement.lenient else nullcontext()
