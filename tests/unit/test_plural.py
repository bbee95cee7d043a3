"""Numbers of things in messages, one of them too."""

from __future__ import annotations

import re

import pytest

from dm.cli.output import check_table
from dm.text import counted
from tests.unit.docs.document import ROOT


def test_one_is_singular() -> None:
    assert [counted(number, "table") for number in (0, 1, 2)] == ["0 tables", "1 table", "2 tables"]


def test_a_check_counts_so(capsys: pytest.CaptureFixture[str]) -> None:
    check_table({"results": [], "summary": {"total": 1, "successful": 0, "warning": 1, "failed": 0}})
    assert "1 check: 0 passed, 1 warning, 0 failed" in capsys.readouterr().out


def test_a_size_has_no_default_in_seconds() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| `(\d+s)` \| (.*) \|$", (ROOT / "docs/configuration.md").read_text(), re.M)
    assert rows, "there are durations"
    assert [key for key, _, meaning in rows if re.search(r"\b(GB|bytes)\b", meaning)] == []
