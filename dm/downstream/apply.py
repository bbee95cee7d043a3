"""One batch of changes as one target transaction: in few statements if the target is as expected, else row by row.

With `compact` the changes of one row are merged first, for the attempt only.

The attempt with grouped statements checks every count. What differs, be it a count or an error, says nothing about
which change is to blame, so the transaction is rolled back, the lane's row with it, and everything is done again one
change at a time: that gives the serial result, or the error of the first change that can't be applied. Only where rows
of a table can't be found by their hash does the attempt begin again, with that table in statements as the others are.

A change that is to be applied without a look at foreign keys says so; a statement never holds both kinds, since rows of
tables with checked foreign keys have statements of their own.

An UPDATE or DELETE that finds no row is such an error, unless the plan says to count it (`missing-row: count`).

A batch takes two round trips where its statements ask for nothing in between: everything up to the last change, then
COMMIT, once all the answers were looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from dm import faults
from dm.changes.compacted import compacted
from dm.changes.event_form import GUARD, LOOK, EventForm
from dm.changes.own_key_check import own_key_checks, own_key_met
from dm.changes.row_bag import BagChange, Planned, in_bags_or_arranged
from dm.changes.row_change import RowChange, decode_all
from dm.changes.safe_mode import row_statements
from dm.changes.statement import ApplyStatement, key_of, operation_of, row_of
from dm.downstream.connection import BEGIN, ROW_EVENTS, TargetConnection
from dm.downstream.exchange import Exchange, OneLessByHash, Unexpected, run_exactly, warned
from dm.downstream.source_session_settings import TableSession
from dm.downstream.statements import StatementResult
from dm.downstream.written_at_both import Overwrites, demand_as_before, demand_free, others_at, setting
from dm.errors import DMError
from dm.mysql.sql.json_literal import CHECK_FAILED_AT_MARIADB, DEEPEST_AT_MARIADB, depth_of

# The table lacks a column, is gone, has another number of columns, computes one that was stored (MySQL, MariaDB).
_ALTERED: Final = frozenset({1054, 1146, 1136, 3105, 1906})
# What a MySQL says of a key since 8.0.19 begins with the table's name.
_KEY: Final = re.compile(r"for key '(?:[^']*\.)?([^'.]+)'")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """How a batch went."""

    changes: int
    statements: int
    row_by_row: bool  # the grouped attempt was not as expected
    missing: Sequence[RowChange] = ()  # those that found no row, where that is only counted
    compacted: int = 0  # changes that others of the same row stood for
    as_events: int = 0  # of those that were sent, the ones that went as row events
    by_hash: int = 0  # and those whose rows were found together


class FirstStatement(Protocol):
    """The first statement of every transaction."""

    def statement(self) -> bytes:
        """Its text; another one for each transaction."""

    def opened(self, affected: int) -> None:
        """What the server said of it; raises DMError if that forbids the transaction."""


def apply_batch(
    connection: TargetConnection,
    changes: Sequence[RowChange],
    *,
    first: FirstStatement | None = None,
    last: Callable[[], None] | None = None,
    failed: Callable[[RowChange], None] | None = None,
    looks: bool = False,
    overwrites: Overwrites | None = None,
) -> BatchResult:
    """Apply the changes in one transaction; `first` is its first act (again after a roll-back), `last` its last.

    `looks`: a row that is not what the source's was is a conflict; `overwrites` is told of it, and it is set. Raises
    DMError with the transaction rolled back, except for `commit-outcome-unknown`; `failed` is told which change it was,
    where one is to blame.
    """
    left = compacted(changes, limit=connection.statement_bytes)
    counts, own_keys = _Counts(), tuple(own_key_checks(changes))

    def attempt(exchange: Exchange) -> int:
        nonlocal counts
        counts, plan = _Counts(), _planned(left, connection.statement_bytes, looks=looks)
        counts.add(changes, left, plan)
        if looks:
            exchange.demand_as_before(left)
        exchange.demand_own_keys(own_keys, failed, written=False)
        count = exchange.add_all(plan)
        exchange.demand_own_keys(own_keys, failed, written=True)
        exchange.demand_computed(changes, failed)
        return count

    def one_by_one(exchange: Exchange) -> int:
        exchange.demand_own_keys(own_keys, failed, written=False)
        count = serial.begin(exchange).apply(changes)
        exchange.demand_own_keys(own_keys, failed, written=True)
        exchange.demand_computed(changes, failed)
        return count

    serial = _Serial(connection, failed, looks=looks, overwrites=overwrites)
    try:
        statements = _grouped(connection, attempt, first, last)
        return counts.applied(statements)
    except Unexpected as unexpected:
        count = _transaction(connection, one_by_one, first, last, guessed=False)
        _blame(unexpected)
        return BatchResult(len(changes), count, True, serial.missing)


def apply_parts(
    connection: TargetConnection,
    parts: Callable[[], Iterable[Sequence[RowChange]]],
    *,
    first: FirstStatement | None = None,
    last: Callable[[], None] | None = None,
    looks: bool = False,
    overwrites: Overwrites | None = None,
) -> BatchResult:
    """Apply changes that are too many to be held at once in one transaction; `parts` gives them, again if need be."""
    counts = _Counts()
    limit = connection.statement_bytes

    def grouped_parts(exchange: Exchange) -> int:
        nonlocal counts
        counts, statements = _Counts(), 0
        for part in parts():
            left = compacted(part, limit=limit)
            plan = _planned(left, limit, looks=looks)
            counts.add(part, left, plan)
            if looks:
                exchange.demand_as_before(left)
            own_keys = tuple(own_key_checks(part))
            exchange.demand_own_keys(own_keys, written=False)
            statements += exchange.add_all(plan)
            exchange.demand_own_keys(own_keys, written=True)
            exchange.demand_computed(part)
            exchange.flush()
        return statements

    serial = _Serial(connection, None, looks=looks, overwrites=overwrites)

    def one_by_one(exchange: Exchange) -> int:
        serial.begin(exchange)
        statements = 0
        for part in parts():
            decode_all(part)
            own_keys = tuple(own_key_checks(part))
            exchange.demand_own_keys(own_keys, written=False)
            statements += serial.apply(part)
            exchange.demand_own_keys(own_keys, written=True)
            exchange.demand_computed(part)
        return statements

    try:
        statements = _grouped(connection, grouped_parts, first, last)
        return counts.applied(statements)
    except Unexpected as unexpected:
        statements = _transaction(connection, one_by_one, first, last, guessed=False)
        _blame(unexpected)
        return BatchResult(serial.changes, statements, True, serial.missing)


def _planned(changes: Sequence[RowChange], limit: int, *, looks: bool) -> Sequence[Planned]:
    """The statements of a grouped attempt; raises Unexpected where a row can't be written, without knowing which."""
    try:
        if looks:
            decode_all(changes)
        return in_bags_or_arranged(changes, limit=limit)
    except DMError as error:
        raise Unexpected(None, error.name) from error


@dataclass(slots=True)
class _Counts:
    """What a grouped attempt does."""

    changes: int = 0
    compacted: int = 0
    as_events: int = 0
    by_hash: int = 0

    def add(self, changes: Sequence[RowChange], left: Sequence[RowChange], plan: Iterable[Planned]) -> None:
        """Count changes, what is left of them, and how that goes."""
        self.changes += len(changes)
        self.compacted += len(changes) - len(left)
        for step in plan:
            if isinstance(step, BagChange):
                self.by_hash += len(step.changes)
            elif step.sql.startswith(ROW_EVENTS):
                self.as_events += len(step.changes)

    def applied(self, statements: int) -> BatchResult:
        """The attempt has gone well."""
        return BatchResult(
            self.changes,
            statements,
            row_by_row=False,
            compacted=self.compacted,
            as_events=self.as_events,
            by_hash=self.by_hash,
        )


def _of_the_row(error: DMError, change: RowChange) -> DMError | None:
    """The error for a row whose table is another one by now, or whose JSON is too deep for a MariaDB; else None."""
    if error.server_errno in _ALTERED:
        altered = DMError("target-table-altered", table=change.plan.target, cause=error.cause)
        return altered.numbered(error.server_errno)
    if error.server_errno != CHECK_FAILED_AT_MARIADB or change.after is None:
        return None
    for column in change.plan.columns:
        value = change.after[column.at]
        if not column.source.type.is_document or not column.target.json_checked or not isinstance(value, str | bytes):
            continue
        depth = depth_of(value.encode() if isinstance(value, str) else value)
        if depth > DEEPEST_AT_MARIADB:
            return DMError(
                "json-too-deep",
                table=change.plan.target,
                key=row_of(change) or "no key",
                column=column.target.name,
                depth=depth,
                most=DEEPEST_AT_MARIADB,
                cause=error.cause,
            ).numbered(error.server_errno)
    return None


def _blame(unexpected: Unexpected) -> None:
    """The changes of a refused attempt were taken one by one: where they were row events, those are to blame."""
    statement = unexpected.statement
    if isinstance(statement, BagChange):
        statement.hash.refuse(unexpected.why)
        return
    if statement is None or not statement.sql.startswith((ROW_EVENTS, GUARD, LOOK)):
        return
    forms: set[EventForm] = {change.plan.events for change in statement.changes if change.plan.events is not None}
    if len(forms) > 1 and not statement.sql.startswith((GUARD, LOOK)):
        for form in forms:
            form.alone = True
        return
    for form in forms:
        form.refuse(unexpected.why)


class _Serial:
    """One change at a time: what every grouping must equal."""

    def __init__(
        self,
        connection: TargetConnection,
        failed: Callable[[RowChange], None] | None,
        *,
        looks: bool = False,
        overwrites: Overwrites | None = None,
    ) -> None:
        self._looks = looks
        self._overwrites = overwrites
        self._connection = connection
        self._session = TableSession(connection)
        self._failed = failed
        self.missing: list[RowChange] = []
        self.changes = 0

    def begin(self, exchange: Exchange) -> _Serial:
        """Send what stands before the changes; from then on both know what the session has."""
        exchange.flush()
        self._session = exchange.session
        return self

    def apply(self, changes: Iterable[RowChange]) -> int:
        """Apply the changes; gives the number of statements."""
        try:
            return self._apply(changes)
        finally:
            self._session.end()

    def _apply(self, changes: Iterable[RowChange]) -> int:
        count = 0
        for change in changes:
            self.changes += 1
            self._session.take(change.plan.settings)
            images = change.before, change.after
            try:
                decode_all((change,))
                count += self._change(change)
            except DMError as error:
                if self._failed is not None:
                    self._failed(change)
                if self._looks and error.name == "duplicate-key":
                    demand_free(self._connection, change)
                told = _of_own_key(change, error) or _of_the_row(error, change)
                if told is None:
                    raise
                raise told from error
            # What was unread was not counted as memory, and many lanes may be here at a time.
            change.before, change.after = images
        return count

    def _change(self, change: RowChange) -> int:
        if not self._looks or self._overwrites is None:
            if self._looks:
                demand_as_before(self._connection, change)
            return sum(map(self._run, row_statements(change)))
        others = others_at(self._connection, change)
        try:
            if not others:
                return sum(map(self._run, row_statements(change)))
        except DMError as error:
            # No look can lock a row that is not there: somebody has inserted it since.
            others = others_at(self._connection, change) if error.name == "duplicate-key" else []
            if not others:
                raise
        self._overwrites(change, others)
        return sum(map(self._run, row_statements(setting(change))))

    def _run(self, statement: ApplyStatement) -> int:
        self._connection.check_foreign_keys(not statement.changes[0].unchecked)
        outcome = run_exactly(self._connection, statement)
        self._check(statement, outcome)
        count = 1
        for follow in statement.found if outcome.matched else statement.not_found:
            count += self._run(follow)
        return count

    def _check(self, statement: ApplyStatement, outcome: StatementResult) -> None:
        expected, change = statement.expected, statement.changes[0]
        found = expected.matched in (None, outcome.matched) and expected.affected in (None, outcome.affected)
        if not found and change.plan.counts_missing:
            self.missing.append(change)
        elif not found:
            target, operation = change.plan.target, operation_of(change)
            raise DMError("row-missing", table=target, operation=operation, key=key_of(change))
        elif not warned(statement, outcome):
            raise DMError("value-changed", table=change.plan.target, operation=operation_of(change))


def _of_own_key(change: RowChange, error: DMError) -> DMError | None:
    """The error for a row whose key the target computes, or has alone; None for all others."""
    found = _KEY.search(error.cause) if error.name == "duplicate-key" else None
    if found is None:
        return None
    index, plan = found[1], change.plan
    if index.lower() in plan.lacked.refusing:
        return own_key_met(plan, index, f"another row and {row_of(change)}", error.cause).numbered(error.server_errno)
    if index.lower() not in plan.computed_keys:
        return None
    met = DMError("computed-key-met", table=plan.target, index=index, cause=error.cause)
    return met.numbered(error.server_errno)


def _grouped(
    connection: TargetConnection,
    attempt: Callable[[Exchange], int],
    first: FirstStatement | None,
    last: Callable[[], None] | None,
) -> int:
    """Make a grouped attempt, again with one table less that is found by hash where that is all that fails."""
    while True:
        try:
            return _transaction(connection, attempt, first, last, guessed=True)
        except OneLessByHash:
            continue


def _transaction(
    connection: TargetConnection,
    body: Callable[[Exchange], int],
    first: FirstStatement | None,
    last: Callable[[], None] | None,
    *,
    guessed: bool,
) -> int:
    exchange = Exchange(connection, guessed=guessed)
    exchange.add(BEGIN)
    if first is not None:
        opened = first.opened
        exchange.add(first.statement(), lambda outcome: opened(outcome.affected))
    try:
        count = body(exchange)
        exchange.flush()
        exchange.end()
        faults.hit("syncer.inside_transaction")
        if last is not None:
            last()
    except BaseException:
        connection.rollback()
        exchange.end()
        raise
    connection.commit()
    return count


_AGAIN: Final = {1213: 19, 1205: 2}


class Attempts:
    """How often a transaction that gave way to another one is sent again.

    The loser of a deadlock finds that the other side has gone on, so it may try many times. A transaction that waited
    for a lock in vain has waited for long (innodb_lock_wait_timeout, 50 s unless set): it is tried a few times only.
    """

    def __init__(self) -> None:
        self._left = dict(_AGAIN)

    def again(self, error: DMError) -> bool:
        """Whether to try again after this error."""
        number = error.server_errno
        if error.name != "transaction-aborted" or not self._left.get(number):
            return False
        self._left[number] -= 1
        return True
