"""Statements of a transaction on their way to the target, and what is asked of the target once they are there.

As many are sent together as need no answer of the ones before. An attempt with grouped statements knows beforehand what
the target answers to each. Another answer, or a refusal, says nothing about which change is to blame: `Unexpected` ends
the attempt.

**Computed columns**: once the rows of a batch are written, the target is asked whether it has computed what the source
has. A STORED column over a TIMESTAMP has the value of the session that wrote the row. The target computes in the zone
of the source's server (`dm.changes.computing`). A session of the source in another zone has stored something else, and
no replica computes that. But the source's value is in the row's image, so the two are compared where the expression may
depend on the zone. Of a table without a key the question is for a row of the same values with another computed one. It
takes a pass over the table, unless an index finds one of the values.

A column of a unique key is compared even if it is VIRTUAL: the image has it. In safe mode a REPLACE removes the row
that holds the key, which is the right one only where target and source have computed the same.

**Without the strict modes** (`Lenient`): for a row that the source holds and a strict session refuses. A strict mode
refuses more than values that do not fit. The source's session may have had no strict mode. Then the source may hold,
and the target has to hold:

- A FLOAT(M,D) beyond the largest number with that many digits. A FLOAT(10,0) stores 9999999999 as the nearest FLOAT,
  10000000000, and that number is out of range (1264).
- A generated column whose expression warns: a zero date plus a month, a text cut short. It is NULL or cut, and the
  columns from which it is computed keep their values (1292, 1406, 1365).

So the statement is run again without the strict modes, which alone would be lossy. It counts only if the target then
has exactly one more row that equals the source's in each column, byte by byte (`dm.changes.row_keys`), and if there
were no other warnings: a character that a conversion loses (1366) is lost in the comparison as well.

Only the strict modes are removed. Others may decide what the target computes for the row, such as those of the source's
server (`dm.changes.computing`), and the user's stay.

In our usual mode MySQL takes a mode with the statement (SET_VAR), and so does MariaDB (SET STATEMENT). TiDB ignores
such a hint in a statement that writes, and MySQL warns about some modes each time, where warnings are counted. So there
the session's mode is changed for the statement, and restored after it in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final

from dm.changes.event_form import GUARD, LOOK
from dm.changes.keys import completed
from dm.changes.own_key_check import OwnKeyCheck
from dm.changes.plan import TablePlan
from dm.changes.row_bag import BagChange, Planned
from dm.changes.row_change import RowChange, by_plan, decode_all, plans_of, row_left
from dm.changes.statement import ApplyStatement, find, holds, row_of, shown
from dm.downstream.connection import TargetConnection
from dm.downstream.rows_by_hash import Lacking, NotByHash, carry_out
from dm.downstream.source_session_settings import TableSession
from dm.downstream.statements import StatementResult
from dm.downstream.written_at_both import as_before, lacks_values, looked_at
from dm.errors import DMError
from dm.mysql.binlog.value import ABSENT, Row
from dm.session import state
from dm.session.answers import reads_answers

# KILL QUERY, MariaDB's max_statement_time, TiDB's max_execution_time.
_ENDED_STATEMENT: Final = {1317, 1969, 3024}


class Unexpected(Exception):
    """A count of the grouped attempt was not the expected one, or a statement of it was refused."""

    def __init__(self, statement: Planned | None, why: str) -> None:
        super().__init__(why)  # the statement has rows in it, which belong in no traceback
        self.statement = statement  # None: it is not one of the changes'
        self.why = why


class OneLessByHash(Exception):
    """A table's rows are found otherwise from now on: the attempt may begin again."""


class Exchange:
    """Statements on their way to the server, as many together as need no answer of the ones before."""

    def __init__(self, connection: TargetConnection, *, guessed: bool) -> None:
        self._connection = connection
        self._guessed = guessed  # it is a grouped attempt: errors of statements are not those of the changes
        self.session = TableSession(connection)
        self._waiting: list[tuple[bytes, Callable[[StatementResult], None] | None, ApplyStatement | None]] = []

    def add(
        self,
        sql: bytes,
        answered: Callable[[StatementResult], None] | None = None,
        statement: ApplyStatement | None = None,
    ) -> None:
        """Send a statement with the others."""
        self._waiting.append((sql, answered, statement))

    def add_all(self, steps: Iterable[Planned]) -> int:
        """Do a grouped attempt; gives the number of statements. Raises Unexpected, at the latest from `flush`."""
        count = 0
        guarded = False  # the last one is a question that goes with the events after it
        for statement in steps:
            self._as_table(statement.changes[0].plan)
            if isinstance(statement, BagChange):
                count += self._together(statement)
                continue
            count += 1
            asks = statement.found or statement.not_found or statement.lenient
            if self._connection.checks_foreign_keys or asks:
                if not guarded:
                    self.flush()
                guarded = statement.sql.startswith((GUARD, LOOK))
                if guarded:
                    self.add(statement.sql, partial(_expect, statement), statement)
                else:
                    self._alone(statement)
            else:
                self.add(statement.sql, partial(_expect, statement), statement)
        return count

    def _as_table(self, plan: TablePlan) -> None:
        """What follows runs in the session that the table needs."""
        if plan.settings != self.session.now:
            self.flush()
            self.session.take(plan.settings)

    def demand_as_before(self, changes: Sequence[RowChange]) -> None:
        """Raise Unexpected where the target's rows may be others than the source's were; locks them."""
        for plan, some in looked_at(changes):
            self._as_table(plan)
            self.flush()
            if lacks_values(some) or not as_before(self._connection, plan, some):
                raise Unexpected(None, "the target has another row than the source had")

    def demand_computed(self, changes: Sequence[RowChange], failed: Callable[[RowChange], None] | None = None) -> None:
        """Raise DMError `computed-value-differs` where the target has computed what the source has not."""
        for check in computed_checks(changes):
            self._as_table(check.changes[0].plan)
            self.flush()
            if not self._connection.query(check.sql):
                continue
            for one in alone(check):
                if self._connection.query(one.sql):
                    change = one.changes[0]
                    if failed is not None:
                        failed(change)
                    raise computed_otherwise(change)

    def demand_own_keys(
        self, checks: Iterable[OwnKeyCheck], failed: Callable[[RowChange], None] | None = None, *, written: bool
    ) -> None:
        """Raise DMError `own-key-met` where a row goes, or has gone, for another by a key that only the target has."""
        for check in checks:
            self._as_table(check.plan)
            self.flush()
            met = (check.met_after if written else check.met_before)(self._connection.query)
            if met is not None:
                if failed is not None:
                    failed(met.change)
                raise met.error()

    def end(self) -> None:
        """The session has its own settings again, unless it is broken."""
        self.session.end()

    def _together(self, bag: BagChange) -> int:
        self.flush()
        try:
            return carry_out(self._connection, bag)
        except Lacking as lacking:
            raise Unexpected(bag, lacking.why) from None
        except NotByHash as reason:
            bag.hash.refuse(reason.why)
            raise OneLessByHash from None
        except DMError as error:
            if error.server_errno in _ENDED_STATEMENT:
                # It would take as long again; one row's statement may be short enough.
                bag.hash.refuse(error.cause)
            if error.retryable:
                raise
            raise Unexpected(bag, error.cause) from error

    def flush(self) -> None:
        """Have everything run, and look at the answers."""
        waiting, self._waiting = self._waiting, []
        outcomes: list[StatementResult] = []
        try:
            self._connection.run_all([sql for sql, _, _ in waiting], outcomes)
        except DMError as error:
            if error.retryable or not self._guessed:
                raise
            raise Unexpected(waiting[len(outcomes)][2], error.cause) from error
        for (_, answered, _), outcome in zip(waiting, outcomes, strict=True):
            if answered is not None:
                answered(outcome)

    def _alone(self, statement: ApplyStatement) -> None:
        self._connection.check_foreign_keys(not statement.changes[0].unchecked)
        matched = 0

        def answered(outcome: StatementResult) -> None:
            nonlocal matched
            _expect(statement, outcome)
            matched = outcome.matched

        with as_it_asks(self._connection, statement):
            self.add(statement.sql, answered, statement)
            self.flush()
        for follow in statement.found if matched else statement.not_found:
            self._alone(follow)


def _expect(statement: ApplyStatement, outcome: StatementResult) -> None:
    expected = statement.expected
    if (
        (expected.affected is not None and outcome.affected != expected.affected)
        or (expected.matched is not None and outcome.matched != expected.matched)
        or not warned(statement, outcome)
    ):
        raise Unexpected(statement, "the target answered otherwise than expected")
    wanted = expected.columns
    if wanted and wanted != tuple(name.lower() for name in outcome.columns[: len(wanted)]):
        raise Unexpected(statement, "the target's table has other columns than when it was looked at")
    if expected.key and expected.key != outcome.key:
        raise Unexpected(statement, "the target's table has another primary key than when it was looked at")


def warned(statement: ApplyStatement, outcome: StatementResult) -> bool:
    """Whether the warnings are as expected; an UPDATE that found no row wrote nothing, and others follow it."""
    wrote_nothing = bool(statement.not_found) and not outcome.matched
    return wrote_nothing or statement.expected.warnings in (None, outcome.warnings)


_ROWS = 200


@dataclass(frozen=True, slots=True)
class ComputedCheck:
    """The question about some rows of one table: it finds a row whose computed columns are not the source's."""

    sql: bytes
    changes: tuple[RowChange, ...]


def computed_checks(changes: Sequence[RowChange]) -> Iterator[ComputedCheck]:
    """The questions about the rows that these changes leave, and of which columns are to be compared."""
    if not any(plan.computed for plan in plans_of(changes)):
        return
    concerned = [change for change in changes if change.plan.computed]
    decode_all(concerned)
    left: dict[tuple[object, ...], RowChange] = {}
    for change in concerned:
        if change.before is not None and change.plan.keyed:
            left.pop(_key(change, change.before), None)
        if change.after is not None:
            left[_key(change, row_left(change))] = change
    for of_plan in by_plan(left.values()):
        for at in range(0, len(of_plan), _ROWS):
            some = of_plan[at : at + _ROWS]
            found = dict.fromkeys(map(_condition, some))
            conditions = [condition for condition in found if condition is not None]
            if conditions:
                table = some[0].plan.target.sql.encode()
                sql = b"SELECT 1 FROM " + table + b" WHERE " + b" OR ".join(conditions) + b" LIMIT 1"
                yield ComputedCheck(sql, tuple(some))


def alone(check: ComputedCheck) -> Iterator[ComputedCheck]:
    """The question about each of the rows."""
    for change in check.changes:
        yield from computed_checks([change])


def computed_otherwise(change: RowChange) -> DMError:
    """The error for the row of a change."""
    plan, row = change.plan, row_left(change)
    stored = ", ".join(f"{column.target.name} = {shown(row[column.at])}" for column, _ in plan.computed)
    virtual = all(column.target.generated == "virtual" for column, _ in plan.computed)
    name = "computed-key-differs" if virtual else "computed-value-differs"
    key = row_of(change) or ", ".join(f"{column.target.name} = {shown(row[column.at])}" for column in plan.columns)
    return DMError(name, table=plan.target, key=key, stored=stored)


def _key(change: RowChange, row: Row) -> tuple[object, ...]:
    if not change.plan.keyed:
        return (id(change),)
    return (change.plan.target, *(row[column.at] for column in change.plan.row_key))


def _condition(change: RowChange) -> bytes | None:
    row = row_left(change)
    columns = [compare(row[column.at]) for column, compare in change.plan.computed if row[column.at] is not ABSENT]
    if not columns:
        return None
    plan = change.plan
    if plan.keyed:
        found = holds(plan, plan.row_key, row)
    else:
        found = b" AND ".join([compare(row[at]) for at, compare in plan.computed_of])
    return b"(" + found + b" AND (" + b" AND ".join(columns) + b") IS NOT TRUE)"


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
