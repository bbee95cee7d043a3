"""Figures that long tests measured, kept so that `make chaos` can write them into docs/.

A test says `record("relay.bit_flips", {"flips": 500, "detected": 500})`; the figures of one name replace those of an
earlier run. Only the long runs are worth keeping: without DM_FIGURES (a directory) nothing is written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dm.unit import JSON

DIRECTORY = "DM_FIGURES"
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "chaos-figures.json"
CHAPTER = ROOT / "docs" / "chaos.md"


def commit() -> str:
    """The commit of the checkout, marked when there are changes that are not committed."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", "dm"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return head.stdout.strip() + (" and uncommitted changes" if changed.stdout.strip() else "")


def record(name: str, figures: Mapping[str, JSON]) -> None:
    """Keep what a test measured under this name, and show it."""
    print(f"figures of {name}: {json.dumps(dict(figures))}")
    directory = os.environ.get(DIRECTORY)
    if directory:
        found = {"commit": commit(), "date": datetime.now(UTC).isoformat(timespec="seconds"), **figures}
        path = Path(directory) / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def gather(directory: Path, page: Path = PAGE) -> None:
    """Write everything that was recorded into one file; figures that were not measured again stay."""
    known: dict[str, Any] = json.loads(page.read_text(encoding="utf-8")) if page.exists() else {}
    for path in sorted(directory.glob("*.json")):
        known[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    page.write_text(json.dumps(dict(sorted(known.items())), indent=2) + "\n", encoding="utf-8")
    if page == PAGE:
        tell(CHAPTER, "soak", soak_table(known["soak"]))


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """In Markdown."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)


def tell(page: Path, name: str, text: str) -> None:
    """Write a text into a page of docs/, between the two comments of this name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, opened, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    assert opened
    assert closed, f"{page} has no place for {name}"
    page.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")


def soak_table(found: Mapping[str, Any]) -> str:
    """What the last soak measured (`soak`), as docs/chaos.md has it."""
    times = ", ".join(
        f"{what.removeprefix('times: ')} {count}" for what, count in found.items() if what.startswith("times: ")
    )
    own, disk = "MiB, own memory of", "KiB on disk,"
    rows = [
        ("own memory of all processes, MiB", found[f"{own} all, warm"], found[f"{own} all, end"]),
        ("threads", found["threads, warm"], found["threads, end"]),
        ("descriptors", found["descriptors, warm"], found["descriptors, end"]),
    ]
    most = ", ".join(f"{what} {found[f'{disk} {what}, most']}" for what in ("logs", "relay", "history", "rest"))
    return (
        f"The last one: {found['date'][:10]}, {found['tasks']} tasks over {found['sources']} sources for"
        f" {found['minutes']} minutes, {found['rows']} rows.\nDone meanwhile: {times}.\n"
        f"Prometheus was answered {found['scrapes answered']} of {found['scrapes']} times.\n"
        f"The most on disk, in KiB: {most}.\n"
        f"Bounds that did not hold: {'; '.join(found['problems']) or 'none'}.\n\n"
        + table(("of", "when it was warm", "at the end"), rows)
    )


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
