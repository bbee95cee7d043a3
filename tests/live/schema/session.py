"""A session on a throw-away server, as these tests need it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from dm.demo.servers import ThrowawayServer
from dm.ident import Ident, TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext


class Session:
    """One connection; statements run in the schema that is named with them."""

    def __init__(self, server: ThrowawayServer, connection: Connection[Cursor]) -> None:
        self._cursor = connection.cursor()
        self._cursor.execute("SELECT @@version")
        (version,) = self._row()
        major, minor, patch = (int(part) for part in version.split("-")[0].split("."))
        self.flavor = server.flavor
        self.version = major * 10000 + minor * 100 + patch

    def _row(self) -> tuple[str, ...]:
        row = self._cursor.fetchone()
        assert row is not None
        return tuple(str(item) for item in row)

    def context(self, schema: str) -> SourceContext:
        """The context of a statement that runs in this schema."""
        return SourceContext(self.flavor, self.version, schema)

    def run(self, schema: str, *statements: str) -> None:
        """Run statements with this default schema."""
        self._cursor.execute(f"USE {Ident(schema).sql}")
        for statement in statements:
            self._cursor.execute(statement)

    def names(self, schema: str) -> list[str]:
        """The names of all tables."""
        return [str(name) for (name,) in self.rows(f"SHOW TABLES FROM {Ident(schema).sql}")]

    def structure(self, table: TableName) -> TableSchema:
        """The structure of a table, as the server prints it."""
        self._cursor.execute(f"SHOW CREATE TABLE {table.sql}")
        return parse_create_table(self._row()[1], self.context(table.schema))

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """The result of a query."""
        self._cursor.execute(statement)
        return [tuple(row) for row in self._cursor.fetchall()]

    def logged(self, part: str) -> str:
        """The last statement in the binlog that holds this text, without the USE before it."""
        status = "SHOW BINARY LOG STATUS" if self.flavor == "mysql" else "SHOW MASTER STATUS"
        self._cursor.execute(status)
        file = self._row()[0]
        texts = [str(row[5]) for row in self.rows(f"SHOW BINLOG EVENTS IN '{file}'")]
        return [text.split("; ", 1)[1] for text in texts if part in text and text.lower().startswith("use ")][-1]


@contextmanager
def session(server: ThrowawayServer) -> Iterator[Session]:
    """A session on a server."""
    connection = server.connect()
    try:
        yield Session(server, connection)
    finally:
        connection.close()
