"""A keyless row is found by its bytes: its near twin stays."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from dm.changes.plan import PlanOptions, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.demo.servers import ThrowawayServer
from dm.downstream.apply import apply_batch
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import Value
from dm.mysql.dialect import FLAVORS, Flavor
from dm.mysql.schema.table import Column, TableSchema
from tests.live.changes.tables import endpoint_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live


def _single(value: float) -> float:
    """The double of equal value to a FLOAT."""
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return single


def _point(x: float) -> bytes:
    return struct.pack("<IBIdd", 0, 1, 1, x, 2.0)


_MEMBERS = tuple(f"m{number}" for number in range(64))
_QUOTED = ",".join(f"'{name}'" for name in _MEMBERS)
_TEXT = {"charset": "utf8mb4", "collation": "utf8mb4_general_ci"}


@dataclass(frozen=True)
class Twins:
    """Values that a careless comparison takes for one."""

    ddl: str
    column: Column
    first: Value
    second: Value
    only: Flavor | None = None
    read: str = "HEX(v), v"  # what tells the twins apart
    updates: bool = True  # whether the server takes an UPDATE from the first to the second for a change


TWINS = {
    "case": Twins("VARCHAR(9)", Column("v", "varchar", length=9, charset="utf8mb4"), b"a", b"A"),
    "accent": Twins("VARCHAR(9)", Column("v", "varchar", length=9, charset="utf8mb4"), b"e", "é".encode()),
    "space": Twins("VARCHAR(9)", Column("v", "varchar", length=9, charset="utf8mb4"), b"a", b"a "),
    "space in _bin": Twins(
        "VARCHAR(9) COLLATE utf8mb4_bin", Column("v", "varchar", length=9, charset="utf8mb4"), b"a", b"a "
    ),
    "empty and null": Twins("VARCHAR(9)", Column("v", "varchar", length=9, charset="utf8mb4"), b"", None),
    "indexed": Twins("VARCHAR(9), KEY (v)", Column("v", "varchar", length=9, charset="utf8mb4"), b"x", b"X"),
    "latin1": Twins(
        "VARCHAR(9) CHARACTER SET latin1", Column("v", "varchar", length=9, charset="latin1"), b"\xe9", b"e"
    ),
    "latin1 into utf8mb4": Twins(
        "VARCHAR(9) CHARACTER SET utf8mb4", Column("v", "varchar", length=9, charset="latin1"), b"\xe9", b"\xc9"
    ),
    "gbk": Twins(
        "VARCHAR(9) CHARACTER SET gbk", Column("v", "varchar", length=9, charset="gbk"), b"\xd6\xd0a", b"\xd6\xd0A"
    ),
    "char": Twins("CHAR(9)", Column("v", "char", length=9, charset="utf8mb4"), b"quote'\\", b"QUOTE'\\"),
    "long text": Twins("TEXT", Column("v", "text", charset="utf8mb4"), b"a\0b\n", b"a\0B\n"),
    "bytes": Twins("VARBINARY(9)", Column("v", "varbinary", length=9), b"a\0", b"a"),
    "blob": Twins("BLOB", Column("v", "blob"), b"\xff\0'", b"\xff\0'\0"),
    "padded bytes": Twins("BINARY(3)", Column("v", "binary", length=3), b"a\0\0", b"A\0\0"),
    "decimal": Twins(
        "DECIMAL(40,20)",
        Column("v", "decimal", length=40, decimals=20),
        "12345678901234567890.00000000000000000001",
        "12345678901234567890.00000000000000000002",
    ),
    "bigint": Twins("BIGINT UNSIGNED", Column("v", "bigint", unsigned=True), 2**64 - 1, 2**64 - 2),
    "float": Twins("FLOAT", Column("v", "float"), _single(0.1), _single(0.1000001), read="v * 1e0"),
    "large float": Twins("FLOAT", Column("v", "float"), 16777216.0, 16777218.0),
    "double": Twins("DOUBLE", Column("v", "double"), 0.1, 0.1 + 2**-56),
    "small double": Twins("DOUBLE", Column("v", "double"), 5e-324, 1e-323),
    "time": Twins("TIME(6)", Column("v", "time", decimals=6), "-838:59:58.999999", "838:59:58.999999"),
    "time fraction": Twins("TIME(6)", Column("v", "time", decimals=6), "-00:00:00.000001", "00:00:00.000001"),
    "zero date": Twins("DATE", Column("v", "date"), "0000-00-00", None),
    "impossible date": Twins("DATE", Column("v", "date"), "2021-02-30", "2021-02-31"),
    "datetime": Twins(
        "DATETIME(6)", Column("v", "datetime", decimals=6), "0000-00-00 00:00:00.000000", "2021-00-00 00:00:00.000000"
    ),
    "timestamp": Twins(
        "TIMESTAMP(3) NULL", Column("v", "timestamp", decimals=3), "2038-01-19 03:14:07.999", "2038-01-19 03:14:07.998"
    ),
    "year": Twins("YEAR", Column("v", "year"), 0, 2000),
    "bit": Twins("BIT(64)", Column("v", "bit", length=64), 2**63, 2**63 + 1),
    "enum": Twins("ENUM('2','1','x')", Column("v", "enum", members=("2", "1", "x"), charset="utf8mb4"), 1, 2),
    "enum error value": Twins(
        "ENUM('','x')", Column("v", "enum", members=("", "x"), charset="utf8mb4"), 0, 1, read="v + 0"
    ),
    "enum renumbered": Twins("ENUM('b','c','a')", Column("v", "enum", members=("a", "b"), charset="utf8mb4"), 1, 2),
    "set": Twins("SET('a','b','c')", Column("v", "set", members=("a", "b", "c"), charset="utf8mb4"), 0, 7),
    "64 members": Twins(f"SET({_QUOTED})", Column("v", "set", members=_MEMBERS, charset="utf8mb4"), 2**63 + 1, 1),
    "set renumbered": Twins("SET('c','b','a')", Column("v", "set", members=("a", "b"), charset="utf8mb4"), 1, 3),
    "enum into text": Twins("VARCHAR(9)", Column("v", "enum", members=("a", "A"), charset="utf8mb4"), 1, 2),
    "json": Twins("JSON", Column("v", "json"), '{"a": 1, "b": "é\\n"}', '{"a": 1, "b": "É\\n"}'),
    "json number": Twins("JSON", Column("v", "json"), "[1, -0.0]", "[1.0, -0.0]", updates=False),
    "json null": Twins("JSON", Column("v", "json"), "null", None),
    "geometry": Twins("POINT", Column("v", "point"), _point(1.0), _point(1.5)),
    "vector": Twins(
        "VECTOR(2)",
        Column("v", "vector", length=2),
        struct.pack("<ff", 1, 2),
        struct.pack("<ff", 1, 3),
        "mysql",
        read="HEX(v)",
    ),
    "negative zero": Twins("DOUBLE", Column("v", "double"), -0.0, 0.0, "mysql", updates=False),
    "negative zero float": Twins("FLOAT", Column("v", "float"), 0.0, -0.0, "mysql", updates=False),
    "uuid": Twins("UUID", Column("v", "uuid"), bytes(15) + b"\1", bytes(15) + b"\2", "mariadb"),
    "inet6": Twins("INET6", Column("v", "inet6"), bytes(15) + b"\1", bytes(15) + b"\2", "mariadb"),
}


@dataclass(frozen=True)
class Desk:
    """One server with a session."""

    server: ThrowawayServer
    connection: TargetConnection
    schemas: TargetSchemas


@pytest.fixture(scope="module")
def desks(park: ServerPark) -> Iterator[dict[Flavor, Desk]]:
    made = {}
    for flavor in FLAVORS:
        server = park.shared(flavor, "target")
        connect = partial(TargetConnection, endpoint_of(server))
        made[flavor] = Desk(server, connect(), TargetSchemas(connect))
    yield made
    for desk in made.values():
        desk.connection.close()
        desk.schemas.close()


CASES = [(f, name) for name, twins in TWINS.items() for f in FLAVORS if twins.only in (None, f)]


@pytest.mark.parametrize(("flavor", "case"), CASES)
def test_the_twin_of_a_keyless_row_stays(
    desks: dict[Flavor, Desk], schema: SchemaFactory, flavor: Flavor, case: str
) -> None:
    desk, twins = desks[flavor], TWINS[case]
    table = TableName(schema(desk.server), "t")
    desk.server.execute(f"CREATE TABLE {table.sql} (v {twins.ddl}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4")
    target = desk.schemas.get(table)
    assert target is not None
    source = TableSchema(TableName("s", "t"), (twins.column,))
    plan = build_plan(source, source.columns, target, PlanOptions(flavor))
    assert not plan.keyed

    def change(before: Value | str, after: Value | str) -> RowChange:
        kind = ChangeKind.INSERT if before == "-" else ChangeKind.DELETE if after == "-" else ChangeKind.UPDATE
        return RowChange(
            plan, kind, None if before == "-" else (before,), None if after == "-" else (after,), safe=False
        )

    read = f"SELECT {twins.read} FROM {table.sql}"
    apply_batch(desk.connection, [change("-", twins.second)])
    twin = desk.connection.query(read)
    for _ in range(2):
        apply_batch(desk.connection, [change("-", twins.first)])
    first = next(row for row in desk.connection.query(read) if repr(row) != repr(twin[0]))
    apply_batch(desk.connection, [change(twins.first, "-")])
    assert sorted(map(repr, desk.connection.query(read))) == sorted(map(repr, [*twin, first]))
    if twins.updates:
        apply_batch(desk.connection, [change(twins.first, twins.second)])
    else:
        apply_batch(desk.connection, [change(twins.first, "-"), change("-", twins.second)])
    assert list(map(repr, desk.connection.query(read))) == [repr(twin[0])] * 2
    with pytest.raises(DMError) as caught:
        apply_batch(desk.connection, [change(twins.first, "-")])
    assert caught.value.name == "row-missing"


@pytest.mark.parametrize("flavor", FLAVORS)
def test_what_the_target_knows_of_its_table(desks: dict[Flavor, Desk], schema: SchemaFactory, flavor: Flavor) -> None:
    desk = desks[flavor]
    name = schema(desk.server)
    table = TableName(name, "t")
    assert desk.schemas.get(table) is None
    assert desk.schemas.get(TableName("no_such_schema", "t")) is None
    desk.server.execute(
        f"CREATE TABLE {table.sql} (id INT PRIMARY KEY, v VARCHAR(9)) DEFAULT CHARSET=latin1",
        f"CREATE TRIGGER {name}.tr BEFORE INSERT ON {table.sql} FOR EACH ROW SET NEW.v = 'x'",
        f"CREATE TABLE {name}.m (id INT PRIMARY KEY) ENGINE=MyISAM",
        f"CREATE VIEW {name}.w AS SELECT 1 AS a",
    )
    found = desk.schemas.get(table)
    assert found is not None
    assert found.triggers
    column = found.schema.column("V")
    assert column is not None
    assert (column.charset, column.collation) == ("latin1", "latin1_swedish_ci")
    for other in ("m", "w"):
        with pytest.raises(DMError) as caught:
            desk.schemas.get(TableName(name, other))
        assert caught.value.name == "target-table-unsuitable"
    desk.server.execute(f"ALTER TABLE {table.sql} ADD COLUMN w INT")
    assert desk.schemas.get(table) is found
    read = desk.schemas.read(table)
    assert read is not None
    assert read.column("w") is not None
    desk.schemas.invalidate_all()
    again = desk.schemas.get(table)
    assert again is not None
    assert again.schema.column("w") is not None
