"""Tables for the tests of applying: their structure here and at a server, and how to fill them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import SecretStr

from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_keys import TargetTable
from dm.changes.statement import insert_row
from dm.config.endpoint import Endpoint
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.mysql.binlog.value import Row
from dm.mysql.schema.table import Column, Index, IndexPart, TableSchema


def endpoint_of(server: PrivateServer, **session: str) -> Endpoint:
    """The server as a task file would name it."""
    return Endpoint(
        host=server.host, port=server.port, user=server.user, password=SecretStr(server.password), session=session
    )


def primary(*columns: str) -> Index:
    """A primary key."""
    return Index("PRIMARY", "primary", tuple(IndexPart(column) for column in columns))


def unique(name: str, *columns: str) -> Index:
    """A unique index named after its first column."""
    return Index(name, "unique", tuple(IndexPart(column) for column in columns))


@dataclass(frozen=True)
class Shape:
    """A table: how it is created, and what it is for the product."""

    ddl: str  # the column list of CREATE TABLE
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]
    extra: tuple[Column, ...] = ()  # the target's own

    def create(self, server: ThrowawayServer, table: TableName) -> None:
        """Create the table at the server."""
        server.execute(f"CREATE TABLE {table.sql} ({self.ddl}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4")

    def plan(self, table: TableName, options: PlanOptions, target: TargetTable | None = None) -> TablePlan:
        """The plan of a source table of the same structure into this table."""
        schema = TableSchema(table, self.columns, self.indexes)
        if target is None:
            target = TargetTable(replace(schema, columns=self.columns + self.extra))
        return build_plan(schema, self.columns, target, options)


def fill(connection: TargetConnection, plan: TablePlan, rows: Sequence[Row]) -> None:
    """Make the table hold exactly these rows; those that violate a unique key are left out."""
    connection.execute(f"DELETE FROM {plan.target.sql}")
    for row in rows:
        connection.execute(insert_row(plan, row).replace(b"INSERT", b"INSERT IGNORE", 1))


def contents(connection: TargetConnection, table: TableName) -> list[tuple[object, ...]]:
    """All rows of the table, in an order of their own."""
    return sorted(connection.query(f"SELECT * FROM {table.sql}"), key=repr)
