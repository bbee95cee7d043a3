"""What a type's name means is said in `dm.mysql.types`: elsewhere no name of a type is compared."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import dm
from dm.mysql.types import ColumnType
from dm.mysql.types.registry import KNOWN

ROOT = Path(dm.__file__).parent
# The demo's workloads choose types by their name.
_ASIDE = ("mysql/types/", "demo/")
# Words that begin other clauses or are functions, too, and SERIAL, which is also an attribute.
_OF_THE_GRAMMAR = {
    "BINARY", "CHAR", "CHARACTER", "FIXED", "JSON", "SERIAL", "SET", "UUID", "VECTOR", "YEAR",
}  # fmt: skip
_OTHER_WORDS = ("dumpfiles/literals.py",)  # has what MySQL's JSON_TYPE says
_OTHER_NAMES = ("rules/",)  # compare the operands of expressions, a word of the types' own interface
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


def spelled(source: str) -> Iterator[str]:
    """The words of a module that spell a type; not those that begin a longer text."""
    words, tree = KNOWN.spellings.keys() - _OF_THE_GRAMMAR, ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in words and id(node) not in parts:
            yield f"line {node.lineno}: {node.value}"


def listed(source: str) -> Iterator[str]:
    """The lists of a module that have nothing but types' names."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Dict | ast.Set | ast.List | ast.Tuple):
            continue
        members = node.keys if isinstance(node, ast.Dict) else node.elts
        names = [each.value for each in members if isinstance(each, ast.Constant)]
        if len(names) > 1 and len(names) == len(members) and all(name in KNOWN.types for name in names):
            yield f"line {node.lineno}: {', '.join(map(str, names))}"


def test_no_module_spells_types_or_lists_their_names() -> None:
    found: dict[str, list[str]] = {}
    for path in ROOT.rglob("*.py"):
        name, source = path.relative_to(ROOT).as_posix(), path.read_text()
        if not name.startswith((*_ASIDE, *_OTHER_WORDS)):
            found[name] = [*spelled(source)]
        if not name.startswith((*_ASIDE, *_OTHER_NAMES)):
            found[name] = [*found.get(name, []), *listed(source)]
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_the_scan_for_words_sees_lists_sets_and_keys() -> None:
    assert [*spelled('words[:1] == ["TIMESTAMP"]')] == ["line 1: TIMESTAMP"]
    assert [*listed('_NUMBERS = frozenset({"int", "bigint"})')] == ["line 1: int, bigint"]
    assert [*listed('{"json": 1, "longtext": 2}')] == ["line 1: json, longtext"]
    assert [*listed('("json", "exact")')] == []
