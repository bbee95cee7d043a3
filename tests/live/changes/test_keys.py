"""Two rows that a unique index of the target has no room for share a key, whatever becomes of their values there.

The server is asked: both rows are written as they would be, and where the second one is a duplicate the keys must meet.
"""

from __future__ import annotations

import itertools

import pytest

from dm.changes.keys import keys_of
from dm.changes.plan import PlanOptions, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import ServerWeights
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import Value
from dm.mysql.dialect import Flavor
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from tests.live.changes.tables import endpoint_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.serial_apply import apply_serially

pytestmark = pytest.mark.live

INTEGERS: list[Value] = [0, 1, -1, 5, 15, 150]
DECIMALS: list[Value] = ["1.00", "1.04", "1.05", "1.4", "-1.04", "0.00"]
FLOATS: list[Value] = [0.0, -0.0, 1.0, 1.5, 1.0000001, 1e10]
MOMENTS: list[Value] = ["2026-01-02 03:04:05.600000", "2026-01-02 03:04:05.499999", "2026-01-02 03:04:06.000000"]
TEXTS: list[Value] = [b"a", b"A", b"a ", b"ab", b"AB", b"abc", b"abd", b"1", b"01", "é".encode(), b"e", b""]
BYTES: list[Value] = [b"a", b"a\0", b"a\0\0", b"A", b"abc", b"abd", b""]
TEXT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
BIN = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
LATIN = "CHARACTER SET latin1 COLLATE latin1_swedish_ci"

# Column at the source, column and unique index at the target, values of the source.
CASES: list[tuple[str, str, str, list[Value]]] = [
    ("INT", "BIGINT", "v", INTEGERS),
    ("INT", "DECIMAL(20,4)", "v", INTEGERS),
    ("INT", f"VARCHAR(20) {TEXT}", "v", INTEGERS),
    ("INT", f"VARCHAR(20) {TEXT}", "v(1)", INTEGERS),
    ("INT", "DOUBLE", "v", INTEGERS),
    ("DECIMAL(10,2)", "DECIMAL(10,1)", "v", DECIMALS),
    ("DECIMAL(10,2)", "DECIMAL(20,6)", "v", DECIMALS),
    ("DECIMAL(10,2)", "INT", "v", DECIMALS),
    ("DECIMAL(10,2)", "DOUBLE", "v", DECIMALS),
    ("DOUBLE", "DOUBLE", "v", FLOATS),
    ("DOUBLE", "FLOAT", "v", FLOATS),
    ("DOUBLE", "DECIMAL(20,2)", "v", FLOATS),
    ("DATETIME(6)", "DATETIME(6)", "v", MOMENTS),
    ("DATETIME(6)", "DATETIME", "v", MOMENTS),
    ("DATETIME(6)", "DATE", "v", MOMENTS),
    ("DATETIME(6)", "TIMESTAMP(3)", "v", MOMENTS),
    ("YEAR", "YEAR", "v", [1970, 2026, 0]),
    ("YEAR", "INT", "v", [1970, 2026, 0]),
    (f"VARCHAR(20) {TEXT}", f"VARCHAR(20) {TEXT}", "v", TEXTS),
    (f"VARCHAR(20) {TEXT}", f"VARCHAR(20) {TEXT}", "v(2)", TEXTS),
    (f"VARCHAR(20) {TEXT}", f"CHAR(20) {TEXT}", "v", TEXTS),
    (f"VARCHAR(20) {TEXT}", f"VARCHAR(20) {BIN}", "v(2)", TEXTS),
    (f"VARCHAR(20) {BIN}", f"VARCHAR(20) {TEXT}", "v", TEXTS),
    (f"VARCHAR(20) {BIN}", f"VARCHAR(20) {LATIN}", "v", TEXTS),
    (f"VARCHAR(20) {BIN}", f"VARCHAR(20) {LATIN}", "v(1)", TEXTS),
    (f"VARCHAR(20) {TEXT}", f"TEXT {TEXT}", "v(2)", TEXTS),
    (f"VARCHAR(20) {TEXT}", f"VARCHAR(2) {TEXT}", "v", TEXTS),
    (f"VARCHAR(20) {TEXT}", "INT", "v", [b"1", b"01", b"1 ", b"2", b"+1"]),
    ("VARBINARY(20)", "VARBINARY(20)", "v", BYTES),
    ("VARBINARY(20)", "VARBINARY(20)", "v(2)", BYTES),
    ("BINARY(3)", "BINARY(3)", "v", BYTES),
    ("BINARY(3)", "VARBINARY(20)", "v", BYTES),
    ("BINARY(3)", "BINARY(5)", "v", BYTES),
    ("VARBINARY(20)", "BINARY(20)", "v", BYTES),
    ("VARBINARY(20)", "BLOB", "v(2)", BYTES),
    ("ENUM('a','b','c')", "ENUM('c','b','a')", "v", [1, 2, 3]),
    ("ENUM('a','b','c')", f"VARCHAR(9) {TEXT}", "v", [1, 2, 3]),
    ("SET('a','b','c')", "SET('c','b','a')", "v", [0, 1, 2, 3, 4, 7]),
    ("BIT(8)", "BIT(16)", "v", [0, 1, 255]),
    ("TIME(6)", "TIME(6)", "v", ["-00:00:00.000000", "00:00:00.000000", "01:02:03.400000"]),
    ("TIME(6)", "TIME", "v", ["-00:00:00.400000", "00:00:00.000000", "00:00:00.400000", "01:02:03.500000"]),
]
MYSQL_ONLY: list[tuple[str, str, str, list[Value]]] = [
    ("INT", "INT", "(ABS(v))", INTEGERS),
    (f"VARCHAR(20) {BIN}", f"VARCHAR(20) {BIN}", "(LOWER(v))", TEXTS),
]


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.timeout(900)
def test_duplicates_at_the_target_share_a_key(flavor: Flavor, target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(target)
    cases = CASES + (MYSQL_ONLY if target.flavor == "mysql" else [])
    connect = endpoint_of(target)
    weights = ServerWeights(lambda: TargetConnection(connect))
    schemas = TargetSchemas(lambda: TargetConnection(connect))
    duplicates = separate = 0
    with TargetConnection(connect) as connection:
        context = SourceContext(connection.flavor, connection.version, name)
        for number, (of, to, index, values) in enumerate(cases):
            table = TableName(name, f"t{number}")
            connection.execute(f"CREATE TABLE {table.sql} (id INT PRIMARY KEY, v {to} NULL, UNIQUE KEY u ({index}))")
            found = schemas.get(table)
            assert found is not None
            text = f"CREATE TABLE {table.sql} (id INT PRIMARY KEY, v {of} NULL) DEFAULT CHARSET=utf8mb4"
            source: TableSchema = parse_create_table(text, context)
            try:
                options = PlanOptions(connection.flavor, weights, narrower_columns="accept")
                plan = build_plan(source, source.columns, found, options)
            except DMError:
                continue  # columns that don't go together pause the task
            for one, other in itertools.combinations([*values, None], 2):
                changes = [
                    RowChange(plan, ChangeKind.INSERT, None, (row, value), safe=False)
                    for row, value in enumerate((one, other))
                ]
                keys = [set(keys_of(change)) for change in changes]
                connection.begin()
                try:
                    apply_serially(connection, changes)
                except DMError as error:
                    if error.name in ("duplicate-key", "own-key-met"):
                        duplicates += 1
                        assert keys[0] & keys[1], f"{of} -> {to} {index}: {one!r}, {other!r}"
                else:
                    separate += not keys[0] & keys[1]
                finally:
                    connection.rollback()
    weights.close()
    schemas.close()
    print(f"{flavor}: {duplicates} pairs are duplicates, {separate} are not and share no key")
    assert duplicates > 60
    assert separate > 200
