"""The decisions have one form, fit on a screen, and are all in the index."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from tests.unit.docs.document import DECISIONS, blocks

SCREEN_LINES = 45
PAGES = sorted(path for path in DECISIONS.glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_decision_has_its_form_and_fits_on_a_screen(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    title, _, date, *_ = text.splitlines()
    assert re.fullmatch(rf"# {page.name[:3]}\. \S.+", title)
    assert datetime.date.fromisoformat(date)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "What it costs"]
    assert len(text.splitlines()) <= SCREEN_LINES
    assert not blocks(text), "a decision is prose"


def test_the_index_lists_every_decision_in_order_with_its_title_and_date() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d{3})\]\((.+)\) \| (.+) \| (.+) \|$", index, re.MULTILINE)
    expected = []
    for page in PAGES:
        title, _, date, *_ = page.read_text(encoding="utf-8").splitlines()
        expected.append((page.name[:3], page.name, title.split(". ", 1)[1], date))
    assert rows == expected
    assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
