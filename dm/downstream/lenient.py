"""A session without its strict modes, for one statement.

Only the strict modes go. The others may decide what the target computes of the row, such as those that the source's
server has (`dm.changes.computing`), and the user's are the user's.

In our usual mode MySQL takes a mode with the statement (SET_VAR), and so does MariaDB (SET STATEMENT). A TiDB does not
heed such a hint of a statement that writes, and a MySQL warns of some modes each time that it takes them, where
warnings are counted. So there the session changes for the statement, and is what it was after it, whatever came of it.

A row that the source holds and a strict session refuses: written without the strict modes, then proved.

A strict mode refuses more than values that do not fit. A source whose session had none may hold, and the target is to
hold as well:

- A FLOAT(M,D) beyond the largest number of so many digits. A FLOAT(10,0) stores 9999999999 as the nearest FLOAT, which
  is 10000000000, and that number is out of range (1264).
- A generated column whose expression warns: a zero date plus a month, a text cut short. It is NULL or cut, and the
  columns that it is computed from hold what they held (1292, 1406, 1365).

So the statement is run again without the strict modes, which alone would be lossy. It counts only if the target then
has exactly one more row that equals the source's in each column, byte by byte (`dm.changes.comparison`), and if nothing
but such warnings came: a character that a conversion loses (1366) is lost in the comparison as well.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final

from dm.changes.keys import completed
from dm.changes.row_change import RowChange
from dm.changes.statement import ApplyStatement, find
from dm.downstream.connection import StatementResult, TargetConnection
from dm.errors import DMError
from dm.mysql.binlog.value import ABSENT, Row
from dm.session import state


def lenient(connection: TargetConnection) -> AbstractContextManager[None]:
    """Meanwhile the session takes what it can of each value; a session that broke is not put back."""
    return connection.as_set({"sql_mode": state.lenient(connection.has("sql_mode"))})


def as_it_asks(connection: TargetConnection, statement: ApplyStatement) -> AbstractContextManager[None]:
    """The session as a statement asks for it."""
    return lenient(connection) if statement.lenient else nullcontext()


# Out of range, cut short (number, text, any), not a date, division by zero, a date beyond the last one.
_OF_STRICT_MODES: Final = frozenset({1264, 1265, 1292, 1365, 1406, 1441})


def run_exactly(connection: TargetConnection, statement: ApplyStatement) -> StatementResult:
    """Run one statement of a change; raises DMError where the target can't hold exactly what the source holds."""
    try:
        with as_it_asks(connection, statement):
            return connection.run(statement.sql)
    except DMError as error:
        change = statement.changes[0]
        if error.server_errno not in _OF_STRICT_MODES or change.after is None:
            raise
        before = 0 if change.plan.keyed else _count(connection, change, change.after)
        outcome, numbers = _leniently(connection, statement)
        if not _OF_STRICT_MODES.issuperset(numbers) or _count(connection, change, change.after) != before + 1:
            raise
        return outcome


def _leniently(connection: TargetConnection, statement: ApplyStatement) -> tuple[StatementResult, list[int]]:
    """Run a statement without the strict modes; gives the numbers of its warnings as well."""
    with lenient(connection):
        outcome = connection.run(statement.sql)
        return outcome, [int(row[1]) for row in connection.query("SHOW WARNINGS") if row[0] != "Note"]


def _count(connection: TargetConnection, change: RowChange, after: Row) -> int:
    """How many rows the target has that are the change's."""
    plan = change.plan
    conditions = [compare(after[at]) for at, compare in plan.comparisons if after[at] is not ABSENT]
    if plan.keyed:
        conditions.append(find(plan, after if change.before is None else completed(after, change.before)))
    sql = b"SELECT COUNT(*) FROM " + plan.target.sql.encode() + b" WHERE " + b" AND ".join(conditions)
    return int(connection.query(sql)[0][0])
