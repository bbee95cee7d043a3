"""One batch of changes as one target transaction: in few statements if the target is as expected, else row by row.

With `compact` the changes of one row are merged first, for the attempt only.

The attempt with grouped statements checks every count. What differs, be it a count or an error, says nothing about
which change is to blame, so the transaction is rolled back, the lane's row with it, and everything is done again one
change at a time: that gives the serial result, or the error of the first change that can't be applied.

A change that is to be applied without a look at foreign keys says so; a statement never holds both kinds, since rows of
tables with checked foreign keys have statements of their own.

An UPDATE or DELETE that finds no row is such an error, unless the plan says to count it (`missing-row: count`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dm import faults
from dm.changes.compacted import compacted
from dm.changes.grouped import grouped
from dm.changes.row_change import RowChange
from dm.changes.statement import ApplyStatement, key_of, operation_of, row_statements
from dm.errors import DMError
from dm.target.connection import Outcome, TargetConnection


@dataclass(frozen=True, slots=True)
class Applied:
    """How a batch went."""

    changes: int
    statements: int
    row_by_row: bool  # the grouped attempt was not as expected
    missing: Sequence[RowChange] = ()  # those that found no row, where that is only counted
    compacted: int = 0  # changes that others of the same row stood for


class _Unexpected(Exception):
    """A count of the grouped attempt was not the expected one."""


def apply_batch(
    connection: TargetConnection,
    changes: Sequence[RowChange],
    *,
    first: Callable[[], None] | None = None,
    last: Callable[[], None] | None = None,
    failed: Callable[[RowChange], None] | None = None,
) -> Applied:
    """Apply the changes in one transaction; `first` is its first act (again after a roll-back), `last` its last.

    Raises DMError with the transaction rolled back, except for `commit-outcome-unknown`; `failed` is told which change
    it was, where one is to blame.
    """
    left = compacted(changes, limit=connection.statement_bytes)
    plan = grouped(left, limit=connection.statement_bytes)
    try:
        _transaction(connection, lambda: _run_grouped(connection, plan), first, last)
        return Applied(len(changes), len(plan), row_by_row=False, compacted=len(changes) - len(left))
    except _Unexpected:
        serial = _Serial(connection, failed)
        count = _transaction(connection, lambda: serial.apply(changes), first, last)
        return Applied(len(changes), count, True, serial.missing)


def apply_parts(
    connection: TargetConnection,
    parts: Callable[[], Iterable[Sequence[RowChange]]],
    *,
    first: Callable[[], None] | None = None,
    last: Callable[[], None] | None = None,
) -> Applied:
    """Apply changes that are too many to be held at once in one transaction; `parts` gives them, again if need be."""
    changes = merged = 0
    limit = connection.statement_bytes

    def grouped_parts() -> int:
        nonlocal changes, merged
        changes = merged = statements = 0
        for part in parts():
            left = compacted(part, limit=limit)
            changes += len(part)
            merged += len(part) - len(left)
            statements += _run_grouped(connection, grouped(left, limit=limit))
        return statements

    serial = _Serial(connection, None)

    def one_by_one() -> int:
        return sum(serial.apply(part) for part in parts())

    try:
        statements = _transaction(connection, grouped_parts, first, last)
        return Applied(changes, statements, row_by_row=False, compacted=merged)
    except _Unexpected:
        statements = _transaction(connection, one_by_one, first, last)
        return Applied(changes, statements, True, serial.missing)


def apply_serially(connection: TargetConnection, changes: Iterable[RowChange]) -> Sequence[RowChange]:
    """Apply the changes one by one inside the open transaction; gives those that found no row, if that is allowed."""
    serial = _Serial(connection, None)
    serial.apply(changes)
    return serial.missing


class _Serial:
    """One change at a time: what every grouping must equal."""

    def __init__(self, connection: TargetConnection, failed: Callable[[RowChange], None] | None) -> None:
        self._connection = connection
        self._failed = failed
        self.missing: list[RowChange] = []

    def apply(self, changes: Iterable[RowChange]) -> int:
        """Apply the changes; gives the number of statements."""
        count = 0
        for change in changes:
            try:
                for statement in row_statements(change):
                    count += self._run(statement)
            except DMError:
                if self._failed is not None:
                    self._failed(change)
                raise
        return count

    def _run(self, statement: ApplyStatement) -> int:
        self._connection.check_foreign_keys(not statement.changes[0].unchecked)
        outcome = self._connection.run(statement.sql)
        self._check(statement, outcome)
        count = 1
        for follow in statement.found if outcome.matched else statement.not_found:
            count += self._run(follow)
        return count

    def _check(self, statement: ApplyStatement, outcome: Outcome) -> None:
        expected, change = statement.expected, statement.changes[0]
        found = expected.matched in (None, outcome.matched) and expected.affected in (None, outcome.affected)
        if not found and change.plan.counts_missing:
            self.missing.append(change)
        elif not found:
            target, operation = change.plan.target, operation_of(change)
            raise DMError("row-missing", table=target, operation=operation, key=key_of(change))
        elif expected.warnings not in (None, outcome.warnings):
            raise DMError("value-changed", table=change.plan.target, operation=operation_of(change))


def _transaction(
    connection: TargetConnection,
    body: Callable[[], int],
    first: Callable[[], None] | None,
    last: Callable[[], None] | None,
) -> int:
    connection.begin()
    try:
        if first is not None:
            first()
        count = body()
        faults.hit("syncer.inside_transaction")
        if last is not None:
            last()
    except BaseException:
        connection.rollback()
        raise
    connection.commit()
    return count


def _run_grouped(connection: TargetConnection, plan: Sequence[ApplyStatement]) -> int:
    for statement in plan:
        try:
            _run_expected(connection, statement)
        except DMError as error:
            if error.retryable:
                raise
            raise _Unexpected from error
    return len(plan)


def _run_expected(connection: TargetConnection, statement: ApplyStatement) -> None:
    connection.check_foreign_keys(not statement.changes[0].unchecked)
    outcome = connection.run(statement.sql)
    expected = statement.expected
    if (
        (expected.affected is not None and outcome.affected != expected.affected)
        or (expected.matched is not None and outcome.matched != expected.matched)
        or (expected.warnings is not None and outcome.warnings != expected.warnings)
    ):
        raise _Unexpected
    for follow in statement.found if outcome.matched else statement.not_found:
        _run_expected(connection, follow)
