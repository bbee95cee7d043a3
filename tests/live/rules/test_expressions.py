"""Row expressions give what the server gives, for every expression that is not refused."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable

import pytest
from pymysql.cursors import Cursor
from pymysql.err import DataError, OperationalError

from dm.config.expression import parse_expression
from dm.config.server_expression import ExpressionError
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import ServerWeights
from dm.ident import Ident
from dm.mysql.binlog.value import Row, Value
from dm.mysql.schema.table import Column
from dm.rules.comparisons import PLAIN_COLLATION
from dm.rules.evaluation import compile_condition
from dm.rules.node import InexactError
from tests.testbed import figures
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of

pytestmark = pytest.mark.live

COLUMNS = (
    Column("i", "int"),
    Column("u", "bigint", unsigned=True),
    Column("bits", "bit", 16),
    Column("d", "decimal", 12, 3),
    Column("f", "double"),
    Column("s", "float"),
    Column("y", "year"),
    Column("b", "varchar", 20, charset="utf8mb4", collation="utf8mb4_bin"),
    Column("g", "varchar", 20, charset="utf8mb4", collation="utf8mb4_general_ci"),
    Column("l", "char", 20, charset="latin1", collation="latin1_swedish_ci"),
    Column("x", "text", charset="utf8mb4", collation="utf8mb4_unicode_ci"),
    Column("raw", "varbinary", 20),
    Column("day", "date"),
    Column("at", "datetime", decimals=3),
    Column("stamp", "timestamp", decimals=2),
    Column("t", "time", decimals=3),
    Column("e", "enum", charset="utf8mb4", collation="utf8mb4_bin", members=("new", "Done")),
)
TABLE = """CREATE TABLE {}.expressions (
    n INT PRIMARY KEY, i INT, u BIGINT UNSIGNED, bits BIT(16), d DECIMAL(12,3), f DOUBLE, s FLOAT, y YEAR,
    b VARCHAR(20) COLLATE utf8mb4_bin, g VARCHAR(20) COLLATE utf8mb4_general_ci,
    l CHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci, x TEXT COLLATE utf8mb4_unicode_ci, raw VARBINARY(20),
    day DATE, at DATETIME(3), stamp TIMESTAMP(2) NULL, t TIME(3), e ENUM('new','Done') COLLATE utf8mb4_bin
) CHARACTER SET utf8mb4"""
ROWS: tuple[tuple[Value, ...], ...] = (
    (1, 2, 5, "1.500", 0.5, 0.1, 2024, "abc", "aBc", "abc", "Abc", "abc",
     "2024-02-01", "2024-02-01 10:00:00.500", "2024-02-01 10:00:00.50", "10:00:00.000", 2),
    (-1, 18446744073709551615, 0, "-0.001", -3.25, -3.25, 1999, "ABC ", "x y", "ABC", "x y ", "ABC ",
     "1999-12-31", "2024-02-01 00:00:00.000", "1970-01-02 00:00:00.00", "-00:30:00.001", 1),
    (0, 0, 65535, "0.000", 0.0, 0.0, 2155, "", "", "", "", "",
     "2024-02-29", "1000-01-01 00:00:00.000", "2024-02-01 00:00:00.00", "838:59:59.000", 1),
    (None,) * 17,
    (2147483647, 9223372036854775808, 256, "999999999.999", 1e300, 1.5, 1901, "a%_c", "a_C", "a%c", "a_c", "a%_c",
     "9999-12-31", "9999-12-31 23:59:59.999", "2037-12-31 23:59:59.99", "-838:59:59.000", 2),
    (3, 7, 3, "3.000", 3.0, 3.0, 2000, "straße", "Straße", "Stra\xdfe", "straße", "straße",
     "2000-01-01", "2000-01-01 00:00:00.001", "2000-01-01 00:00:00.01", "00:00:00.000", 1),
    (2, 9, 1, "2.000", 1e10, 16777216.0, 2001, "a\tb", "ÁBC", "\xc1BC", "ÀBC", "Á",
     "2001-01-01", "2001-01-01 12:00:00.000", "2001-01-01 12:00:00.00", "12:34:56.789", 2),
)  # fmt: skip
NUMBERS = ("i", "u", "bits", "d", "f", "s", "0", "1", "2", "-7", "1.5", "0.001", "3", "2e0", "NULL",
           "9223372036854775807", "18446744073709551615", "-1.5e0", "0.1")  # fmt: skip
TEXTS = ("'abc'", "'ABC'", "'aBc '", "''", "'a%'", "'_bc'", "'x y'", "'new'", "'Done'", "NULL",
         "'straße'", "'STRASSE'", "'stra_e'", "'áBC'", "'á%'", "'a'")  # fmt: skip
TIMES = ("'2024-02-01'", "'2024-02-01 10:00:00.5'", "'1999-12-31'", "'9999-12-31 23:59:59'", "NULL")
MOMENTS = ("'2024-02-01 10:00:00.5'", "'2024-02-01'", "'1999-12-31 23:00:00'", "NULL")
CLOCKS = ("'10:00:00'", "'-00:30:00.001'", "'838:59:59'", "'00:00:00'", "'12:34:56.789'", "NULL")
YEARS = ("2024", "1901", "2155", "1999", "NULL", "24")
COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=", "<=>")
OPERANDS = {"y": YEARS, "day": TIMES, "at": TIMES, "stamp": MOMENTS, "t": CLOCKS} | dict.fromkeys(
    ("b", "g", "l", "x", "raw", "e"), TEXTS
)


def expression(draw: random.Random, depth: int) -> str:
    """A condition that a user could write."""
    if depth and draw.random() < 0.55:
        left, right = expression(draw, depth - 1), expression(draw, depth - 1)
        form = draw.choice(
            ["({}) AND ({})", "({}) OR ({})", "({}) XOR ({})", "NOT ({})", "{} AND {}", "{} OR {}", "!({})"]
            + ["({}) IS TRUE", "({}) IS NOT FALSE"]
        )
        return form.format(left, right)
    left = number(draw, 2) if draw.random() < 0.4 else draw.choice(sorted(OPERANDS))
    choices = OPERANDS.get(left)
    others = [number(draw, 1) if choices is None else draw.choice(choices) for _ in range(3)]
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


def agree(server: ThrowawayServer, schema: str, seed: int, count: int) -> tuple[int, int]:
    """Compare that many expressions with the server; gives how many answers agreed, and how many texts were asked for.

    The oracle is the server itself, as the target is in a task: what is tested is what is done without it, and that it
    is asked the right question.
    """
    name = Ident(schema).sql
    server.execute(TABLE.format(name))
    rows = [_decoded(values) for values in ROWS]
    draw = random.Random(seed)
    compared = 0
    connection = server.connect(autocommit=True, charset="utf8mb4")
    weights = ServerWeights(lambda: TargetConnection(endpoint_of(server)))
    with connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        marks = ", ".join(["%s"] * (len(COLUMNS) + 1))
        for number_of_row, values in enumerate(ROWS):
            cursor.execute(f"INSERT INTO {name}.expressions VALUES ({marks})", (number_of_row, *values))
        for _ in range(count):
            text = expression(draw, 3)
            try:
                condition = compile_condition(parse_expression(text), COLUMNS, weights, "+00:00")
            except (ExpressionError, InexactError):
                continue
            # All rows at once, or one by one where some row makes the server refuse the statement.
            theirs = _asked(cursor, f"SELECT n, ({text}) IS TRUE FROM {name}.expressions", range(len(ROWS)))
            for number_of_row, row in enumerate(rows):
                ours = _ours(condition, row)
                if ours is None or number_of_row not in theirs:
                    continue
                assert ours == theirs[number_of_row], f"{text} on {row}, seed {seed}"
                compared += 1
    weights.close()
    return compared, weights.questions


def _asked(cursor: Cursor, query: str, numbers: Iterable[int]) -> dict[int, bool]:
    try:
        cursor.execute(query)
        return {int(row[0]): bool(row[1]) for row in cursor.fetchall()}
    except (DataError, OperationalError):  # out of range in a part that does not count here
        found: dict[int, bool] = {}
        for number_of_row in numbers:
            try:
                cursor.execute(f"{query} WHERE n = {number_of_row}")
            except (DataError, OperationalError):
                continue
            found |= {int(row[0]): bool(row[1]) for row in cursor.fetchall()}
        return found


def test_conditions_agree_with_the_server(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    compared, questions = agree(upstream, schema(upstream), 20260111, 600)
    assert compared > 500
    assert questions > 20


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(6))
def test_many_conditions_agree_with_the_server(upstream: ThrowawayServer, schema: SchemaFactory, seed: int) -> None:
    compared, _ = agree(upstream, schema(upstream), seed, 3000)
    figures.record(f"rules.expressions.{upstream.flavor}.{seed}", {"answers": compared, "differences": 0})


@pytest.mark.parametrize(
    "text",
    [
        *("i IN (u, 1)", "i IN (u)", "i IN (i, u)", "i IN (1, 18446744073709551615)", "i IN (1, u)", "i NOT IN (1, u)"),
        *("i IN (bits, 18446744073709551615)", "u IN (-1, 1)", "u IN (i, 1)", "u IN (u, -1)", "u IN (bits, 1)"),
        *("i IN (18446744073709551615, 0.1)", "u IN (-1, 18446744073709551616)", "-1 IN (u, 1)", "u + 0 IN (i, 1)"),
    ],
)
def test_in_over_both_kinds_of_integers_is_the_servers_or_refused(
    upstream: ThrowawayServer, schema: SchemaFactory, text: str
) -> None:
    """MySQL compares the bits of such integers where the list is not all constants of one kind."""
    name = Ident(schema(upstream)).sql
    upstream.execute(
        f"CREATE TABLE {name}.pairs (n INT PRIMARY KEY AUTO_INCREMENT, i INT, u BIGINT UNSIGNED, bits BIT(16))",
        f"INSERT INTO {name}.pairs (i, u, bits) VALUES (-1, 18446744073709551615, 0), (1, 1, 1), (NULL, NULL, NULL)",
    )
    try:
        condition = compile_condition(parse_expression(text), COLUMNS[:3])
    except InexactError:
        return
    rows = ((-1, (1 << 64) - 1, 0), (1, 1, 1), (None, None, None))
    found = upstream.query(f"SELECT ({text}) IS TRUE FROM {name}.pairs ORDER BY n")
    assert [condition(row) for row in rows] == [bool(answer) for (answer,) in found]


def _decoded(values: tuple[Value, ...]) -> Row:
    return tuple(
        value.encode("latin1" if column.charset == "latin1" else "utf8")
        if column.base in ("varchar", "char", "text", "varbinary") and isinstance(value, str)
        else struct.unpack("f", struct.pack("f", value))[0]
        if column.base == "float" and isinstance(value, float)
        else value
        for value, column in zip(values, COLUMNS, strict=True)
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
