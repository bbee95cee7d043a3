"""`python -m tests.chaos`: run one part, or all that have not passed on this code, or tell how they stand."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from tests.chaos.parts import PARTS, ROOT, Part, files_of, part_of, test_files
from tests.chaos.results import PartResult, dirty, git, left, load, same_code, state, store
from tests.testbed import figures

FIGURES = ROOT / ".cache" / "figures"


def main() -> int:
    """Run what is asked for; 1 if any of it failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="the long tests, in parts")
    parser.add_argument("--part", default="", help="number or name; `state` tells how all stand and runs none")
    parser.add_argument("--pytest-flags", default="")
    parser.add_argument("--loop-flags", default="")
    given = parser.parse_args()
    asked: list[Part] = []
    if given.part != "state":
        asked = [part_of(given.part)] if given.part else left(load(), same_code)
    outcomes = [_run(part, given.pytest_flags.split(), given.loop_flags.split()) for part in asked]
    print("\n".join(state(load(), same_code)))
    return 0 if all(outcomes) else 1


def _run(part: Part, pytest_flags: list[str], loop_flags: list[str]) -> bool:
    print(f"part {PARTS.index(part) + 1} of {len(PARTS)}, {part.name}: about {part.minutes} minutes", flush=True)
    began, commit, changed = time.monotonic(), git("rev-parse", "HEAD").stdout.strip(), dirty()
    with tempfile.TemporaryDirectory(prefix="dm-chaos-") as directory:
        report = Path(directory) / "report.xml"
        command = [sys.executable, "-m", "tests.chaos.run", *loop_flags]
        if part.paths:
            files = files_of(part, test_files())
            command = [sys.executable, "-m", "pytest", "-m", "chaos", f"--junitxml={report}", *pytest_flags, *files]
        environment = {**os.environ, figures.DIRECTORY: str(FIGURES)}
        ok = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0
        passed, failed = _counts(report) if report.exists() else (int(ok), int(not ok))
    figures.gather(FIGURES)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    changed = changed or dirty() or git("rev-parse", "HEAD").stdout.strip() != commit
    store(part.name, PartResult(commit, changed, ok, passed, failed, round(time.monotonic() - began), now))
    return ok


def _counts(report: Path) -> tuple[int, int]:
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))

    def total(name: str) -> int:
        return sum(int(suite.get(name, "0")) for suite in suites)

    failed = total("failures") + total("errors")
    return total("tests") - failed - total("skipped"), failed


if __name__ == "__main__":
    sys.exit(main())
