"""A clock that jumps changes nothing of who owns what: nobody who decides that reads the time of day."""

from __future__ import annotations

import ast

import pytest

from tests.unit.docs.document import ROOT

DECIDING = (
    *sorted((ROOT / "dm" / "cluster").glob("*.py")),
    ROOT / "dm/worker/holdings.py",
    ROOT / "dm/task/subtask.py",
)


@pytest.mark.parametrize("module", DECIDING, ids=lambda path: path.stem)
def test_who_owns_what_is_decided_by_a_clock_that_only_goes_on(module: object) -> None:
    tree = ast.parse(ROOT.joinpath(str(module)).read_text(encoding="utf-8"))
    asked = {
        node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not asked & {"time", "now", "utcnow", "today", "localtime", "gmtime"}
    imported = {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for name in node.names
    }
    assert not imported & {"datetime", "time"}


def test_the_look_at_modules_sees_one_that_does() -> None:
    asked = ast.parse((ROOT / "dm/worker/metrics.py").read_text(encoding="utf-8"))
    assert any(isinstance(node, ast.Attribute) and node.attr == "time" for node in ast.walk(asked))
