"""Statements that take the target long: they leave the stream with their table (`ddl-beside-rows`).

Problem: an ALTER that copies a table, or builds an index, may take the target an hour, and a statement is a barrier:
nothing after it is applied meanwhile. So its table leaves as a branch (`dm.progress.joining.branches`), which executes
the statement in its own session and follows from there. It is the branch's stream that waits.

A statement leaves if it is about one table, the target's table has more rows than the limit, and the target does not
say that it can do it at once. The target is asked in the one way that all of them answer alike: an empty copy of the
table is altered with ALGORITHM=INSTANT. What it refuses, or has no words for, may take long. Rows are counted up to the
limit: statistics may be a day old.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import scratch_schema
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.sql.operation import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    ChangeColumn,
    ConvertCharset,
    DropColumn,
    DropPrimaryKey,
    ModifyColumn,
    OtherAlter,
    TableOptions,
)
from dm.mysql.sql.piece import Piece
from dm.session.answers import reads_answers
from dm.syncer.ddl.plan import DdlPlan, Execute

_MAY_COPY = (
    AddCheck, AddColumn, AddForeignKey, AddIndex, ChangeColumn, ConvertCharset, DropColumn, DropPrimaryKey,
    ModifyColumn, OtherAlter, TableOptions,
)  # fmt: skip


class LongStatements:
    """Decides which statements leave, on the dispatcher's thread."""

    def __init__(
        self,
        rows: int,
        open_session: Callable[[], TargetConnection],
        route: Callable[[TableName], TableName],
        meta_schema: str,
    ) -> None:
        self._rows = rows
        self._open = open_session
        self._route = route
        self._meta_schema = meta_schema

    @reads_answers
    def leaving(self, planned: DdlPlan) -> frozenset[TableName]:
        """The table that leaves with the statement; none where it stays. Raises DMError."""
        steps = [step for step in planned.steps if isinstance(step, Execute)]
        tables = frozenset(table for step in steps for table in (*step.piece.tables, *step.piece.references))
        may_copy = [step.piece for step in steps if any(isinstance(one, _MAY_COPY) for one in step.piece.operations)]
        if len(tables) != 1 or len(steps) != len(planned.steps) or not may_copy:
            return frozenset()
        table = next(iter(tables))
        target = self._route(table)
        with closing(self._open()) as connection:
            try:
                large = connection.query(f"SELECT 1 FROM {target.sql} LIMIT 1 OFFSET {self._rows}")
            except DMError as error:
                if error.retryable:
                    raise
                return frozenset()  # there is none: the statement says so
            stays = not large or all(self._is_instant(connection, piece, target) for piece in may_copy)
        return frozenset() if stays else tables

    def _is_instant(self, connection: TargetConnection, piece: Piece, target: TableName) -> bool:
        """Whether the target does it at once, as it says itself."""
        if piece.verb != "ALTER TABLE":
            return False
        try:
            with scratch_schema(connection, self._meta_schema) as schema:
                copy = TableName(schema, target.table)
                connection.execute(f"CREATE TABLE {copy.sql} LIKE {target.sql}")
                connection.execute(f"{piece.routed(lambda _: copy)}, ALGORITHM=INSTANT")
        except DMError as error:
            if error.retryable:
                raise
            return False
        return True
