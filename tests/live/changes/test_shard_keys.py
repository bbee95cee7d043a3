"""Rows of tables of different types, merged into one: two that a unique index has no room for share a key.

The server is asked: a row of each source table is written as it would be, and where the second one is a duplicate the
keys must meet. What the plans know of each other is what `RowPlacing` has them know.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from dm.changes.collation import Weights
from dm.changes.keys import SharedKeys, keys_of
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.changes.row_keys import TargetTable
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import ServerWeights
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import Value
from dm.mysql.dialect import Flavor
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.sql.context import SourceContext
from tests.live.changes.tables import endpoint_of
from tests.live.changes.test_keys import BIN, BYTES, DECIMALS, INTEGERS, LATIN, MOMENTS, TEXT, TEXTS
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.serial_apply import apply_serially

pytestmark = pytest.mark.live

TENTHS: list[Value] = [0.1, 0.5, 2.0, -0.0]
# The same as a FLOAT's values, which are written as the doubles of equal value.
SINGLES: list[Value] = [0.10000000149011612, 0.5, 2.0, 0.0]
DAYS: list[Value] = ["2026-01-02", "2026-01-03"]
SECONDS: list[Value] = ["2026-01-02 03:04:05", "2026-01-02 03:04:06", "2026-01-02 00:00:00"]
PADDED: list[Value] = [b"a\0\0\0", b"ab\0\0", b"abcd", b"\0\0\0\0"]
LATIN_TEXTS: list[Value] = [b"a", b"A", "é".encode("latin-1"), b"ab ", b"1", b""]
ACCENTS: list[Value] = [*TEXTS, "\u00c9".encode()]

# Column and unique index at the target, columns at the sources with values of each.
SHARDS: list[tuple[str, str, list[tuple[str, list[Value]]]]] = [
    ("BIGINT", "v", [("INT", INTEGERS), ("DECIMAL(5,0)", ["5", "-1", "0"]), ("BIGINT", INTEGERS)]),
    ("DECIMAL(20,4)", "v", [("INT", INTEGERS), ("DECIMAL(10,2)", DECIMALS), ("DECIMAL(9,1)", ["1.0", "5.0"])]),
    ("INT", "v", [("INT", INTEGERS), (f"VARCHAR(20) {TEXT}", [b"1", b"01", b"5 ", b"15"])]),
    (f"VARCHAR(20) {TEXT}", "v", [("INT", INTEGERS), (f"VARCHAR(20) {TEXT}", TEXTS), (f"CHAR(9) {TEXT}", TEXTS)]),
    (f"VARCHAR(50) {TEXT}", "v", [(f"VARCHAR(100) {TEXT}", TEXTS), (f"VARCHAR(20) {TEXT}", TEXTS)]),
    (f"VARCHAR(20) {TEXT}", "v(2)", [(f"VARCHAR(20) {LATIN}", LATIN_TEXTS), (f"VARCHAR(20) {BIN}", ACCENTS)]),
    (f"VARCHAR(20) {BIN}", "v(1)", [(f"VARCHAR(20) {LATIN}", LATIN_TEXTS), (f"VARCHAR(20) {TEXT}", ACCENTS)]),
    (f"VARCHAR(20) {LATIN}", "v", [(f"VARCHAR(20) {LATIN}", LATIN_TEXTS), (f"VARCHAR(20) {TEXT}", ACCENTS)]),
    (f"TEXT {TEXT}", "v(3)", [(f"VARCHAR(20) {LATIN}", LATIN_TEXTS), (f"TEXT {TEXT}", ACCENTS), ("INT", INTEGERS)]),
    (
        f"VARCHAR(20) {TEXT}",
        "v",
        [("VARCHAR(20) CHARACTER SET sjis", [b"a", b"ab", b"1"]), (f"VARCHAR(20) {TEXT}", TEXTS)],
    ),
    ("VARBINARY(8)", "v", [("BINARY(4)", PADDED), ("VARBINARY(8)", [*BYTES, *PADDED]), ("BINARY(3)", [b"a\0\0"])]),
    ("VARBINARY(8)", "v(2)", [("BINARY(4)", PADDED), ("VARBINARY(8)", [*BYTES, *PADDED])]),
    ("BINARY(4)", "v", [("BINARY(4)", PADDED), ("VARBINARY(4)", BYTES)]),
    ("DOUBLE", "v", [("FLOAT", SINGLES), ("DOUBLE", [*TENTHS, *SINGLES])]),
    ("DOUBLE(7,2)", "v", [("FLOAT(7,2)", SINGLES), ("DOUBLE(7,2)", TENTHS)]),
    ("FLOAT", "v", [("FLOAT", SINGLES), ("FLOAT(7,2)", SINGLES), ("DOUBLE", TENTHS)]),
    ("DATETIME", "v", [("DATE", DAYS), ("DATETIME", SECONDS), ("TIMESTAMP", SECONDS), ("DATETIME(6)", MOMENTS)]),
    (
        "TIMESTAMP(3)",
        "v",
        [("DATETIME", SECONDS), ("TIMESTAMP(3)", ["2026-01-02 03:04:05.000", "2026-01-02 00:00:00.000"])],
    ),
    ("TIME(6)", "v", [("TIME", ["00:00:00", "01:02:03"]), ("TIME(6)", ["-00:00:00.000000", "01:02:03.000000"])]),
    ("ENUM('c','b','a')", "v", [("ENUM('a','b','c')", [1, 2, 3]), ("ENUM('b','c')", [1, 2])]),
    ("SET('c','b','a')", "v", [("SET('a','b','c')", [0, 1, 2, 3, 6, 7]), ("SET('b','c')", [0, 1, 2, 3])]),
    (f"VARCHAR(9) {TEXT}", "v", [("ENUM('a','b','c')", [1, 2, 3]), (f"VARCHAR(9) {TEXT}", TEXTS)]),
    ("BIT(16)", "v", [("BIT(8)", [0, 1, 255]), ("BIT(16)", [0, 1, 256])]),
]


def _plans(context: SourceContext, weights: Weights, target: TargetTable, columns: Sequence[str]) -> list[TablePlan]:
    """The plans of source tables with these columns, once each does without what the others can't do."""
    texts = [f"CREATE TABLE s (id INT PRIMARY KEY, v {of} NULL) DEFAULT CHARSET=utf8mb4" for of in columns]
    schemas = [parse_create_table(text, context) for text in texts]
    shared, options = SharedKeys(), PlanOptions(context.flavor, weights, narrower_columns="accept")
    for schema in schemas:
        build_plan(schema, schema.columns, target, options, (), shared)
    return [build_plan(schema, schema.columns, target, options, (), shared) for schema in schemas]


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.timeout(900)
def test_duplicates_of_two_source_tables_share_a_key(
    flavor: Flavor, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(target)
    connect = endpoint_of(target)
    weights = ServerWeights(lambda: TargetConnection(connect))
    schemas = TargetSchemas(lambda: TargetConnection(connect))
    apart = []
    duplicates = separate = 0
    with TargetConnection(connect) as connection:
        context = SourceContext(connection.flavor, connection.version, name)
        for number, (to, index, sources) in enumerate(SHARDS):
            table = TableName(name, f"t{number}")
            connection.execute(f"CREATE TABLE {table.sql} (id INT PRIMARY KEY, v {to} NULL, UNIQUE KEY u ({index}))")
            found = schemas.get(table)
            assert found is not None
            plans = _plans(context, weights, found, [of for of, _ in sources])
            rows = [(plan, of, value) for plan, (of, values) in zip(plans, sources, strict=True) for value in values]
            for pair in itertools.combinations(rows, 2):
                changes = [
                    RowChange(plan, ChangeKind.INSERT, None, (row, value), safe=False)
                    for row, (plan, _, value) in enumerate(pair)
                ]
                meet = bool(set(keys_of(changes[0])) & set(keys_of(changes[1])))
                connection.begin()
                try:
                    apply_serially(connection, changes)
                except DMError as error:
                    if error.name == "duplicate-key":
                        duplicates += 1
                        if not meet:
                            apart.append(f"{to} {index}: {pair[0][1:]}, {pair[1][1:]}")
                else:
                    separate += not meet
                finally:
                    connection.rollback()
    weights.close()
    schemas.close()
    print(f"{flavor}: {duplicates} pairs are duplicates, {separate} are not and share no key")
    assert not apart
    assert duplicates > 60
    assert separate > 200
