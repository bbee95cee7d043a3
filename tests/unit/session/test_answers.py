"""Whoever takes a server's answer apart says so, and an answer of another shape is one error."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dm
from dm.errors import DMError
from dm.session.answers import note_question, reads_answers, understood

ROOT = Path(dm.__file__).parent
_MARKS = {"reads", "reads_own", "reading", "reads_answers", "understood"}
_ASKING = {"query", "query_patiently", "fetch", "fetchall", "fetchone", "read_all"}
_HANDS_ON = "sourcelog/upstream/connection.py"  # a driver's cursor becomes `fetch`, whose readers have marks
_NO_SERVER = {f"worker/{name}.py" for name in ("registry", "registry_moves", "shared_registry")}  # SQLite


def _name(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _has_mark(node: ast.AST) -> bool:
    if isinstance(node, ast.With):
        return any(_name(item.context_expr) in _MARKS for item in node.items)
    return isinstance(node, ast.FunctionDef) and any(_name(each) in _MARKS for each in node.decorator_list)


def unmarked(source: str) -> Iterator[int]:
    """The lines of questions whose answers are taken apart without a mark."""
    tree = ast.parse(source)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _name(node) not in _ASKING:
            continue
        if ast.unparse(node.func) == "self._connection.query" and "class TargetConnection" in source:
            continue
        user = above[node]
        # Handed on, not read, or only asked whether there is anything.
        if isinstance(user, ast.Expr | ast.Return | ast.If | ast.UnaryOp):
            continue
        if isinstance(user, ast.Call) and _name(user) == "bool":
            continue
        place: ast.AST = node
        while place in above and not _has_mark(place):
            place = above[place]
        if place not in above:
            yield node.lineno


def test_whoever_takes_an_answer_apart_says_so() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT).parts[0] != "demo"
        and path.relative_to(ROOT).as_posix() not in {_HANDS_ON, *_NO_SERVER}
        and (lines := list(unmarked(path.read_text())))
    }
    assert found == {}


@pytest.mark.parametrize(
    "body",
    [
        "return int(c.query('SELECT 1')[0][0])",
        "for a, b in c.query('SELECT 1, 2'):\n        pass",
        "rows = fetch(c, 'SELECT 1')",
        "(a,), = c.query_patiently(b'SELECT 1')",
        "return {str(a) for (a,) in cursor.fetchall()}",
    ],
)
def test_a_function_that_does_not_is_found(body: str) -> None:
    assert list(unmarked(f"def f(c):\n    {body}\n"))
    assert not list(unmarked(f"@reads_answers\ndef f(c):\n    {body}\n"))
    assert not list(unmarked(f"@reads(lambda key: key.worker)\ndef f(c):\n    {body}\n"))


class _Result:
    rows = ((None, "secret", 1),)


class _Connection:
    _result = _Result()


def test_a_failure_names_the_question_and_what_came_without_values() -> None:
    connection = _Connection()

    @reads_answers
    def read() -> int:
        note_question(connection, "db:3306", "SELECT a FROM `s`.`t` WHERE b = 'secret'")
        return int(_Result.rows[0][0])  # type: ignore[call-overload, no-any-return]

    with pytest.raises(DMError, match="does not answer as") as raised:
        read()
    text = str(raised.value)
    assert raised.value.name == "server-answer-garbled"
    assert "TypeError from the answer to SELECT a FROM `s`.`t` WHERE b = ?" in text
    assert "rows: 1, columns: 3 (NULL, str, int)" in text
    assert "secret" not in text


def test_a_function_that_yields_is_read_to_its_end() -> None:
    connection = _Connection()

    @reads_answers
    def read() -> Iterator[int]:
        note_question(connection, "db:3306", b"SELECT 1")
        yield 1
        yield int("x")

    found = read()
    assert next(found) == 1
    with pytest.raises(DMError):
        next(found)


def test_a_failure_without_a_question_stays_a_defect_of_ours() -> None:
    note_question(_Connection(), "db:3306", b"SELECT 1")
    with pytest.raises(ValueError, match="invalid literal"), understood():
        int("x")
