"""Every module, file and name of dm that a comment, a docstring or a page refers to exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .document import ROOT

CODE = ("dm", "tests", "benchmarks", "scripts")
OF_DM = {path.name for path in (ROOT / "dm").iterdir()} | {path.stem for path in (ROOT / "dm").glob("*.py")}
SOURCES = sorted(
    path for root in CODE for path in (ROOT / root).rglob("*") if path.suffix in {".py", ".pyi", ".c", ".h"}
)
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = {path.name for path in SOURCES} | {path.name for path in ROOT.glob("*.py")}
# Files that a test makes, or names to stand for any.
INVENTED = {"tests/live/syncer/test_new.py", "tests/live/new/test_new.py", "dm/folder/module.py", "b.c", "dm.rules.yml"}

PATH = re.compile(r"(?<![\w/.-])((?:dm|tests|benchmarks|scripts)/[\w/.-]*\w\.(?:pyi|py|c|h))\b")
QUOTED = re.compile(r"`([\w/]+\.(?:py|c|h))`")
DOTTED = re.compile(r"(?<![\w./-])dm((?:\.[A-Za-z_]\w*)+)(?![\w/-])")


def defines(module: Path, names: list[str]) -> bool:
    return not names or bool(re.search(rf"\b{re.escape(names[0])}\b", module.read_text(encoding="utf-8")))


def dotted_exists(parts: list[str]) -> bool:
    if parts[0] not in OF_DM or (parts[-1].startswith("__") and parts[-1].endswith("__")):
        return True  # something else: `dm.toml`
    where = ROOT / "dm"
    for at, part in enumerate(parts):
        if (module := (where / part).with_suffix(".py")).is_file():
            return defines(module, parts[at + 1 :])
        if not (where / part).is_dir():
            return part == "_native" or defines(where / "__init__.py", parts[at:])
        where = where / part
    return True


def missing(text: str) -> Iterator[str]:
    yield from (path for path in PATH.findall(text) if not (ROOT / path).exists())
    for path in QUOTED.findall(text):
        if path.split("/")[0] not in CODE and "/" in path:
            if not any(str(source).endswith(f"/{path}") for source in SOURCES):
                yield path
        elif "/" not in path and path not in NAMES:
            yield path
    yield from (f"dm{rest}" for rest in DOTTED.findall(text) if not dotted_exists(rest[1:].split(".")))


def test_what_is_referred_to_exists() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in [*SOURCES, *PAGES]
        if path != Path(__file__)
        for name in missing(path.read_text(encoding="utf-8"))
        if name not in INVENTED
    }
    assert found == set()


@pytest.mark.parametrize(
    "text", ["dm/gone.py", "see `gone.py`", "`progress/gone.py`", "dm.progress.gone", "`dm.ident.Gone`"]
)
def test_a_reference_to_nothing_is_found(text: str) -> None:
    assert list(missing(text)) != []
