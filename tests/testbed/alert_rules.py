"""The alert rules as a test has them: the same conditions with shorter times, so that nobody waits for an hour."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.unit.docs.document import ROOT

RULES = ROOT / "monitoring" / "dm.rules.yml"
# Hours of a statement and of a waiting shard; minutes over which something is summed up. What is no time stays.
_SHORTER = {"> 3600": "> 1", "[2m]": "[45s]", "[5m]": "[45s]", "[15m]": "[45s]", "offset 5m": "offset 45s"}


def names() -> list[str]:
    """All alerts."""
    return [str(rule["alert"]) for rule in _rules(_read())]


def sooner(directory: Path) -> Path:
    """A copy in which alerts don't wait before they fire."""
    tree = _read()
    for rule in _rules(tree):
        rule.pop("for", None)
        for usual, short in _SHORTER.items():
            rule["expr"] = str(rule["expr"]).replace(usual, short)
    written = StringIO()
    YAML(typ="safe", pure=True).dump(tree, written)
    path = directory / RULES.name
    path.write_text(written.getvalue(), encoding="utf-8")
    return path


def _read() -> dict[str, Any]:
    tree: dict[str, Any] = YAML(typ="safe").load(RULES.read_text(encoding="utf-8"))
    return tree


def _rules(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for group in tree["groups"] for rule in group["rules"]]
