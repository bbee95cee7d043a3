"""What a server may be asked: only what the row and the event's moment decide, and only one expression."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dm.config.expression import read_expression
from dm.config.server_expression import (
    FUNCTIONS,
    MOMENT_FUNCTIONS,
    MOMENT_WORDS,
    WHY_REFUSED,
    ZONED_FUNCTIONS,
    ExpressionError,
    read_server_expression,
)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("UPPER(a) = 'A'", "a"),
        ("`b c` REGEXP '^x' AND A <=> `a``b`", "b c,a,a`b"),
        ("j->'$.a' = 1 AND j->>\"$.b\" = 'x'", "j"),
        ("bits & b'101' OR bits = 0x1F OR bits = X'1f' OR bits = 0b11", "bits"),
        ("a = _latin1 X'41' COLLATE latin1_bin AND b = _utf8mb4'x' AND c = N'x'", "a,b,c"),
        ("CONVERT(a USING utf8mb4) = 'a' OR CAST(b AS CHAR(3) CHARACTER SET latin1) = 'b'", "a,b"),
        ("CAST(a AS DECIMAL(10,2)) > 1.5 OR CAST(b AS SIGNED) < .5e3", "a,b"),
        ("at + INTERVAL 1 DAY > NOW(6) OR at < CURRENT_TIMESTAMP", "at"),
        ("EXTRACT(HOUR FROM at) = 3 AND TRIM(BOTH 'x' FROM a) LIKE 'a|%' ESCAPE '|'", "at,a"),
        ("CASE a WHEN 1 THEN b ELSE c END", "a,b,c"),
        (r"""a = 'it\'s' OR a = 'it''s' OR a = "x\"y" OR a = '\\' OR ABS(1)""", "a"),
        ("a = 'SELECT @x; -- /* #'", "a"),
        ("`select` = 1 AND _x = 2", "select,_x"),
        ("(a, b) IN ((1, 2), (3, 4))", "a,b"),
        ("ST_Distance(p, ST_GeomFromText('POINT(0 0)')) > 1", "p"),
        ("a SOUNDS LIKE 'x' OR 3 MEMBER OF(j)", "a,j"),
        ("a = 1 = b IS NULL", "a,b"),
        ("größe > 1", "größe"),
    ],
)
def test_a_server_is_asked_about_columns(text: str, columns: str) -> None:
    assert read_server_expression(text).columns == set(columns.split(","))


def test_words_that_may_be_columns_are_known() -> None:
    read = read_server_expression("year > 2000 AND INTERVAL(day, 1) = 1 AND EXTRACT(MONTH FROM at) = 1")
    assert read.columns == {"at"}
    assert read.perhaps >= {"year", "day"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RAND() < 0.5", "RAND() is chance"),
        ("a = UUID()", "is chance"),
        ("a > SYSDATE()", "write that"),
        ("SLEEP(1)", "does something"),
        ("a = USER() OR a = CURRENT_USER", "USER() tells about a session"),
        ("a = CURRENT_USER", "CURRENT_USER tells about a session"),
        ("CONNECTION_ID() = a", "tells about a session"),
        ("a = LAST_INSERT_ID()", "earlier statement"),
        ("a = @x", "variables"),
        ("a = @@sql_mode", "variables"),
        ("@x := a", "variables"),
        ("a IN (SELECT 1)", "SELECT would read other rows"),
        ("EXISTS(SELECT 1)", "EXISTS() is not among"),
        ("a = (TABLE t)", "TABLE would read other rows"),
        ("a IN (VALUES ROW(1))", "VALUES would read other rows"),
        ("a IN (WITH b AS (SELECT 1) SELECT * FROM b)", "WITH would read other rows"),
        ("SUM(a) > 1", "more than one row"),
        ("ROW_NUMBER() OVER () = 1", "not among the functions"),
        ("mine(a) = 1", "MINE() is not among the functions"),
        ("`mine`(a) = 1", "a function of your own"),
        ("shop.mine(a) = 1", "without its table"),
        ("t.a = 1", "without its table"),
        ("a = ?", "put in place"),
        ("a = 1; DROP TABLE t", "it is not"),
        ("a /* b */ = ABS(1)", "a comment"),
        ("a = ABS(1) -- b", "a comment"),
        ("a = ABS(1) # b", "a comment"),
        ("a /*!50000 OR SLEEP(9) */ = 1", "a comment"),
        ("a) OR (b", "it is not"),
        ("a = {d '2024-01-01'}", "it is not"),
        ("a = 'x", "it is not SQL"),
        ("MATCH(a) AGAINST ('x')", "not among the functions"),
        ("a = DEFAULT(a)", "not among the functions"),
    ],
)
def test_what_is_not_decided_by_row_and_moment_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        read_server_expression(text)
    assert why in str(raised.value)


def test_what_neither_can_do_says_what_hinders_a_server() -> None:
    with pytest.raises(ExpressionError, match="is chance"):
        read_expression("RAND() < a")
    here = read_expression("a = 1 -- why")
    assert here.here is not None
    assert here.server is None
    asked = read_expression("ABS(a) = 1")
    assert asked.here is None
    assert asked.server is not None


def test_the_lists_of_words_fit_together() -> None:
    assert MOMENT_WORDS < MOMENT_FUNCTIONS < FUNCTIONS
    assert ZONED_FUNCTIONS <= FUNCTIONS
    assert not FUNCTIONS & WHY_REFUSED.keys()


@given(st.text(alphabet="a1'\"`\\()-#/* ,=\n", max_size=40))
@example("*/1")
def test_quotes_and_parentheses_end_where_the_text_does(text: str) -> None:
    """A server that reads by these rules is back where it began: outside of quotes, comments and parentheses."""
    try:
        read_server_expression(text)
    except ExpressionError:
        return
    depth, at = 0, 0
    while at < len(text):
        character = text[at]
        if character in "'\"`":
            at += 1
            while text[at] != character or text[at : at + 2] == character * 2:
                at += 2 if text[at : at + 2] == character * 2 or (text[at] == "\\" and character != "`") else 1
        depth += {"(": 1, ")": -1}.get(character, 0)
        assert depth >= 0
        assert text[at : at + 2] not in ("/*", "*/")
        at += 1
    assert depth == 0
