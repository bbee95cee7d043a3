"""How servers differ is said in `dm.mysql.dialect`: elsewhere no flavor is compared, and no identifier names TiDB."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import dm
from dm.mysql.dialect import FLAVORS

ROOT = Path(dm.__file__).parent
# The demo starts servers by their name, a GTID has one of two forms, and DM's task files have keys of that name.
_ASIDE = ("mysql/dialect/", "demo/", "cli/demo.py", "gtid.py", "config/task.py")


def asked(source: str) -> Iterator[str]:
    """What in a module asks which server it is."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        found: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            found = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            found = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.MatchValue):
            found = [node.value]
        elif isinstance(node, ast.Subscript):
            found = [node.slice]
        for expression in found:
            for part in [*expression.elts] if isinstance(expression, ast.Tuple | ast.List | ast.Set) else [expression]:
                if _is_flavor(part):
                    yield f"line {part.lineno}: {ast.unparse(part)}"
        yield from (f"line {node.lineno}: {name}" for name in _names(node) if _names_tidb(name))  # type: ignore[attr-defined]


def _is_flavor(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value in (*FLAVORS, "tidb")
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.endswith("flavor")


def _names_tidb(name: str) -> bool:
    return "tidb" in name.lower() and name != "dm.mysql.dialect.tidb"


def _names(node: ast.AST) -> Iterator[str]:
    for field in ("id", "attr", "name", "arg", "module"):
        value = getattr(node, field, None)
        if isinstance(value, str):
            yield value


def test_no_module_asks_which_server_it_is() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): list(asked(path.read_text()))
        for path in ROOT.rglob("*.py")
        if not path.relative_to(ROOT).as_posix().startswith(_ASIDE)
    }
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_a_module_that_does_is_found() -> None:
    for source in (
        "if facts.flavor == 'mariadb': pass",
        "if 'mysql' != kind: pass",
        "if (a, b) == ('mysql', 'mariadb'): pass",
        "if kind in ('tidb', 'mysql'): pass",
        "same = source.flavor == target.flavor",
        "words = {'mysql': 1}",
        "since = SINCE[context.flavor]",
        "match kind:\n    case 'mariadb': pass",
        "def f(*, tidb: bool) -> None: ...",
        "x = connection.tidb",
        "f(tidb=True)",
        "from dm.session import tidb",
        "AT_TIDB = 1",
    ):
        assert list(asked(source)), source
    for source in (
        "raise DMError('x', what='TiDB has no such thing')",
        "context = SourceContext('mysql', 0, '')",
        "if facts.dialect.hides_columns: pass",
    ):
        assert not list(asked(source)), source


def test_every_capability_is_asked_by_somebody() -> None:
    capabilities = re.findall(
        r"^    ([a-z_]+): (?:Since|ClassVar)", (ROOT / "mysql/dialect/server.py").read_text(), re.M
    )
    assert len(capabilities) > 100
    asking = "\n".join(path.read_text() for path in ROOT.rglob("*.py"))
    assert [name for name in capabilities if not re.search(rf"\.{name}\b", asking)] == []
