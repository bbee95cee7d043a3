"""A file that is written from values says just these values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.config.document import parse
from dm.config.problem import ProblemReport
from dm.config.written import as_yaml

# What a writer of YAML may spoil: line breaks of Unicode, control characters, texts that look like something else.
SPECIAL = (
    "\x85",
    "a\u2028b",
    "\u2029",
    "a\r\nb",
    "\ufeff",
    "\x07\x7f\x9f",
    "  ",
    "\U0001f980",
    "null",
    "0x1f",
    "- a",
    "'\"",
)


def read(text: str) -> object:
    report = ProblemReport("a file")
    tree = parse(text, report)
    report.raise_if_any()
    assert tree is not None
    return {key: getattr(value, "text", value) for key, value in tree.items()}


@pytest.mark.parametrize("text", SPECIAL, ids=ascii)
def test_a_text_comes_back_letter_by_letter(text: str) -> None:
    assert read(as_yaml({"first": text, "last": "x"})) == {"first": text, "last": "x"}


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_any_text_does(text: str) -> None:
    assert read(as_yaml({"first": text, "last": "x"})) == {"first": text, "last": "x"}


def test_keys_stay_in_their_order_and_lines_whole() -> None:
    assert as_yaml({"z": [1, True], "a": {"b": "x " * 200}}) == f"z:\n- 1\n- true\na:\n  b: '{'x ' * 200}'\n"
