"""Rows are put into few statements, all of them and in their order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm.mysql.sql.literal import statements


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=30), st.integers(1, 200), st.integers(1, 40))
def test_statements_hold_all_rows_in_order_within_the_limits(rows: list[bytes], largest: int, most: int) -> None:
    found = list(statements(b"HEAD ", iter(rows), b" TAIL", largest, most=most))
    assert sum(count for _, count in found) == len(rows)
    assert b",".join(text.removeprefix(b"HEAD ").removesuffix(b" TAIL") for text, _ in found) == b",".join(rows)
    assert all(len(text) <= largest or count == 1 for text, count in found)
    assert all(count <= most for _, count in found)
    assert len(found) <= 1 or largest < 5 + 5 + len(b",".join(rows)) + 1 or most < len(rows)
