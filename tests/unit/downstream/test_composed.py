"""Values in a statement of ours: a literal ends where it should, whatever is in the value."""

from __future__ import annotations

import pytest

from dm.downstream.statements import composed


def test_a_text_that_looks_like_another_statement_stays_a_text() -> None:
    assert (
        composed("REPLACE INTO t VALUES (%s)", ["'; DROP TABLE t -- "])
        == b"REPLACE INTO t VALUES ('''; DROP TABLE t -- ')"
    )
    assert composed("SELECT %s", ["\\'; DROP TABLE t -- "]) == b"SELECT '\\\\''; DROP TABLE t -- '"
    assert composed("SELECT %s", ["a\0b"]) == b"SELECT 'a\\0b'"


def test_a_value_with_a_place_in_it_is_a_value() -> None:
    assert composed("SELECT %s, %s", ["%s", 1]) == b"SELECT '%s', 1"


def test_numbers_nothing_and_bytes_that_are_no_text() -> None:
    assert (
        composed("SELECT %s, %s, %s, %s, '100%%'", [None, True, -7, "\udcff"]) == b"SELECT NULL, 1, -7, '\xff', '100%'"
    )


@pytest.mark.parametrize(("sql", "values"), [("SELECT %s", []), ("SELECT %s", [1, 2]), ("SELECT 1", ["x"])])
def test_each_place_has_its_value(sql: str, values: list[object]) -> None:
    with pytest.raises(ValueError, match="places than values"):
        composed(sql, values)


def test_what_has_no_literal_here_is_refused() -> None:
    with pytest.raises(TypeError, match="a list"):
        composed("SELECT %s", [[1]])


def test_values_with_names_are_refused() -> None:
    """Their literals would be the driver's."""
    with pytest.raises(TypeError, match="with names"):
        composed("SELECT %(v)s", {"v": "x"})
