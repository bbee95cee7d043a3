"""Of a file's rows only literals go to the target; whatever it would compute is refused where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.ident import TableName
from dm.loader.sql_source import InsertStatement, NotUnderstood, not_literal, understand

LITERALS = (
    "NULL", "null", "true", "FALSE", "0", "-1", "+5", "1.", ".5", "-1.5e-3", "1E10", "0xAB", "0b01", "x'00'", "B'01'",
    "''", "'it''s'", r"'a\'b\\'", '"a""b"', "'),(f('", "_binary'\\0'", "_utf8mb4 0x41", "_latin1 x'e4'", "N'x'",
    "DATE'2020-01-01'", "time '1:2:3'", "TIMESTAMP'2020-01-01 00:00:00'", "CONVERT('{}' USING UTF8MB4)",
    "convert( _binary 'x' using latin1 )",
)  # fmt: skip
COMPUTED = (
    "f()", "other.f()", "`f`()", "(SELECT 1)", "-(SELECT 1)", "LOAD_FILE('/x')", "NOW()", "now ()", "SLEEP(9)", "@a",
    "@@version", "@a:=1", "1+1", "1 DIV 2", "1 AND SLEEP(9)", "NULL OR f()", "NULLIF(1,2)", "'a'||'b'", "'a' 'b'",
    "'a' COLLATE utf8mb4_bin", "CONVERT(f() USING utf8mb4)", "CONVERT('a', SIGNED)", "CAST('a' AS CHAR)", "_binary f()",
    "1/*!,f()*/", "/*!f()*/", "1 -- a\n", "a", "`a`", "DEFAULT", "DEFAULT(a)", "VALUES(a)", "date(1)", "TRUE(1)",
    "1e5x", "0xZZ", r"\N", "NOT 1", "!1", "~1", "CURRENT_USER", "CASE WHEN 1 THEN 2 END", "INTERVAL 1 DAY", "",
    "{d '1'}", "x'0'||x'0'", "'a", "'a\\'", "ROW(1)", "(1)",
)  # fmt: skip
ROWS_AT = len("INSERT INTO `t` VALUES ")
spaces = st.sampled_from(["", " ", "\n", " \t"])


def written(rows: list[list[str]], space: str) -> str:
    texts = [f"({space}{f'{space},{space}'.join(row)}{space})" for row in rows]
    return f"{space},{space}".join(texts) + space


@given(st.lists(st.lists(st.sampled_from(LITERALS), min_size=1, max_size=4), min_size=1, max_size=4), spaces)
def test_rows_of_literals_are_taken(rows: list[list[str]], space: str) -> None:
    found = understand(b"INSERT INTO `t` VALUES " + written(rows, space).encode(), TableName("s", "t"))
    assert isinstance(found, InsertStatement), found


@given(
    st.lists(st.lists(st.sampled_from(LITERALS), min_size=2, max_size=4), min_size=1, max_size=3),
    st.sampled_from(COMPUTED),
    spaces,
    st.data(),
)
def test_a_value_that_the_target_would_compute_is_refused(
    rows: list[list[str]], computed: str, space: str, data: st.DataObject
) -> None:
    row = data.draw(st.sampled_from(rows))
    row[data.draw(st.integers(0, len(row) - 1))] = computed
    found = understand(b"INSERT INTO `t` VALUES " + written(rows, space).encode(), TableName("s", "t"))
    assert isinstance(found, NotUnderstood), computed


@pytest.mark.parametrize(
    "rest",
    [
        " ON DUPLICATE KEY UPDATE a = f()",
        " AS new",
        " RETURNING f()",
        "(2)",
        ",",
        " SELECT 1",
        "/*!99999 x */",
        " -- a",
    ],
)
def test_nothing_may_follow_the_rows(rest: str) -> None:
    assert not_literal(b"(1),(2)" + rest.encode(), 0)


def test_what_is_refused_is_shown() -> None:
    assert not_literal(b"(1,'a'),(2,other.f())", 0) == "its rows are to be literals, here is 'other.f())'"
    assert not_literal(b"(1),(2", 0) == "its last row has no end"


def test_rows_may_have_no_columns() -> None:
    assert not_literal(b"(),()", 0) is None
