"""What a type's name means is said in `dm.mysql.types`: elsewhere no name of a type is compared."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import dm
from dm.mysql.types import ColumnType

ROOT = Path(dm.__file__).parent
# The demo's workloads choose types by their name.
_ASIDE = ("mysql/types/", "demo/")
_ASKING = {"get", "startswith", "endswith", "isdisjoint", "index"}


def asked(source: str) -> Iterator[str]:
    """What in a module asks for a type's name, or which of the types it is."""
    for node in ast.walk(ast.parse(source)):
        found: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            found = [node.left, *node.comparators]
            found += [part for side in found for part in ast.iter_child_nodes(side) if isinstance(part, ast.expr)]
            if any(_is(part, "type") for part in found):
                yield from (f"line {part.lineno}: {ast.unparse(part)}" for part in found if _is_constant(part))
        elif isinstance(node, ast.Subscript):
            found = [node.slice]
        elif isinstance(node, ast.Match):
            found = [node.subject]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ASKING:
            found = [node.func.value, *node.args]
        yield from (f"line {part.lineno}: {ast.unparse(part)}" for part in dict.fromkeys(found) if _is_name(part))


def _is(node: ast.expr, attribute: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == attribute


def _is_name(node: ast.expr) -> bool:
    """`column.base`, or `column.type.name`."""
    return _is(node, "base") or (isinstance(node, ast.Attribute) and node.attr == "name" and _is(node.value, "type"))


def _is_constant(node: ast.expr) -> bool:
    """One of the descriptors, such as LONGTEXT."""
    return isinstance(node, ast.Name) and node.id.isupper() and not node.id.startswith("_")


def test_no_module_asks_for_the_name_of_a_type() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): list(asked(path.read_text()))
        for path in ROOT.rglob("*.py")
        if not path.relative_to(ROOT).as_posix().startswith(_ASIDE)
    }
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_a_module_that_does_is_found() -> None:
    for source in (
        "if column.base == 'json': pass",
        "if column.base in TEXTS: pass",
        "if {side.base, other.base} <= INTEGERS: pass",
        "if (one.base, other.base) in PAIRS: pass",
        "size = SIZES[column.base]",
        "size = SIZES.get(column.base)",
        "text = column.base.endswith('text')",
        "match column.base:\n    case 'json': pass",
        "if column.type.name == 'json': pass",
        "if column.type is LONGTEXT: pass",
        "if column.type in (JSON, LONGTEXT): pass",
    ):
        assert list(asked(source)), source
    for source in (
        "if column.type.is_document: pass",
        "if source.type is target.type: pass",
        "raise DMError('x', type=column.base)",
        "text = column.base + column.type.parameters(column)",
    ):
        assert not list(asked(source)), source


def test_each_question_that_a_descriptor_answers_is_asked() -> None:
    asked_for = {name for path in ROOT.rglob("*.py") for name in re.findall(r"\.(\w+)", path.read_text())}
    assert {each.name for each in fields(ColumnType)} - asked_for == set()
