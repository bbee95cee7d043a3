"""What arrives in a column of another type: the same value, an error, or, where the plan says so, another value.

Every type goes into every other one, as the syncer would write it. The servers say what became of the values.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

import pytest

from dm.changes.column_map import keeps_values
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import Value
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.types.registry import KNOWN
from tests.live.changes.tables import endpoint_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.serial_apply import apply_serially

pytestmark = pytest.mark.live


def _single(value: float) -> float:
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return single


def _point(x: float) -> bytes:
    return struct.pack("<IBIdd", 0, 1, 1, x, 2.0)


def _line() -> bytes:
    return struct.pack("<IBIIdddd", 0, 1, 2, 2, 0, 0, 1, 1)


_SIGNED: list[Value] = [0, 1, -1, 5, 70, 127, -128]
_DOUBLES: list[Value] = [0.0, 1.0, 1.5, 0.1, -0.05, 1e10, 1e-7, 123456.789, 2.0**53]
_SINGLES: list[Value] = [_single(value) for value in (0.0, 1.0, 0.1, -1.25, 16777215.0, 3e10)]
_CENTS: list[Value] = ["0.00", "1.10", "-1.05", "70.00", "99999999.99"]
_TEXT_VALUES: list[Value] = [
    b"",
    b"a",
    b"A",
    b"1",
    b"01",
    b"1.5",
    b"5",
    b"x,y",
    b"2024-01-02",
    b"[1, 1.0]",
    b'{"a":1}',
    b"\0",
]
# What servers take for white space: they cut it from the end of a text that is too long.
_SPACED: list[Value] = [b"ab\n", b"ab\t", b"ab\r\n", b"ab\x0b", b"ab\x0c", b"a\n\n\n"]
_PADDED: list[Value] = [*_TEXT_VALUES, b"a ", b"a" + b" " * 15, b"b" * 16]
_UNICODE: list[Value] = ["é".encode(), "ж".encode(), "日本".encode(), "𐀁".encode(), "晡".encode()]
_BYTE_VALUES: list[Value] = [b"", b"a", b"a\0", b"\0a ", b"\xff\xfe", b"1", b"ab", b"[1]"]
_MOMENTS: list[Value] = ["2024-01-02 03:04:05.600001", "2024-01-02 00:00:00.000000", "0000-00-00 00:00:00.000000"]

# A column at the source and what it may hold, as the decoder gives it.
SOURCES: Final[dict[str, list[Value]]] = {
    "TINYINT": _SIGNED,
    "SMALLINT": [*_SIGNED, 2024, -32768],
    "MEDIUMINT UNSIGNED": [0, 1, 70, 16777215, 240102],
    "INT": [*_SIGNED, 2024, 16777217, 2147483647, 20240102],
    "INT UNSIGNED": [0, 1, 70, 4294967295],
    "BIGINT": [*_SIGNED, 2**53 + 1, 2**63 - 1, -(2**63), 20240102030405],
    "BIGINT UNSIGNED": [0, 1, 70, 2**63, 2**64 - 1],
    "DECIMAL(10,2)": _CENTS,
    "DECIMAL(10,4)": ["0.0000", "1.0001", "-1.0050", "1.0000"],
    "DECIMAL(5,0)": ["0", "5", "-1", "99999"],
    "DECIMAL(15,0)": ["0", "5", "999999999999999"],
    "DECIMAL(20,0)": ["0", "5", "99999999999999999999", "9007199254740993"],
    "FLOAT": _SINGLES,
    "FLOAT(7,2)": [_single(value) for value in (0.0, 1.5, 0.1, 99999.99)],
    "DOUBLE": _DOUBLES,
    "DOUBLE(7,2)": [0.0, 1.5, 0.1, 99999.99],
    "BIT(1)": [0, 1],
    "BIT(16)": [0, 1, 70, 65535],
    "BIT(64)": [0, 1, 2**53 + 1, 2**63, 2**64 - 1],
    "YEAR": [0, 1901, 2024, 2155],
    "DATE": ["2024-01-02", "0000-00-00", "2024-02-30", "2024-00-00", "1000-01-01"],
    "TIME": ["00:00:00", "-00:00:01", "838:59:59", "-838:59:59", "10:11:12"],
    "TIME(6)": ["00:00:00.000000", "-00:00:01.400001", "10:11:12.999999"],
    "DATETIME": ["2024-01-02 03:04:05", "0000-00-00 00:00:00", "2024-02-30 00:00:00", "1000-01-01 00:00:00"],
    "DATETIME(3)": ["2024-01-02 03:04:05.600", "2024-01-02 00:00:00.000", "9999-12-31 23:59:59.999"],
    "DATETIME(6)": _MOMENTS,
    "TIMESTAMP": ["2024-01-02 03:04:05", "0000-00-00 00:00:00"],
    "TIMESTAMP(6)": _MOMENTS,
    "CHAR(10)": [*_TEXT_VALUES, *_SPACED, b"b" * 10, "é".encode(), "ab\u00a0".encode(), "ab\u3000".encode()],
    "CHAR(10) CHARACTER SET latin1": [*_SPACED, b"ab\xa0"],
    "CHAR(10) CHARACTER SET cp1251": [*_SPACED, b"ab\xa0"],
    "CHAR(16) CHARACTER SET utf16": [text.encode("utf-16-be") for text in ("", "a", "é", "b" * 16, "日本", "ab\n")],
    "CHAR(63)": ["€".encode() * 62 + b"\n"],
    "CHAR(255)": ["é".encode() * 127 + b"a\n", b"a" * 254 + b"\n"],
    "CHAR(255) CHARACTER SET ascii": [b"a" * 254 + b"\n"],
    "CHAR(255) CHARACTER SET latin1": [b"\xe9" * 254 + b"\n", b"\xe9" * 127 + b"a\n", b"\xe9" * 127 + b"a\xa0"],
    "VARCHAR(16)": [*_PADDED, *_UNICODE],
    "VARCHAR(16) CHARACTER SET utf8mb3": [*_PADDED, *_UNICODE[:3]],
    "VARCHAR(16) CHARACTER SET ascii": _PADDED,
    "VARCHAR(16) CHARACTER SET latin1": [*_PADDED, b"\xe9", b"\x80", b"\xff"],
    "VARCHAR(16) CHARACTER SET cp1251": [*_PADDED, b"\xe6", b"\x98"],
    "VARCHAR(16) CHARACTER SET sjis": [*_PADDED, b"\x93\xfa"],
    "VARCHAR(16) CHARACTER SET ucs2": [text.encode("utf-16-be") for text in ("", "a", "a ", "1", "é", "晡")],
    "VARCHAR(300)": [*_PADDED, b"c" * 300, b"c" + b" " * 299],
    "TINYTEXT": [*_PADDED, b"c" * 255, b"c" + b" " * 254],
    "TEXT": [*_PADDED, b"c" * 65535, b"c" + b" " * 65534],
    "LONGTEXT CHARACTER SET latin1": [*_PADDED, b"\xe9" * 70000, b"d" + b" " * 70000],
    "BINARY(2)": [b"\0\0", b"a\0", b"ab", b"a ", b"\xff\0"],
    "VARBINARY(16)": _BYTE_VALUES,
    "BLOB": [*_BYTE_VALUES, b"x" * 65535],
    "ENUM('a','1','é','5')": [1, 2, 3, 4],
    "ENUM('2','1','a b','晡')": [1, 2, 3, 4],
    "SET('a','1','é')": [0, 1, 2, 3, 7],
    "ENUM('ab\\n','x\\t')": [1, 2],
    "ENUM('éé\\n') CHARACTER SET latin1": [1],
    "ENUM('a ') CHARACTER SET binary": [1],
    "SET('ab\\n','x\\t')": [1, 2, 3],
    "GEOMETRY": [_point(1.0), _line()],
    "POINT": [_point(1.0)],
}
OF_ONE_FAMILY: Final[dict[Flavor, dict[str, list[Value]]]] = {
    "mysql": {
        "JSON": ['{"a": 1, "é": [1.0, 2]}', "[]", "null", "1.5", '"text "', '"晡"'],
        "VECTOR(2)": [struct.pack("<ff", 1, 2)],
        "VECTOR(3)": [struct.pack("<fff", 1, 2, 0.5)],
    },
    "mariadb": {
        "UUID": [bytes(range(16)), bytes(15) + b"\1"],
        "INET4": [b"\1\2\3\4", bytes(4)],
        "INET6": [bytes(10) + b"\xff\xff\1\2\3\0", bytes(15) + b"\1"],
        "LONGTEXT CHECK (JSON_VALID(v))": [b'{"a" :1, "a":2}', b"1.0"],
    },
}
TARGETS: Final = (
    "DECIMAL(10,1)", "DECIMAL(40,20)", "FLOAT(10,2)", "DOUBLE(12,3)", "BIT(63)", "DATETIME(1)", "TIMESTAMP(3)",
    "TIME(3)", "CHAR(2)", "CHAR(40)", "VARCHAR(2)", "VARCHAR(255)", "VARCHAR(40) CHARACTER SET tis620",
    "CHAR(40) CHARACTER SET swe7", "VARCHAR(40) CHARACTER SET cp932", "VARCHAR(40) CHARACTER SET utf32",
    "TEXT CHARACTER SET latin1", "TINYTEXT CHARACTER SET latin1", "MEDIUMTEXT", "TEXT CHARACTER SET ucs2", "BINARY(4)",
    "VARBINARY(2)", "LONGBLOB", "ENUM('é','a','2')", "SET('é','a','2')", "LINESTRING",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A table with the one column `v`."""

    definition: str
    table: TableName
    column: Column


def _places(
    server: ThrowawayServer, schemas: TargetSchemas, schema: str, definitions: Iterable[str], prefix: str
) -> list[Place]:
    made, tables, statements = [], dict[str, TableName](), []
    for number, definition in enumerate(dict.fromkeys(definitions)):
        table = tables[definition] = TableName(schema, f"{prefix}{number}")
        # What MariaDB calls JSON has its CHECK after it.
        kind, _, check = definition.partition(" CHECK")
        statements.append(
            f"CREATE TABLE {table.sql} (v {kind} NULL{' CHECK' + check if check else ''}) DEFAULT CHARSET utf8mb4"
        )
    server.execute(*statements)
    for definition, table in tables.items():
        found = schemas.get(table)
        assert found is not None
        made.append(Place(definition, table, found.schema.columns[0]))
    return made


_INTEGERS: Final = frozenset(name for name, of in KNOWN.types.items() if of.is_integer)
_TEXTS: Final = frozenset(name for name, of in KNOWN.types.items() if of.is_text)
_BYTES: Final = frozenset(name for name, of in KNOWN.types.items() if of.is_bytes)
_NUMBERS: Final = _INTEGERS | {"decimal", "float", "double", "bit", "year"}
_TIMES: Final = frozenset({"date", "time", "datetime", "timestamp"})
_SHAPES: Final = frozenset({"geometry", "point", "linestring", "vector"})


def _read(connection: TargetConnection, place: Place, source: Column, *, raw: bool) -> object:
    """The one value of the table, in terms of what the source's column holds; `raw`: the bytes of a text."""
    base = place.column.base
    if base in ("float", "double"):
        return Decimal(connection.query(f"SELECT v * 1e0 FROM {place.table.sql}")[0][0])
    if base == "bit":
        return Decimal(connection.query(f"SELECT v + 0 FROM {place.table.sql}")[0][0])
    as_bytes = base in _BYTES | _SHAPES or (raw and base in _TEXTS)
    read = "v" if as_bytes else "CONVERT(CONCAT(v) USING utf8mb4)"
    found = bytes.fromhex(str(connection.query(f"SELECT HEX({read}) FROM {place.table.sql}")[0][0]))
    if source.base in _NUMBERS:
        try:
            return Decimal(found.decode())
        except (InvalidOperation, UnicodeDecodeError):
            return found
    if source.base in _TIMES:
        text = found.decode(errors="replace")
        if source.base != "time" and " " not in text:
            text += " 00:00:00"
        return (text.rstrip("0").rstrip(".") if "." in text else text).encode()
    return found


# What a pair is of, for the list below.
KINDS: Final = {
    **dict.fromkeys(_INTEGERS, "integer"),
    **dict.fromkeys(_TEXTS, "text"),
    **dict.fromkeys(_BYTES, "bytes"),
    **dict.fromkeys(_SHAPES, "shape"),
    **dict.fromkeys(("float", "double"), "floating"),
    **dict.fromkeys(("date", "time", "datetime"), "clock"),
    **dict.fromkeys(("enum", "set"), "labels"),
    **dict.fromkeys(("uuid", "inet4", "inet6"), "address"),
}
# Kinds of pairs that are refused although none of these values was changed, each for a reason of the module's.
ON_PURPOSE: Final = {("timestamp", "text"), ("timestamp", "bytes"), ("year", "text"), ("shape", "bytes")}


def _outcomes(
    connection: TargetConnection,
    source: Place,
    targets: Sequence[Place],
    schemas: TargetSchemas,
    values: Sequence[Value],
) -> Iterator[tuple[Place, str]]:
    """Where each value of a source goes without an error, and what it becomes if it is changed."""
    column = source.column
    plans: dict[TableName, TablePlan] = {}
    wire = TableSchema(source.table, (column,))
    for place in targets:
        found = schemas.get(place.table)
        assert found is not None
        options = PlanOptions(connection.flavor, narrower_columns="accept")
        plans[place.table] = build_plan(wire, wire.columns, found, options)
    for value in values:
        connection.begin()
        literal = column.encoder()(value)
        connection.run(b"INSERT INTO " + source.table.sql.encode() + b" VALUES (" + literal + b")")
        for place in targets:
            connection.execute("SAVEPOINT before_it")
            change = RowChange(plans[place.table], ChangeKind.INSERT, None, (value,), safe=False)
            try:
                apply_serially(connection, [change])
            except DMError:
                connection.execute("ROLLBACK TO before_it")
                continue
            raw = column.base in _BYTES | _SHAPES or (column.base in _TEXTS and place.column.base in _BYTES)
            before, after = (_read(connection, at, column, raw=raw) for at in (source, place))
            yield place, "" if before == after else f"{value!r} is {after!r}"
        connection.rollback()


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("apart", [40, pytest.param(1, marks=pytest.mark.chaos)], ids=["sample", "all"])
def test_no_value_becomes_another_where_the_plan_takes_it_for_the_same(
    flavor: Flavor, target: ThrowawayServer, schema: SchemaFactory, apart: int
) -> None:
    """Each source's column goes into all targets', or into every fifth, one further for each source."""
    name = schema(target)
    connect = endpoint_of(target)
    schemas = TargetSchemas(lambda: TargetConnection(connect))
    values = {**SOURCES, **OF_ONE_FAMILY[flavor]}
    sources = _places(target, schemas, name, values, "s")
    targets = _places(target, schemas, name, (*values, *TARGETS), "t")
    wrong: list[tuple[str, ...]] = []
    kept, refused, changed = 0, set[tuple[str, ...]](), set[tuple[str, ...]]()
    with TargetConnection(connect) as connection:
        for number, source in enumerate(sources):
            tried = targets[number % apart :: apart]
            for place, becomes in _outcomes(connection, source, tried, schemas, values[source.definition]):
                pair = (source.definition, place.definition)
                kinds = tuple(KINDS.get(one.column.base, one.column.base) for one in (source, place))
                keeps = keeps_values(source.column, place.column)
                if becomes and keeps:
                    wrong.append((*pair, becomes))
                kept += keeps
                if not keeps:
                    (changed if becomes else refused).add((*kinds, *pair))
    schemas.close()
    assert not wrong
    print(f"{flavor}: {kept} values are the same; {len(changed)} pairs change values")
    assert (kept > 7000 // apart, len(changed) > 1000 // apart) == (True, True)
    if apart == 1:
        # Of a kind of pairs that is refused, some values are changed, or it is listed.
        assert {pair[:2] for pair in refused} - {pair[:2] for pair in changed} <= ON_PURPOSE
