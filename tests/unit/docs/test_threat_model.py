"""Each statement of the threat model names a test that is there."""

from __future__ import annotations

import ast
import re

from tests.unit.docs.document import ROOT

PAGE = ROOT / "docs" / "threat-model.md"


def _rows() -> list[tuple[str, list[str]]]:
    """Each statement with what it is shown by."""
    found = []
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        for line in section.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if line.startswith("| ") and cells[0] != "statement":
                found.append((cells[0], re.findall(r"`(tests/[^`]+)`", cells[1])))
    return found


def _functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_statement_is_shown_by_tests_that_are_there() -> None:
    rows = _rows()
    assert len(rows) > 40
    for statement, shown in rows:
        assert shown, statement
        for each in shown:
            file, _, name = each.partition("::")
            assert name in _functions(file), each


def test_each_kind_of_attacker_has_a_section() -> None:
    headings = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [
        "Another user of the host", "The network", "Bearers of tokens", "Several hosts", "A hostile source",
        "A hostile target", "Task files", "Web pages", "What is not defended",
    ]  # fmt: skip
