"""Chunks cut a table so that every row is in exactly one of them."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from dm.dumpfiles.chunk_plan import (
    Bound,
    WalkedKey,
    bound_literal,
    conditions,
    even_bounds,
    make_bound,
    rows_per_chunk,
    step_query,
    walked_key,
)
from dm.ident import TableName
from dm.mysql.schema.table import Column, Index, IndexPart, TableSchema

NAME = TableName("shop", "orders")


def column(name: str, base: str = "int", *, nullable: bool = False, **more: object) -> Column:
    return Column(name, base, nullable=nullable, **more)  # type: ignore[arg-type]


def table(columns: list[Column], *indexes: Index) -> TableSchema:
    return TableSchema(NAME, tuple(columns), tuple(indexes))


def unique(*names: str, name: str = "u", prefix: int | None = None, kind: str = "unique") -> Index:
    return Index(name, kind, tuple(IndexPart(part, prefix) for part in names))  # type: ignore[arg-type]


@settings(deadline=None)
@given(
    rows=st.sets(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3)), max_size=60),
    width=st.integers(1, 3),
    step=st.integers(1, 7),
)
def test_walking_a_key_of_any_width_puts_every_row_into_one_chunk(
    rows: set[tuple[int, int, int]], width: int, step: int
) -> None:
    names = ["a", "b", "c"][:width]
    stored = {row[:width] for row in rows}
    key = WalkedKey("PRIMARY", tuple(column(name) for name in names))
    base = sqlite3.connect(":memory:")
    try:
        base.execute(f"CREATE TABLE orders ({', '.join(names)}, PRIMARY KEY ({', '.join(names)}))")
        base.executemany(f"INSERT INTO orders VALUES ({', '.join('?' * width)})", sorted(stored))
        bounds: list[Bound] = []
        while True:
            query = step_query(NAME, key, bounds[-1] if bounds else None, step)
            query = query.replace("`shop`.", "").replace("FORCE INDEX (`PRIMARY`)", "")
            row = base.execute(query).fetchone()
            if row is None:
                break
            bounds.append(make_bound(key, [str(value).encode() for value in row]))
        chunks = [base.execute(f"SELECT * FROM orders WHERE {text}").fetchall() for text in conditions(key, bounds)]
    finally:
        base.close()
    assert sorted(row for chunk in chunks for row in chunk) == sorted(stored)
    assert all(len(chunk) == step for chunk in chunks[:-1])
    assert len(chunks[-1]) < step


@settings(deadline=None)
@given(
    numbers=st.sets(st.integers(-50, 50) | st.integers((1 << 64) - 40, (1 << 64) - 1), min_size=1, max_size=60),
    rows=st.integers(1, 7),
    estimate=st.integers(0, 80),
)
def test_whole_numbers_are_cut_without_a_walk_only_where_chunks_get_no_more_rows_and_not_many_more_chunks(
    numbers: set[int], rows: int, estimate: int
) -> None:
    bounds = even_bounds(min(numbers), max(numbers), rows, estimate)
    if bounds is None:
        assert max(numbers) - min(numbers) >= 2 * estimate
        return
    assert len(bounds) <= 2 * estimate // rows
    edges = [min(numbers) - 1, *(int(number) for (number,) in bounds), max(numbers)]
    chunks = [sum(lower < number <= upper for number in numbers) for lower, upper in pairwise(edges)]
    assert sum(chunks) == len(numbers)
    assert max(chunks) <= rows


def test_a_table_without_gaps_is_cut_where_a_walk_would_cut_it() -> None:
    assert even_bounds(1, 9, 3, 9) == (("3",), ("6",), ("9",))
    assert even_bounds(1, 8, 3, 8) == (("3",), ("6",))


def test_a_table_without_a_key_to_walk_is_one_chunk() -> None:
    assert conditions(None, ()) == ["1"]


def test_bounds_compare_as_their_columns_sort() -> None:
    assert bound_literal(column("a", "bigint", unsigned=True), b"18446744073709551615") == "18446744073709551615"
    assert bound_literal(column("a", "decimal"), b"-1.50") == "-1.50"
    assert bound_literal(column("a", "float"), b"16777217") == "16777217e0"
    assert bound_literal(column("a", "double"), b"-1.5e-300") == "-1.5e-300"
    assert bound_literal(column("a", "time"), b"-838:59:59.000000") == "'-838:59:59.000000'"
    assert bound_literal(column("a", "varchar", charset="gbk"), b"\xd6\xd0'") == "_gbk x'd6d027'"
    assert bound_literal(column("a", "varchar", charset="utf8mb4"), b"") == "_utf8mb4 x''"
    assert bound_literal(column("a", "varbinary"), b"\x00'\\") == "x'00275c'"


def test_a_value_that_is_no_number_never_becomes_sql() -> None:
    for base, value in (("int", b"1 OR 1"), ("double", b"nan"), ("date", b"' OR '")):
        try:
            literal = bound_literal(column("a", base), value)
        except ValueError:
            continue
        raise AssertionError(literal)


def test_the_primary_key_is_walked_first() -> None:
    schema = table([column("a"), column("b")], unique("b"), unique("a", name="PRIMARY", kind="primary"))
    key = walked_key(schema)
    assert key is not None
    assert key.index == "PRIMARY"


def test_a_nullable_unique_key_is_no_key() -> None:
    schema = table([column("a", nullable=True)], unique("a"))
    assert walked_key(schema) is None


def test_a_prefix_key_is_not_walked() -> None:
    schema = table([column("a", "varchar", charset="utf8mb4")], unique("a", prefix=3))
    assert walked_key(schema) is None


def test_a_key_that_no_statement_may_name_is_not_walked() -> None:
    hidden = replace(unique("a"), invisible=True)
    assert walked_key(table([column("a"), column("b")], hidden)) is None
    key = walked_key(table([column("a"), column("b")], hidden, unique("b", name="v")))
    assert key is not None
    assert key.index == "v"


def test_an_enum_sorts_by_number_and_compares_by_text_so_it_is_not_walked() -> None:
    schema = table([column("a", "enum", charset="utf8mb4", members=("x", "b"))], unique("a", kind="primary"))
    assert walked_key(schema) is None


def test_wide_rows_make_chunks_of_fewer_rows() -> None:
    assert rows_per_chunk(200_000, 64 << 20, 100) == 200_000
    assert rows_per_chunk(200_000, 64 << 20, 1 << 20) == 64
    assert rows_per_chunk(200_000, 64 << 20, 1 << 30) == 1
    assert rows_per_chunk(200_000, 64 << 20, 0) == 200_000
