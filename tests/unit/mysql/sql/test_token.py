"""Tokens stand where they stand in the original text, under every quoting mode and every kind of comment."""

from __future__ import annotations

import contextlib
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.ident import Ident
from dm.mysql.dialect import Flavor
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import scan, tokenize


def _context(
    flavor: Flavor = "mysql", version: int = 90704, *, ansi: bool = False, no_backslash: bool = False
) -> SourceContext:
    return SourceContext(flavor, version, "d", ansi_quotes=ansi, no_backslash_escapes=no_backslash)


def _words(text: str, context: SourceContext) -> list[str]:
    return [token.text for token in tokenize(text, context)]


@pytest.mark.parametrize(
    ("text", "context", "words"),
    [
        ("a /*!50100 b */ c", _context(), ["a", "b", "c"]),
        ("a /*!99999 b */ c", _context(), ["a", "c"]),
        ("a /*!100000 b */ c", _context(), ["a", "c"]),
        ("a /*!080023 b */ c", _context(), ["a", "b", "c"]),
        ("a /*! b */ c", _context(), ["a", "b", "c"]),
        ("a /*M! b */ c", _context(), ["a", "c"]),
        ("a /*M! b */ c", _context("mariadb", 101119), ["a", "b", "c"]),
        ("a /*M!110000 b */ c", _context("mariadb", 101119), ["a", "c"]),
        ("a /*!50700 b */ c", _context("mariadb", 101119), ["a", "c"]),
        ("a /*!50699 b */ c", _context("mariadb", 101119), ["a", "b", "c"]),
        ("a /*!101000 b */ c", _context("mariadb", 101119), ["a", "b", "c"]),
        ("a /*!99999 b /* c */ d */ e", _context(), ["a", "e"]),
        ("a /*!50100 b /* c */ d */ e", _context(), ["a", "b", "d", "e"]),
        ("a -- b\nc --d", _context(), ["a", "c", "-", "-", "d"]),
        ("a # b\nc", _context(), ["a", "c"]),
        ("a/**/b", _context(), ["a", "b"]),
        ("'/* a */' \"-- b\"", _context(), ["/* a */", "-- b"]),
        ('"a" `b`', _context(ansi=True), ["a", "b"]),
        ("'a\\' b'", _context(), ["a' b"]),
        ("'a\\' b", _context(no_backslash=True), ["a\\", "b"]),
        ("'a''b' `c``d` \"e\"\"f\"", _context(), ["a'b", "c`d", 'e"f']),
        ("'\\n\\%\\q'", _context(), ["\n\\%q"]),
        ("1.5e3 x'41' 0x41 b'1' .5 N'n'", _context(), ["1.5e3", "x'41'", "0x41", "b'1'", ".", "5", "n"]),
        ("é\u00a0b$1 _c 1d", _context(), None),
    ],
)
def test_what_is_code(text: str, context: SourceContext, words: list[str] | None) -> None:
    if words is None:
        with pytest.raises(DMError):  # the two lexers disagree about Unicode white space: no cut is made
            tokenize(text, context)
    else:
        assert _words(text, context) == words


@pytest.mark.parametrize("text", ["'a", "`a", '"a', "/* a", "/*! a", "a /*!99999 b /* c */", "'a\\'"])
def test_what_has_no_end_is_not_understood(text: str) -> None:
    with pytest.raises(DMError) as caught:
        tokenize(text, _context())
    assert caught.value.name == "ddl-not-understood"
    assert "sql-pattern" in caught.value.workaround


_PARTS = st.lists(
    st.one_of(
        st.sampled_from(
            ["ALTER", "t1", "(", ")", ",", "=", "1.5", "/* c */", "-- l\n", "# m\n", "/*!50000 x */", "/*!99999 y */"]
        ),
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8).map(lambda name: Ident("n" + name).sql),
        st.text(max_size=8).map(lambda text: "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"),
    ),
    max_size=12,
)


@given(_PARTS)
def test_offsets_point_into_the_original_text(parts: list[str]) -> None:
    text = " ".join(parts)
    context = _context()
    lexed = scan(text, context)
    assert len(lexed.text) == len(lexed.bare) == len(text)
    end = 0
    for token in tokenize(text, context):
        assert token.start >= end
        end = token.end
        source = text[token.start : token.end]
        if token.kind == "name":
            assert source == Ident(token.text).sql
        elif token.kind != "string":
            assert source == token.text


@given(st.text(), st.booleans(), st.booleans())
def test_any_text_is_tokens_or_a_named_error(text: str, ansi: bool, no_backslash: bool) -> None:
    with contextlib.suppress(DMError):
        tokenize(text, _context(ansi=ansi, no_backslash=no_backslash))


def test_threads_read_statements_at_the_same_time() -> None:
    texts = [", ".join(f"`{letter}{number}` INT" for number in range(200)) for letter in "abcd"]
    alone = [_words(text, _context()) for text in texts]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # a thread is left in the middle of a statement
    try:
        with ThreadPoolExecutor(len(texts)) as pool:
            found = list(pool.map(lambda text: _words(text, _context()), texts * 20))
    finally:
        sys.setswitchinterval(interval)
    assert found == alone * 20
