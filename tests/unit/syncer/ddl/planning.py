"""A planner for a test, that plans each event twice; everything in schema `d` is migrated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.binlog.query import QuerySession
from dm.mysql.binlog.reader import Query
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.context import SourceContext
from dm.position import Position
from dm.progress.operators import Operator
from dm.rules.router import ExtractedColumn, OnlineTables, Scattering
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.ddl.plan import DumpWindow, Execute, PlanningState, SourceAnswers, StatementEvent, Step
from dm.syncer.ddl.planner import SourceViews, plan
from dm.syncer.ddl.temporary_tables import TemporaryTables

PLACE = Position("uuid", "binlog.000001", 100, GtidSet.empty("mysql"))
TRANSACTION = SourceTransaction(PLACE, PLACE, None, 0)


class Rules:
    """Everything in schema `d` is wanted."""

    online = OnlineTables((r"^_(.+)_gho$",), (r"^_(.+)_del$",))
    second = False
    of_pass: frozenset[TableName] = frozenset()

    def elsewhere(self, table: TableName) -> bool:
        return False

    in_another_stream = elsewhere

    def wanted(self, table: TableName) -> bool:
        return table.schema == "d"

    followed = wanted

    def ddl_event(self, table: TableName, event: str, sql: str, **_: object) -> str:
        return "do"

    def sql_pattern_ignores(self, sql: str) -> bool:
        return False

    def extracted(self, table: TableName) -> tuple[ExtractedColumn, ...]:
        return (ExtractedColumn("shard", "1"),) if table.table == "gathered" else ()

    def columns_of_filters(self, table: TableName) -> Iterator[tuple[str, frozenset[str]]]:
        return iter(())

    def route(self, table: TableName) -> TableName:
        return table

    def scattered(self, table: TableName) -> Scattering | None:
        names: dict[tuple[str, ...], TableName] = {(part,): TableName("old", f"t_{part}") for part in "12"}
        return Scattering(("shard",), names) if table.table == "scattered" else None

    def keeps_schema(self, schema: str) -> bool:
        return False


class Looking:
    """Plans events, and carries out of each plan only what is remembered of it.

    Each plan is made twice, and must be the same.
    """

    def __init__(self, views: Callable[[TableName], bool] = lambda table: table.table == "view") -> None:
        self.views = SourceViews(views)
        self.known = PlanningState(
            cast(Any, Rules()),
            SchemaTracker("mysql"),
            SourceAnswers(
                lambda query: SourceContext("mysql", 90704, query.schema), self.views.has, lambda table: None
            ),
            DumpWindow({}),
            {},
            TemporaryTables(),
        )

    def steps(
        self, query: Query, transaction: SourceTransaction = TRANSACTION, operator: Operator | None = None
    ) -> tuple[Step, ...]:
        event = StatementEvent(query, transaction, operator)
        planned = plan(event, self.known)
        assert plan(event, self.known) == planned
        self.known = replace(self.known, temporary=planned.temporary)
        if planned.views_may_change:
            self.views.ask_again()
        return planned.steps


def executes(steps: tuple[Step, ...]) -> list[bool]:
    return [isinstance(step, Execute) for step in steps]


def query(
    sql: bytes,
    *,
    error: int = 0,
    schema: str = "other",
    schemas: tuple[str, ...] | None = None,
    unlisted: bool = False,
    temporary: bool = False,
) -> Query:
    session = QuerySession(updated_schemas=schemas, schemas_unlisted=unlisted)
    return Query(schema, sql, session, 0, 1, 0, error, temporary)
