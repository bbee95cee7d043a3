"""Every column type of one family: written at a server, recorded, and followed by a sync unit into a target.

One schema holds a table for each case of `types.py`; what the tests compare with each other is what the binlog says,
what the servers themselves select, and what other readers of binlogs make of the same file.
"""

from __future__ import annotations

import secrets
from typing import Any

from dm.demo.compare import ComparisonReport, compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.mysql.binlog.decode import RowPair
from dm.mysql.binlog.value import Value
from dm.mysql.schema.table import Column
from tests.live.binlog.recording import columns_of_schema, recording
from tests.live.binlog.types import CASES
from tests.testbed.sync import running_sync, subtask_for

_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year", "enum", "set")
_TEXTUAL = ("decimal", "date", "time", "datetime", "timestamp", "json")
_NETWORK = {"uuid": 16, "inet6": 16, "inet4": 4}


class Recorded:
    """Every case of one family, written and recorded in one go: case number -> table, columns, changes."""

    def __init__(self, server: ThrowawayServer, target: ThrowawayServer) -> None:
        self.server = server
        self.target = target
        self.schema = f"values_{secrets.token_hex(4)}"
        self._meta = f"meta_{self.schema}"
        for each in (server, target):
            each.execute(f"CREATE DATABASE {self.schema}")
        subtask = subtask_for(server, target, self.schema, task=self.schema, workers=2)
        with recording(target) as self._arrived, running_sync(subtask) as sync:
            sync.wait_synced()
            # MySQL's table maps say all they can, so that this is checked for every type; MariaDB's say their least.
            if server.flavor == "mysql":
                server.execute("SET GLOBAL binlog_row_metadata = FULL")
            try:
                with recording(server) as self.recording:
                    self._write()
            finally:
                if server.flavor == "mysql":
                    server.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
            sync.wait_synced(120)
        self._columns = columns_of_schema(server, self.schema)
        self._session = server.connect(database=self.schema)
        with self._session.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")

    def close(self) -> None:
        """Drop everything."""
        self._session.close()
        self.server.execute(f"DROP DATABASE {self.schema}")
        self.target.execute(f"DROP DATABASE {self.schema}", f"DROP DATABASE {self._meta}")

    @property
    def cases(self) -> list[int]:
        """The numbers of the cases of this family."""
        return [number for number, case in enumerate(CASES) if case[0] == self.server.flavor]

    def _write(self) -> None:
        connection = self.server.connect(database=self.schema)
        with connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode='ALLOW_INVALID_DATES', time_zone='+00:00'")
            for number in self.cases:
                _, definition, values = CASES[number]
                table = f"v{number}"
                cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT, v {definition} NULL, n INT)")
                for value in values:
                    cursor.execute(f"INSERT IGNORE INTO {table} (v) VALUES ({value})")
                cursor.execute(f"INSERT INTO {table} (v) VALUES (NULL)")
                cursor.execute(f"UPDATE {table} SET n = id")

    def changes(self, table: str) -> tuple[Column, list[RowPair]]:
        """The column of a case and the changes of its table."""
        return self._columns[table][1], self.recording.rows(table, self._columns[table])

    def arrived(self, table: str) -> list[RowPair]:
        """The changes of the target's table, from the target's own binlog."""
        return self._arrived.rows(table, self._columns[table])

    def inserted(self, table: str) -> list[Value]:
        """The column's values as they stand in the binlog, in insertion order."""
        return [after[1] for before, after in self.changes(table)[1] if before is None and after is not None]

    def comparison(self) -> ComparisonReport:
        """Whether the target's tables are the source's, byte by byte."""
        return compare(pair_tables([self.server], [self.schema]), self.target)

    def selected(self, table: str, column: Column) -> list[Value]:
        """The column's values as the server itself gives them, in insertion order."""
        if column.base in _NUMBERS:
            expression = "CAST(v AS UNSIGNED)" if column.base == "set" else "v + 0"
        elif column.base in ("float", "double"):
            # 17 significant digits tell every double; a FLOAT is the double of equal value.
            expression = "CAST(v AS DOUBLE)" if self.server.flavor == "mysql" else "v + 0e0"
        elif column.base in _NETWORK:
            expression = f"HEX(CAST(v AS BINARY({_NETWORK[column.base]})))"
        elif column.base in _TEXTUAL:
            expression = "CAST(v AS CHAR)"
        else:
            expression = "HEX(v)"
        with self._session.cursor() as cursor:
            cursor.execute(f"SELECT {expression} FROM {table} ORDER BY id")
            rows = cursor.fetchall()
        return [_value(column, value, expression.startswith("HEX")) for (value,) in rows]


def _value(column: Column, value: Any, hexadecimal: bool) -> Value:
    if value is None:
        return None
    if column.base in _NUMBERS:
        return int(value)
    if hexadecimal:
        return bytes.fromhex(value)
    result: Value = value
    return result
