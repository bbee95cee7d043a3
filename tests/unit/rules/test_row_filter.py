"""Expression filters skip the rows the server's WHERE would find, and refuse what they can't know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.config.expression import ExpressionFilter, columns_of, parse_expression
from dm.config.server_expression import ExpressionError
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import ABSENT, Row, Value
from dm.mysql.schema.table import Column, TableSchema
from dm.rules import RowFilter, TableRules
from dm.rules.comparisons import Question
from dm.rules.row_filter import Judges, ServerCondition
from dm.rules.table_rules import RowEvent
from tests.unit.rules.subtasks import subtask

BIN = {"charset": "utf8mb4", "collation": "utf8mb4_bin"}
CI = {"charset": "utf8mb4", "collation": "utf8mb4_0900_ai_ci"}
COLUMNS = (
    Column("i", "int"),
    Column("u", "bigint", unsigned=True),
    Column("d", "decimal", 10, 2),
    Column("f", "double"),
    Column("b", "varchar", 20, charset="utf8mb4", collation="utf8mb4_bin"),
    Column("c", "varchar", 20, charset="utf8mb4", collation="utf8mb4_0900_ai_ci"),
    Column("day", "date"),
    Column("at", "datetime", decimals=3),
    Column("e", "enum", charset="utf8mb4", collation="utf8mb4_bin", members=("new", "done")),
    Column("raw", "varbinary", 20),
    Column("a", "varchar", 20, charset="utf8mb4", collation="utf8mb4_general_ci"),
    Column("y", "year"),
    Column("bits", "bit", 8),
    Column("t", "time", decimals=6),
    Column("s", "set", charset="utf8mb4", collation="utf8mb4_bin", members=("a", "b")),
    Column("j", "json"),
    Column("stamp", "timestamp"),
    Column("small", "tinyint", unsigned=True),
)
TABLE = TableSchema(TableName("shop", "orders"), COLUMNS)
NULLS: dict[str, Value] = {column.name: None for column in COLUMNS}


def row(**values: Value) -> Row:
    return tuple({**NULLS, **values}.values())


def compiled(expression: str) -> RowFilter:
    rule = ExpressionFilter(schema_name="shop", table="orders", insert_value_expr=expression, name="rule")
    built = RowFilter.compile([rule], COLUMNS)
    assert built is not None
    return built


def skipped(judge: RowFilter, kind: RowEvent, before: Row | None, after: Row | None) -> bool:
    return judge.skipped(kind, [(before, after)], 0) == [True]


def skips(expression: str, **values: Value) -> bool:
    return skipped(compiled(expression), "insert", None, row(**values))


@pytest.mark.parametrize(
    ("expression", "values", "expected"),
    [
        ("i = 1", {"i": 1}, True),
        ("i = 1", {"i": None}, False),
        ("NOT i = 1", {"i": None}, False),
        ("i <=> NULL", {"i": None}, True),
        ("i <=> 1", {"i": None}, False),
        ("i IS NULL", {"i": None}, True),
        ("i IS NOT NULL", {"i": 0}, True),
        ("i", {"i": 2}, True),
        ("i AND NULL", {"i": 1}, False),
        ("i OR NULL", {"i": 1}, True),
        ("i XOR 1", {"i": 0}, True),
        ("i XOR NULL", {"i": 0}, False),
        ("i IS TRUE", {"i": 5}, True),
        ("i IS NOT TRUE", {"i": None}, True),
        ("i IS FALSE", {"i": None}, False),
        ("(i > 1) IS UNKNOWN", {"i": None}, True),
        ("!(i > 3)", {"i": 3}, True),
        ("i IN (1, 2, NULL)", {"i": 2}, True),
        ("i NOT IN (1, 2, NULL)", {"i": 3}, False),
        ("i NOT IN (1, 2)", {"i": 3}, True),
        ("i BETWEEN 1 AND 3", {"i": 3}, True),
        ("i NOT BETWEEN 1 AND 3", {"i": 4}, True),
        ("i + 2 * i = 9", {"i": 3}, True),
        ("-i = 3", {"i": -3}, True),
        ("i % 3 = -1", {"i": -4}, True),
        ("i DIV 2 = -2", {"i": -5}, True),
        ("i % 0 IS NULL", {"i": 1}, True),
        ("u > 9223372036854775807", {"u": (1 << 64) - 1}, True),
        ("u IN (-1, 3)", {"u": (1 << 64) - 1}, False),
        ("u IN (u, 3)", {"u": (1 << 64) - 1}, True),
        ("u IN (bits, 3)", {"u": 5, "bits": 5}, True),
        ("i IN (u)", {"u": (1 << 64) - 1, "i": -1}, False),
        ("i IN (1, 18446744073709551615)", {"i": -1}, False),
        ("i IN (i, 3)", {"i": -1}, True),
        ("i IN (small, 3)", {"i": 200, "small": 200}, True),
        ("u < 18446744073709551616", {"u": (1 << 64) - 1}, True),
        ("i + 18446744073709551615 = 18446744073709551614", {"i": -1}, True),
        ("d = 10", {"d": "10.00"}, True),
        ("d < 10.01", {"d": "10.00"}, True),
        ("d + 0.1 = 10.1", {"d": "10.00"}, True),
        ("f = 0.1", {"f": 0.1}, True),
        ("f > 1e3", {"f": 1000.5}, True),
        ("d = 1e1", {"d": "10.00"}, True),
        ("b = 'abc'", {"b": b"abc"}, True),
        ("b = 'abc'", {"b": b"ABC"}, False),
        ("b = 'abc'", {"b": b"abc  "}, True),
        ("b = 'täg'", {"b": "täg".encode()}, True),
        ("'abc' = b", {"b": b"abc"}, True),
        ("b LIKE 'a_c%'", {"b": "aäcd".encode()}, True),
        ("b NOT LIKE 'a%'", {"b": b"ba"}, True),
        ("c = 'ABC'", {"c": b"abc"}, True),
        ("c = 'abc'", {"c": b"abc "}, False),
        ("c LIKE 'A%'", {"c": b"abc"}, True),
        ("c IN ('x', 'Abc')", {"c": b"aBC"}, True),
        ("day = '2024-02-01'", {"day": "2024-02-01"}, True),
        ("day < '2024-02-01 00:00:01'", {"day": "2024-02-01"}, True),
        ("at >= '2024-02-01'", {"at": "2024-02-01 00:00:00.000"}, True),
        ("at > '2024-02-01 10:00:00.5'", {"at": "2024-02-01 10:00:00.501"}, True),
        ("e = 'done'", {"e": 2}, True),
        ("e = ''", {"e": 0}, True),
        ("raw = 'a'", {"raw": b"a"}, True),
        ("raw > 'a'", {"raw": b"b"}, True),
        ("j IS NOT NULL", {"j": "{}"}, True),
        ("b < 'b'", {"b": b"a"}, True),
        ("b > 'a'", {"b": b"a\t"}, False),
        ("y = 2024", {"y": 2024}, True),
        ("y BETWEEN 1999 AND 2001", {"y": 0}, False),
        ("bits > 5", {"bits": 6}, True),
        ("t < '10:00:00'", {"t": "-100:00:00.5"}, True),
        ("t = '-01:00:00.500'", {"t": "-01:00:00.500000"}, True),
        ("day = '0000-00-00'", {"day": "0000-00-00"}, True),
        ("I = 1", {"i": 1}, True),
        ("`i` = 1 -- why", {"i": 1}, True),
    ],
)
def test_the_result_is_the_servers(expression: str, values: dict[str, Value], expected: bool) -> None:
    assert skips(expression, **values) is expected


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "i =",
        "i = 1 FROM t",
        "1, 2",
        "i = 1; DROP TABLE t",
        "i) FROM t WHERE (1",
        "now() > at",
        "upper(b) = 'A'",
        "i / 2 = 1",
        "b REGEXP 'a'",
        r"b = 'a\\n'",
        "t.i = 1",
        "i IN (SELECT 1)",
        "i = 1 = 2",
        "i = 1 BETWEEN 0 AND 1",
        "b = 'a' 'b'",
        "EXISTS (SELECT 1)",
        "CASE WHEN i THEN 1 END",
        "i = @x",
        "b LIKE i",
        "i IS 1",
        "CAST(i AS CHAR) = 'a'",
        "b COLLATE utf8mb4_bin = 'a'",
        "i & 1",
        "i = 0x10",
        "x'41' = b",
        "DATE '2024-01-01' = day",
        "(i, u) = (1, 2)",
        "i = ANY (SELECT 1)",
        "INTERVAL 1 DAY + day > 1",
        "j->'$.a' = 1",
        "b LIKE 'a%' ESCAPE '|'",
        "? = i",
        "*",
        "(" * 5000 + "i" + ")" * 5000,
    ],
)
def test_what_has_no_exact_counterpart_here_is_not_computed(expression: str) -> None:
    with pytest.raises(ExpressionError):
        parse_expression(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "i = '1'",
        "b = 1",
        "a < 'x'",
        "c < 'x'",
        "y = 24",
        "y + 1 = 2024",
        "t = '1:00'",
        "t = '900:00:00'",
        "day = '2024-02-31'",
        "s = 'a'",
        "c = 'ä'",
        "b",
        "day = '24-2-1'",
        "stamp > '2024-01-01'",
        "j = '{}'",
        "raw LIKE 'a'",
        "b = c",
        "at = day",
        "f % 2 = 1",
        "d % 2 = 1",
        "i IN (1, 2e0)",
        "u IN (-1, 0.1)",
        "'a' = 'b'",
        "e LIKE 'd%'",
        "c LIKE 'ä%'",
        "b + 1 = 2",
        "i IN (u, 1)",
        "i NOT IN (3, u)",
        "u IN (i, 1)",
        "-1 IN (u, 1)",
        "u + 1 IN (i + 1, 1)",
        "i IN (i, 18446744073709551615)",
        "18446744073709551615 IN (i, 1)",
        "i IN (0.1, 18446744073709551615)",
        "u IN (-1, 18446744073709551616)",
    ],
)
def test_what_depends_on_more_than_the_value_is_refused_when_the_table_is_known(expression: str) -> None:
    with pytest.raises(DMError) as raised:
        compiled(expression)
    assert raised.value.name == "expression-inexact"
    assert "rule" in raised.value.message


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("c = 'abc'", {"c": "é".encode()}),
        ("c = 'abc'", {"c": b"a\x00"}),
        ("c LIKE 'a%'", {"c": "é".encode()}),
        ("u - 1 > 0", {"u": 0}),
        ("i * 9223372036854775807 > 0", {"i": 2}),
        ("f * 1e308 > 1", {"f": 1e308}),
        ("i = 1", {"i": ABSENT}),
    ],
)
def test_a_row_that_can_not_be_judged_stops_instead_of_guessing(expression: str, values: dict[str, Value]) -> None:
    with pytest.raises(DMError) as raised:
        skips(expression, **values)
    assert raised.value.name == "expression-inexact"
    first, _, _ = raised.value.workaround.partition(".")
    assert "binlog_row_image = FULL" in first


class Casefolding:
    """An oracle that takes texts for equal when they are so without regard to case."""

    def holds(
        self, question: Question, text: bytes, charset: str, other: bytes, other_charset: str, collation: str
    ) -> bool | None:
        if collation == "utf8mb4_unknown_ci":
            return None
        left, right = text.decode().casefold(), other.decode().casefold()
        if question == "like":
            return left.startswith(right.removesuffix("%"))
        return left == right if question == "=" else left < right


@pytest.mark.parametrize("expression", ["c = 'Straße'", "c LIKE 'Straß%'", "c < 'Straßen'", "c IN ('a', 'STRASSE')"])
def test_a_server_is_asked_where_only_it_knows(expression: str) -> None:
    rule = ExpressionFilter(schema_name="s", table="t", insert_value_expr=expression)
    built = RowFilter.compile([rule], COLUMNS, Judges(Casefolding()))
    assert built is not None
    assert skipped(built, "insert", None, row(c="straße".encode()))
    unknown = [replace(column, collation="utf8mb4_unknown_ci") if column.name == "c" else column for column in COLUMNS]
    built = RowFilter.compile([rule], unknown, Judges(Casefolding()))
    assert built is not None
    with pytest.raises(DMError, match="does not know collation utf8mb4_unknown_ci"):
        skipped(built, "insert", None, row(c="straße".encode()))


@pytest.mark.parametrize(
    ("zone", "expression", "expected"),
    [
        ("", "stamp = '2024-07-01 12:00:00+02:00'", True),
        ("", "stamp = '2024-07-01 10:00:00.0+00:00'", True),
        ("", "stamp < '2024-07-01 07:59:59-02:00'", False),
        ("+02:00", "stamp = '2024-07-01 12:00:00'", True),
        ("-03:30", "stamp = '2024-07-01 06:30:00'", True),
        ("Europe/Berlin", "stamp = '2024-07-01 12:00:00'", True),
        ("Europe/Berlin", "stamp > '2024-07-01'", True),
        ("Europe/Berlin", "stamp BETWEEN '2024-07-01' AND '2024-07-02'", True),
        ("Europe/Berlin", "stamp = '2024-07-01 12:00:00+00:00'", False),
    ],
)
def test_a_timestamp_is_a_moment(zone: str, expression: str, expected: bool) -> None:
    rule = ExpressionFilter(schema_name="s", table="t", insert_value_expr=expression, name="rule")
    built = RowFilter.compile([rule], COLUMNS, zone=zone)
    assert built is not None
    assert skipped(built, "insert", None, row(stamp="2024-07-01 10:00:00")) is expected


@pytest.mark.parametrize(
    ("zone", "constant", "why"),
    [
        ("", "2024-07-01 12:00:00", "has no time zone"),
        ("Europe/Berlin", "2024-10-27 02:30:00", "clocks repeat or leave out"),
        ("Europe/Berlin", "2024-03-31 02:30:00", "clocks repeat or leave out"),
        ("Europe/Berlin", "2024-02-30 00:00:00", "is no moment"),
        ("Europe/Berlin", "24-02-01", "not in the form"),
        ("", "0001-01-01 00:00:00+14:00", "is no moment"),
        ("Middle/Earth", "2024-07-01 12:00:00", "knows no time zone"),
    ],
)
def test_a_text_that_is_no_certain_moment_is_refused(zone: str, constant: str, why: str) -> None:
    rule = ExpressionFilter(schema_name="s", table="t", insert_value_expr=f"stamp = '{constant}'", name="rule")
    with pytest.raises(DMError, match=why):
        RowFilter.compile([rule], COLUMNS, zone=zone)


class Target:
    """Stands for the target: a condition holds for a row whose first column is odd."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[object], int]] = []

    def holds(self, condition: ServerCondition, rows: Sequence[Row], moment: int) -> list[bool]:
        self.asked.append((condition.text, [row[0] for row in rows], moment))
        return [isinstance(row[0], int) and row[0] % 2 == 1 for row in rows]


def inserts(*numbers: int) -> list[tuple[Row | None, Row | None]]:
    return [(None, row(i=number)) for number in numbers]


def asking(target: Target, *expressions: str) -> RowFilter:
    rules = [
        ExpressionFilter(schema_name="s", table="t", insert_value_expr=expression, name=f"rule {number}")
        for number, expression in enumerate(expressions)
    ]
    built = RowFilter.compile(rules, COLUMNS, Judges(conditions=target), "+00:00")
    assert built is not None
    return built


def test_the_target_is_asked_for_all_rows_at_once_that_nothing_else_skips() -> None:
    target = Target()
    built = asking(target, "SQRT(i) = 1", "i > 4")
    assert built.asks
    assert built.skipped("insert", inserts(1, 2, 3, 4, 5, 6), 77) == [True, False, True, False, True, True]
    assert built.skipped("insert", inserts(5, 6), 78) == [True, True]
    assert built.skipped("delete", [(row(i=1), None)], 79) == [False]
    assert target.asked == [("SQRT(i) = 1", [1, 2, 3, 4], 77)]


def test_both_expressions_of_an_update_must_hold_and_the_second_is_asked_where_the_first_does() -> None:
    target = Target()
    rule = ExpressionFilter(
        schema_name="s", table="t", update_old_value_expr="ABS(i) = 1", update_new_value_expr="ABS(i) = 2", name="rule"
    )
    built = RowFilter.compile([rule], COLUMNS, Judges(conditions=target))
    assert built is not None
    changes: list[tuple[Row | None, Row | None]] = [(row(i=a), row(i=b)) for a, b in ((1, 1), (2, 3), (3, 4))]
    assert built.skipped("update", changes, 5) == [True, False, False]
    assert target.asked == [("ABS(i) = 1", [1, 2, 3], 5), ("ABS(i) = 2", [1, 4], 5)]


def test_a_row_that_turns_out_not_to_be_exact_here_is_asked_about() -> None:
    target = Target()
    built = asking(target, "i * 9223372036854775807 > 0")
    assert not built.asks
    assert built.skipped("insert", inserts(1, 3, 0, 2), 5) == [True, True, False, False]
    assert target.asked == [("i * 9223372036854775807 > 0", [3, 2], 5)]


def test_a_row_image_without_a_column_is_not_asked_about() -> None:
    target = Target()
    with pytest.raises(DMError, match="the row image lacks column `i`"):
        asking(target, "ABS(i) = 1").skipped("insert", [(None, row(i=ABSENT))], 5)
    assert asking(target, "ABS(d) = 1").skipped("insert", [(None, row(i=ABSENT))], 5) == [False]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("HOUR(stamp) = 1", "column `stamp`"),
        ("i < NOW()", "a function that tells the time"),
        ("i < CURRENT_DATE", "a function that tells the time"),
        ("FROM_UNIXTIME(i) < '2024-01-01'", "a function that tells the time"),
    ],
)
def test_what_a_time_zone_decides_needs_one(expression: str, why: str) -> None:
    rule = ExpressionFilter(schema_name="s", table="t", insert_value_expr=expression, name="rule")
    with pytest.raises(DMError, match=f"{why}.* depends on a time zone: set `timezone`"):
        RowFilter.compile([rule], COLUMNS, Judges(conditions=Target()))
    assert RowFilter.compile([rule], COLUMNS, Judges(conditions=Target()), "+00:00") is not None


def test_the_moment_in_utc_needs_none() -> None:
    rule = ExpressionFilter(schema_name="s", table="t", insert_value_expr="at < UTC_TIMESTAMP()", name="rule")
    assert RowFilter.compile([rule], COLUMNS, Judges(conditions=Target())) is not None


RULES = """\
expression-filter:
  bad-insert: {schema: shop, table: orders, insert-value-expr: i > 10}
  more: {schema: shop, table: orders, insert-value-expr: i < 0}
  gone: {schema: shop, table: orders, delete-value-expr: i = 5}
  changed: {schema: shop, table: orders, update-old-value-expr: i = 1, update-new-value-expr: i = 2}
  became: {schema: shop, table: orders, update-new-value-expr: i = 7}
  unknown: {schema: shop, table: orders, insert-value-expr: nope = 1}
  elsewhere: {schema: shop, table: items, insert-value-expr: i = 3}
"""
REFERENCES = "expression-filters: [bad-insert, more, gone, changed, became, unknown, elsewhere]"


def test_each_kind_of_change_has_its_rules_and_any_of_them_skips() -> None:
    judge = TableRules(subtask(REFERENCES, RULES)).row_filter(TABLE)
    assert judge is not None
    assert [i for i in (-1, 0, 3, 5, 10, 11) if skipped(judge, "insert", None, row(i=i))] == [-1, 11]
    assert [i for i in (3, 5, 11) if skipped(judge, "delete", row(i=i), None)] == [5]
    updates = [(1, 2), (1, 3), (3, 2), (0, 7)]
    assert [pair for pair in updates if skipped(judge, "update", row(i=pair[0]), row(i=pair[1]))] == [(1, 2), (0, 7)]


def test_other_tables_have_no_filter() -> None:
    rules = TableRules(subtask(REFERENCES, RULES))
    assert rules.row_filter(TableSchema(TableName("shop", "customers"), COLUMNS)) is None
    assert rules.row_filter(TableSchema(TableName("SHOP", "Items"), COLUMNS)) is not None
    sensitive = TableRules(subtask(REFERENCES, RULES + "case-sensitive: true\n"))
    assert sensitive.row_filter(TableSchema(TableName("SHOP", "Items"), COLUMNS)) is None


def test_a_filter_on_columns_that_are_gone_skips_nothing() -> None:
    rules = TableRules(
        subtask(
            "expression-filters: [u]",
            "expression-filter: {u: {schema: shop, table: orders, insert-value-expr: x = 1}}\n",
        )
    )
    assert rules.row_filter(TABLE) is None


def test_rows_may_have_fewer_columns_than_the_table() -> None:
    rules = TableRules(subtask(REFERENCES, RULES))
    judge = rules.row_filter(TABLE, [Column("x", "int"), Column("i", "int")])
    assert judge is not None
    assert skipped(judge, "insert", None, (0, 11))


def test_columns_of_an_expression_are_known() -> None:
    assert columns_of(parse_expression("a = 1 AND NOT b IN (c, 2) OR d LIKE 'x' OR -e IS NULL")) == set("abcde")


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-50, 50), st.integers(-50, 50))
def test_integer_arithmetic_is_exact(i: int, a: int, b: int) -> None:
    assert skips(f"i + {a} * {b} = {i + a * b}", i=i)
    assert skips(f"i > {a}", i=i) is (i > a)
    assert skips(f"i BETWEEN {a} AND {b}", i=i) is (a <= i <= b)
