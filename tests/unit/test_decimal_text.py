"""Texts that are numbers are those that `int` takes."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import dm
from dm.text import is_decimal

_DIGITS = st.sampled_from("0123456789\u00b2\u2461\u0663\uff11 _-+x\n")


@given(st.text(_DIGITS, max_size=6) | st.integers(4290, 4310).map("7".__mul__))
def test_what_is_a_number_can_be_read_as_one(text: str) -> None:
    if is_decimal(text):
        assert f"{int(text):0{len(text)}}" == text
    else:
        assert not text.isascii() or not text.isdigit() or len(text) > 4300


def test_no_other_question_is_asked() -> None:
    of_bytes = {"dm/mysql/types/members.py", "dm/mysql/binlog/reader.py", "dm/text.py"}
    package = Path(dm.__file__).parent
    asking = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\.is(digit|decimal|numeric)\(", path.read_text(encoding="utf-8"))
    }
    assert asking <= of_bytes


def test_no_pattern_takes_a_line_break_at_its_end() -> None:
    """`$` matches before one: a pattern of a whole text is asked by `fullmatch`, or ends with `\\Z`."""
    package = Path(dm.__file__).parent
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in package.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"""re\.compile\(r?b?["'].*\$["']\)""", line)
    ]
    assert found == []
