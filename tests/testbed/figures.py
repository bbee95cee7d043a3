"""Figures that long tests measured, kept so that `make chaos` can write them into docs/.

A test says `record("relay.bit_flips", {"flips": 500, "detected": 500})`; the figures of one name replace those of an
earlier run. Only the long runs are worth keeping: without DM_FIGURES (a directory) nothing is written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from dm.unit import JSON

DIRECTORY = "DM_FIGURES"
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "chaos-figures.json"


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
    known: dict[str, JSON] = json.loads(page.read_text(encoding="utf-8")) if page.exists() else {}
    for path in sorted(directory.glob("*.json")):
        known[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    page.write_text(json.dumps(dict(sorted(known.items())), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
