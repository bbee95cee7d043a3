"""A server as the prechecks see it: its variables, and what our account may do there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dm.config import Endpoint
from dm.errors import account_sql
from dm.sourcelog.upstream.connection import Connection, SqlRow, connect, fetch
from dm.sourcelog.upstream.facts import ServerFacts, read_facts
from dm.sourcelog.upstream.privilege import Grants, read_grants

_BATCH: Final = 50  # schemas of one question: names of schemas are short, statements may be long


@dataclass
class Server:
    """One open connection with what was asked through it."""

    connection: Connection
    endpoint: Endpoint
    role: str  # how findings call it: "source one", "target"

    @cached_property
    def facts(self) -> ServerFacts:
        """Version, flavour and the binlog's settings."""
        return read_facts(self.connection)

    @cached_property
    def variables(self) -> dict[str, str]:
        """All global variables, names in lower case."""
        return {str(name).lower(): str(value) for name, value in self.query("SHOW GLOBAL VARIABLES")}

    @cached_property
    def account(self) -> str:
        """Our account as a GRANT statement names it."""
        return account_sql(str(self.query("SELECT CURRENT_USER()")[0][0]))

    @cached_property
    def grants(self) -> Grants:
        """Our privileges, those of our active roles included."""
        return read_grants(self.connection, self.facts, role=self.role)

    def query(self, sql: str, *parameters: object) -> tuple[SqlRow, ...]:
        """The rows of a statement; errors come as DMError."""
        return fetch(self.connection, sql, parameters or None, role=self.role)

    def of_schemas(self, sql: str, column: str, schemas: Sequence[str], ending: str = "") -> list[SqlRow]:
        """The rows of a SELECT with a WHERE, of these schemas only."""
        rows: list[SqlRow] = []
        for at in range(0, len(schemas), _BATCH):
            batch = schemas[at : at + _BATCH]
            places = ", ".join(["%s"] * len(batch))
            rows += self.query(f"{sql} AND {column} IN ({places}){ending}", *batch)
        return rows


@contextmanager
def open_server(endpoint: Endpoint, role: str) -> Iterator[Server]:
    """Connect for the time of the checks."""
    connection = connect(endpoint, role=role)
    try:
        yield Server(connection, endpoint, role)
    finally:
        connection.close()
