"""Tables of cases, each for a sentence of DM's documentation, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dm.ident import TableName
from dm.rules import TableRules
from tests.unit.rules.subtasks import subtask

FOLDER = Path(__file__).parent


def table(name: str) -> Any:
    """The content of one file."""
    return YAML(typ="safe").load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


def cases(name: str) -> list[Any]:
    """The cases of one file, for `parametrize`."""
    return [pytest.param(case, id=case["says"]) for case in table(name)]


def rules_of(case: Mapping[str, Any], section: str, reference: str) -> TableRules:
    """The rules of a case: what stands under `section` becomes rules r0, r1, ... of a task file."""
    entries = {f"r{number}": rule for number, rule in enumerate(case[section])}
    sections = f"{section}: {json.dumps(entries)}\ncase-sensitive: {json.dumps(case.get('case-sensitive', False))}\n"
    return TableRules(subtask(f"{reference}: {json.dumps(list(entries))}", sections))


def named(name: str | list[str]) -> TableName:
    """`schema.table`, or a schema alone, or both in a list."""
    schema, table_name = name if isinstance(name, list) else (name.partition(".")[0], name.partition(".")[2])
    return TableName(schema, table_name)
