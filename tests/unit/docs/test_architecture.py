"""ARCHITECTURE.md stays short, and its pictures are of the tree as it is."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from tests.unit.docs.document import ARCHITECTURE, ROOT, blocks, prose, section

WORDS = 1000
FILES_OF_A_ROW = 25
FILES_OF_A_STATEMENT = 20
TERMS = ("L", "B", "P0", "P1", "Lane", "Piece", "Intent", "Epoch")

TEXT = ARCHITECTURE.read_text(encoding="utf-8")


def _walk(title: str) -> list[str]:
    (picture,) = blocks(section(TEXT, title))
    return re.findall(r"dm/[\w/.]+", picture.text)


def _python_files(names: list[str]) -> set[str]:
    """What the names stand for; a folder stands for all modules in it."""
    found: set[str] = set()
    for name in names:
        path = ROOT / name
        inside = [one for one in path.glob("*.py") if one.name != "__init__.py"] if path.is_dir() else [path]
        assert all(one.is_file() for one in inside), name
        found |= {str(one.relative_to(ROOT)) for one in inside}
    return found


def test_it_is_read_in_one_sitting() -> None:
    assert len(re.findall(r"\S*\w\S*", prose(TEXT))) <= WORDS  # the bars of a table are no words


def test_a_row_change_passes_few_files() -> None:
    names = _walk("A row change, file by file")
    assert len(names) == len(set(names))
    assert len(_python_files(names)) <= FILES_OF_A_ROW


def test_a_statement_passes_few_files() -> None:
    names = _walk("A DDL statement, file by file")
    assert len(names) == len(set(names))
    assert len(_python_files(names)) <= FILES_OF_A_STATEMENT


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
