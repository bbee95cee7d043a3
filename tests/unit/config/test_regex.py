"""Expressions mean what they mean in RE2, or are refused; never silently something else."""

from __future__ import annotations

import contextlib
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.config.regex import RegexError, compile_regex

MEANINGS = [
    (r"^test$", ["test"], ["test\n", "tests", "atest"]),
    (r"est", ["test", "best"], ["tent"]),
    (r"^\d+$", ["123"], ["١٢٣", "12a", ""]),
    (r"^\w+$", ["a_1"], ["é", "a-b"]),
    (r"^\D$", ["é", "a"], ["1"]),
    (r"^\S\s$", ["a "], ["aa", "a\x0b"]),
    (r"\bt\b", ["a t b", "ét é"], ["at"]),
    (r"^t\z", ["t"], ["t\n"]),
    (r"(?m)^a$", ["b\na\nc"], ["ba"]),
    (r"^a.b$", ["a-b"], ["a\nb"]),
    (r"(?s)^a.b$", ["a\nb"], []),
    (r"a(?i)b|c", ["ab", "aB", "C"], ["AB"]),
    (r"(a(?i)b)c", ["aBc"], ["aBC"]),
    (r"(?i:a)b", ["Ab"], ["AB"]),
    (r"(?i)a(?-i)b", ["Ab"], ["AB"]),
    (r"^[[:alpha:]_]+$", ["ab_"], ["a1"]),
    (r"^[[:^digit:]]+$", ["ab"], ["a1"]),
    (r"^[^\d]+$", ["ab"], ["a1"]),
    (r"^[\W]+$", ["-+"], ["a"]),
    (r"^[]a]+$", ["]a"], ["b"]),
    (r"^[^]]+$", ["a"], ["]"]),
    (r"^[a\-z]+$", ["a-z"], ["b"]),
    (r"^[a-]+$", ["a-"], ["b"]),
    (r"^[[]$", ["["], ["a"]),
    (r"^[&&~~]+$", ["&~"], ["a"]),
    (r"^a{2}$", ["aa"], ["a"]),
    (r"^a{,2}$", ["a{,2}"], ["aa"]),
    (r"^a{$", ["a{"], ["a"]),
    (r"^\Qa.b\E+$", ["a.b", "a.bb"], ["axb"]),
    (r"^\x41\x{42}\103$", ["ABC"], ["abc"]),
    (r"^(?P<x>a)(?<y>b)$", ["ab"], ["ba"]),
    (r"^a #b$", ["a #b"], ["a"]),
    (r"^\.\-\/$", [".-/"], ["a-/"]),
    (r"(?U)^a+?$", ["aa"], ["b"]),
    ("", ["", "a"], []),
    (r"^\B$", [""], ["a"]),
    (r"^a\_b$", ["a_b"], ["ab"]),
]


@pytest.mark.parametrize(("pattern", "matching", "others"), MEANINGS)
def test_the_meaning_is_re2s(pattern: str, matching: list[str], others: list[str]) -> None:
    search = compile_regex(pattern).search
    assert [text for text in matching if search(text) is None] == []
    assert [text for text in others if search(text) is not None] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!a)",
        "(?>a)",
        r"(a)\1",
        "(?P=x)",
        "(?(1)a)",
        "(?#c)",
        "a++",
        "a*+",
        "a**",
        "a+{2}",
        "a{2}{3}",
        "a{1001}",
        "a{3,2}",
        "(",
        ")",
        "[",
        "[a",
        "[z-a]",
        "*",
        "a|*",
        r"\p{Greek}",
        r"\pL",
        r"\C",
        r"\Z",
        r"\y",
        r"a\E",
        "\\",
        "[[:word",
        "[[:nope:]]",
        r"\x{110000}",
        r"\xg",
        "(?z)",
        "(?)",
    ],
)
def test_what_re2_lacks_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError):
        compile_regex(pattern)


def test_case_is_ignored_on_demand() -> None:
    assert compile_regex("^ABC$", ignore_case=True).search("abc")
    assert not compile_regex("^ABC$").search("abc")


# Where both languages agree: no classes, no anchors at newlines, no flags.
_atoms = st.sampled_from(["a", "b", "[ab]", "[^a]", "(?:ab)", "(a|b)", r"\.", "."])
_repeated = st.builds(str.__add__, _atoms, st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "*?", "{0,}"]))
_sequences = st.lists(_repeated, max_size=5).map("".join)
_agreed = st.lists(_sequences, min_size=1, max_size=3).map("|".join)


@given(_agreed, st.text("ab.c", max_size=8))
def test_the_common_language_is_pythons(pattern: str, text: str) -> None:
    ours, python = compile_regex(pattern).search(text), re.search(pattern, text)
    assert (ours and ours.span()) == (python and python.span())


@given(st.text(alphabet=string.printable, max_size=12))
def test_any_text_is_compiled_or_refused(pattern: str) -> None:
    with contextlib.suppress(RegexError):
        compile_regex(pattern)


@given(st.text(max_size=10))
def test_a_quoted_text_matches_itself(text: str) -> None:
    if r"\E" not in text and not text.endswith("\\"):
        match = compile_regex(rf"\A\Q{text}\E\z").search(text)
        assert match is not None
