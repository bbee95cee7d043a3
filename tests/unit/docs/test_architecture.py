"""ARCHITECTURE.md stays short, and its pictures are of the tree as it is.

Counted is what `wc -w` counts, in pictures and lists, too: all but the files of the three walks. How many those are is
not ours to say, since a walk has to be complete; each has a bound of its own.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.unit.docs.document import ARCHITECTURE, ROOT, blocks, section, walk

WORDS = 1000
WALKS = {"A row change": 48, "A DDL statement": 101, "A gated DDL statement": 15}  # and the most files of each
TERMS = ("L", "B", "P0", "P1", "Lane", "Piece", "Intent", "Epoch")

TEXT = ARCHITECTURE.read_text(encoding="utf-8")


def test_it_is_read_in_one_sitting() -> None:
    walked = (picture.text for title in WALKS for picture in blocks(section(TEXT, f"{title}, file by file")))
    assert len(TEXT.split()) - sum(len(files.split()) for files in walked) <= WORDS


@pytest.mark.parametrize(("title", "most"), WALKS.items())
def test_a_walk_names_files_once(title: str, most: int) -> None:
    """`tests/live/syncer/follow/test_walks.py` compares them with what runs; a walk gets no longer unseen."""
    names = walk(f"{title}, file by file")
    assert 9 < len(names) == len(set(names)) <= most
    assert [name for name in names if not (ROOT / name).is_file()] == []


def test_the_layers_are_those_that_the_linter_enforces() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(one for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    (picture,) = blocks(section(TEXT, "Layers"))
    shown = [re.findall(r"dm\.[\w.]+", re.split(r"\s{2,}", line)[0]) for line in picture.text.splitlines()]
    enforced = [layer.split(" | ") for layer in contract["layers"]]
    vocabulary = {name for layer in enforced[len(shown) - 1 :] for name in layer}
    assert shown[:-1] == enforced[: len(shown) - 1]
    assert set(shown[-1]) < vocabulary


def test_the_glossary_has_the_terms() -> None:
    terms = re.findall(r"\*\*([^*]+)\*\*", section(TEXT, "Glossary"))
    assert set(TERMS) <= set(terms)
