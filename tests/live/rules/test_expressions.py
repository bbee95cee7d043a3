"""Row expressions give what the server gives, for every expression that is not refused."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from pymysql.err import DataError, OperationalError

from dm.binlog.value import Row, Value
from dm.config.expression import ExpressionError, parse_expression
from dm.demo.servers import ThrowawayServer
from dm.ident import Ident
from dm.rules.evaluation import PLAIN_COLLATION, InexactError, compile_condition
from dm.schema.table import Column
from tests.testbed.fixtures import SchemaFactory

pytestmark = pytest.mark.live

COLUMNS = (
    Column("i", "int"),
    Column("u", "bigint", unsigned=True),
    Column("d", "decimal", 12, 3),
    Column("f", "double"),
    Column("b", "varchar", 20, charset="utf8mb4", collation="utf8mb4_bin"),
    Column("g", "varchar", 20, charset="utf8mb4", collation="utf8mb4_general_ci"),
    Column("day", "date"),
    Column("at", "datetime", decimals=3),
    Column("e", "enum", charset="utf8mb4", collation="utf8mb4_bin", members=("new", "Done")),
)
TABLE = """CREATE TABLE {}.expressions (
    n INT PRIMARY KEY, i INT, u BIGINT UNSIGNED, d DECIMAL(12,3), f DOUBLE,
    b VARCHAR(20) COLLATE utf8mb4_bin, g VARCHAR(20) COLLATE utf8mb4_general_ci, day DATE, at DATETIME(3),
    e ENUM('new','Done') COLLATE utf8mb4_bin
) CHARACTER SET utf8mb4"""
ROWS: tuple[tuple[Value, ...], ...] = (
    (1, 2, "1.500", 0.5, "abc", "aBc", "2024-02-01", "2024-02-01 10:00:00.500", 2),
    (-7, 18446744073709551615, "-0.001", -3.25, "ABC ", "x y", "1999-12-31", "2024-02-01 00:00:00.000", 1),
    (0, 0, "0.000", 0.0, "", "", "2024-02-29", "1000-01-01 00:00:00.000", 1),
    (None,) * 9,
    (
        2147483647,
        9223372036854775808,
        "999999999.999",
        1e300,
        "a%_c",
        "a_C",
        "9999-12-31",
        "9999-12-31 23:59:59.999",
        2,
    ),
)
NUMBERS = ("i", "u", "d", "f", "0", "1", "2", "-7", "1.5", "0.001", "3", "2e0", "NULL", "9223372036854775807", "-1.5e0")
TEXTS = ("'abc'", "'ABC'", "'aBc '", "''", "'a%'", "'_bc'", "'x y'", "'new'", "'Done'", "NULL")
TIMES = ("'2024-02-01'", "'2024-02-01 10:00:00.5'", "'1999-12-31'", "'9999-12-31 23:59:59'", "NULL")
COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=", "<=>")


def expression(draw: random.Random, depth: int) -> str:
    """A condition that a user could write."""
    if depth and draw.random() < 0.55:
        left, right = expression(draw, depth - 1), expression(draw, depth - 1)
        form = draw.choice(
            ["({}) AND ({})", "({}) OR ({})", "({}) XOR ({})", "NOT ({})", "{} AND {}", "{} OR {}", "!({})"]
        )
        return form.format(left, right)
    left = number(draw, 2) if draw.random() < 0.5 else draw.choice(["b", "g", "e", "day", "at"])
    if left in ("day", "at"):
        others = [draw.choice(TIMES) for _ in range(3)]
    elif left in ("b", "g", "e"):
        others = [draw.choice(TEXTS) for _ in range(3)]
    else:
        others = [number(draw, 1) for _ in range(3)]
    form = draw.choice(
        [f"{{0}} {comparison} {{1}}" for comparison in COMPARISONS]
        + [
            "{0} IS NULL",
            "{0} IS NOT NULL",
            "{0} IN ({1}, {2})",
            "{0} NOT IN ({1}, {2}, {3})",
            "{0} BETWEEN {1} AND {2}",
        ]
        + ["{0} NOT BETWEEN {1} AND {2}", "{0} LIKE {1}", "{0} NOT LIKE {1}"]
    )
    return form.format(left, *others)


def number(draw: random.Random, depth: int) -> str:
    if not depth or draw.random() < 0.5:
        return draw.choice(NUMBERS)
    operator = draw.choice(["+", "-", "*", "%", "DIV", "MOD"])
    left, right = number(draw, depth - 1), number(draw, depth - 1)
    return draw.choice(["{} {} {}", "({} {} {})", "-({} {} {})"]).format(left, operator, right)


def test_conditions_agree_with_the_server(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    name = Ident(schema(upstream)).sql
    upstream.execute(TABLE.format(name))
    connection = upstream.connect(autocommit=True, charset="utf8mb4")
    with connection, connection.cursor() as cursor:
        marks = ", ".join(["%s"] * (len(COLUMNS) + 1))
        for number_of_row, values in enumerate(ROWS):
            cursor.execute(f"INSERT INTO {name}.expressions VALUES ({marks})", (number_of_row, *values))
        rows = [_decoded(values) for values in ROWS]
        draw = random.Random(20260111)
        compared = 0
        for _ in range(600):
            text = expression(draw, 3)
            try:
                condition = compile_condition(parse_expression(text), COLUMNS, None)
            except (ExpressionError, InexactError):
                continue
            for number_of_row, row in enumerate(rows):
                ours = _ours(condition, row)
                if ours is None:
                    continue
                try:
                    cursor.execute(f"SELECT ({text}) IS TRUE FROM {name}.expressions WHERE n = {number_of_row}")
                    (theirs,) = cursor.fetchone() or (None,)
                except (DataError, OperationalError):  # out of range in a part that does not count here
                    continue
                assert ours == bool(theirs), f"{text} on {row}"
                compared += 1
    assert compared > 500


def _decoded(values: tuple[Value, ...]) -> Row:
    texts = [column.base == "varchar" for column in COLUMNS]
    return tuple(
        value.encode() if text and isinstance(value, str) else value for value, text in zip(values, texts, strict=True)
    )


def _ours(condition: Callable[[Row], bool], row: Row) -> bool | None:
    try:
        return condition(row)
    except InexactError:
        return None


def test_plain_collations_take_printable_ascii_for_equal_by_case_only(
    upstream: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = Ident(schema(upstream)).sql
    printable = "".join(map(chr, range(0x21, 0x7F)))
    letters = ", ".join(f"(CHAR({ord(letter)} USING ascii))" for letter in printable)
    found = upstream.query("SELECT COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLLATIONS")
    plain = [
        (str(collation), str(charset)) for collation, charset in found if PLAIN_COLLATION.fullmatch(str(collation))
    ]
    assert len(plain) > 5
    for collation, charset in plain:
        upstream.execute(
            f"CREATE TABLE {name}.{collation} (c VARCHAR(1) CHARACTER SET {charset} COLLATE {collation})",
            f"INSERT INTO {name}.{collation} VALUES {letters}",
        )
        pairs = upstream.query(
            f"SELECT CAST(a.c AS CHAR), CAST(b.c AS CHAR) "
            f"FROM {name}.{collation} a JOIN {name}.{collation} b ON a.c = b.c"
        )
        fold = str if collation.endswith("_cs") else str.lower
        expected = {(one, other) for one in printable for other in printable if fold(one) == fold(other)}
        assert set(pairs) == expected, collation
