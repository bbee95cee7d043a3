"""One statement without the strict modes: for a row that the source holds and a strict session refuses.

A strict mode refuses more than values that do not fit. The source's session may have had no strict mode. Then the
source may hold, and the target has to hold:

- A FLOAT(M,D) beyond the largest number with that many digits. A FLOAT(10,0) stores 9999999999 as the nearest FLOAT,
  10000000000, and that number is out of range (1264).
- A generated column whose expression warns: a zero date plus a month, a text cut short. It is NULL or cut, and the
  columns from which it is computed keep their values (1292, 1406, 1365).

So the statement is run again without the strict modes, which alone would be lossy. It counts only if the target then
has exactly one more row that equals the source's in each column, byte by byte (`dm.changes.comparison`), and if there
were no other warnings: a character that a conversion loses (1366) is lost in the comparison as well.

Only the strict modes are removed. Others may decide what the target computes for the row, such as those of the source's
server (`dm.changes.computing`), and the user's stay.

In our usual mode MySQL takes a mode with the statement (SET_VAR), and so does MariaDB (SET STATEMENT). TiDB ignores
such a hint in a statement that writes, and MySQL warns about some modes each time, where warnings are counted. So there
the session's mode is changed for the statement, and restored after it in any case.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final

from dm.changes.keys import completed
from dm.changes.row_change import RowChange
from dm.changes.statement import ApplyStatement, find
from dm.downstream.connection import TargetConnection
from dm.downstream.statements import StatementResult
from dm.errors import DMError
from dm.mysql.binlog.value import ABSENT, Row
from dm.session import state
from dm.session.answers import reads_answers


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


@reads_answers
def _leniently(connection: TargetConnection, statement: ApplyStatement) -> tuple[StatementResult, list[int]]:
    """Run a statement without the strict modes; gives the numbers of its warnings as well."""
    with lenient(connection):
        outcome = connection.run(statement.sql)
        return outcome, [int(row[1]) for row in connection.query("SHOW WARNINGS") if row[0] != "Note"]


@reads_answers
def _count(connection: TargetConnection, change: RowChange, after: Row) -> int:
    """How many rows the target has that are the change's."""
    plan = change.plan
    conditions = [compare(after[at]) for at, compare in plan.comparisons if after[at] is not ABSENT]
    if plan.keyed:
        conditions.append(find(plan, after if change.before is None else completed(after, change.before)))
    sql = b"SELECT COUNT(*) FROM " + plan.target.sql.encode() + b" WHERE " + b" AND ".join(conditions)
    return int(connection.query(sql)[0][0])
