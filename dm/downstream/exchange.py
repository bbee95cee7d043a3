"""Statements of a transaction on their way to the target, as many together as need no answer of the ones before.

An attempt with grouped statements knows beforehand what the target answers to each. Another answer, or a refusal, says
nothing about which change is to blame: `Unexpected` ends the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from dm.changes.computed_check import alone, computed_checks, computed_otherwise
from dm.changes.event_guard import GUARD
from dm.changes.plan import TablePlan
from dm.changes.row_bag import BagChange, Planned
from dm.changes.row_change import RowChange
from dm.changes.statement import ApplyStatement
from dm.downstream.connection import TargetConnection
from dm.downstream.lenient import as_it_asks
from dm.downstream.rows_by_hash import Lacking, NotByHash, carry_out
from dm.downstream.source_computing import TableSession
from dm.downstream.statements import StatementResult
from dm.errors import DMError

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
        guarded = False  # the last one is the guard, which goes with the events after it
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
                guarded = statement.sql.startswith(GUARD)
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


def warned(statement: ApplyStatement, outcome: StatementResult) -> bool:
    """Whether the warnings are as expected; an UPDATE that found no row wrote nothing, and others follow it."""
    wrote_nothing = bool(statement.not_found) and not outcome.matched
    return wrote_nothing or statement.expected.warnings in (None, outcome.warnings)
