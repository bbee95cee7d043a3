"""What the parts of `make chaos` came to, and on which commit: docs/chaos-result.json."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.parts import PARTS, ROOT, Part

PAGE = ROOT / "docs" / "chaos-result.json"


@dataclass(frozen=True)
class PartResult:
    """The last run of one part."""

    commit: str
    dirty: bool  # there were changes that were not committed: it proves nothing about the commit
    ok: bool
    passed: int
    failed: int
    seconds: int
    date: str


def load(page: Path = PAGE) -> dict[str, PartResult]:
    """The results by name of the part."""
    if not page.exists():
        return {}
    return {name: PartResult(**found) for name, found in json.loads(page.read_text(encoding="utf-8")).items()}


def store(name: str, result: PartResult, page: Path = PAGE) -> None:
    """Keep the result of one part beside those of the others."""
    results = {**load(page), name: result}
    found = {part: asdict(each) for part, each in sorted(results.items())}
    page.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def holds(result: PartResult | None, same_code: Callable[[str], bool]) -> bool:
    """Whether the part need not run again."""
    return result is not None and result.ok and not result.dirty and same_code(result.commit)


def left(results: Mapping[str, PartResult], same_code: Callable[[str], bool]) -> list[Part]:
    """The parts that have not passed on this code."""
    return [part for part in PARTS if not holds(results.get(part.name), same_code)]


def state(results: Mapping[str, PartResult], same_code: Callable[[str], bool]) -> list[str]:
    """A line for each part."""
    lines = []
    for number, part in enumerate(PARTS, 1):
        result = results.get(part.name)
        line = f"{number:2} {part.name:18} about {part.minutes} min: "
        if result is None:
            lines.append(line + "never run")
            continue
        what = "passed" if result.ok else "FAILED"
        where = result.commit[:7] + (" with uncommitted changes" if result.dirty else "")
        where += "" if same_code(result.commit) else ", other code than now"
        counts = f"{result.passed} passed, {result.failed} failed, {result.seconds} s, {result.date}"
        lines.append(f"{line}{what} on {where} ({counts})")
    return lines


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Ask git about the checkout."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def same_code(commit: str) -> bool:
    """Whether this commit has what HEAD has; pages, these results among them, do not count."""
    return git("diff", "--quiet", commit, "HEAD", "--", ".", ":!docs").returncode == 0


def dirty() -> bool:
    """Whether the checkout has changes that are not committed."""
    return bool(git("status", "--porcelain", "--", ".", ":!docs").stdout.strip())
