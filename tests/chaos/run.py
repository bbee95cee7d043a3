"""`python -m tests.chaos.run`: crash loops over both flavours, with and without relay, until every point has fired.

Every fault point of the syncer and of the relay is drawn, each at least once; processes die there, at arbitrary times
and inside each other's safe-mode windows, or are frozen and go on later. The points of dump, load and daemon are struck
by tests of their own, which the result names. The result file says what was done, and with which seeds.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from dm.demo.servers import ThrowawayServer
from dm.faults import POINTS
from dm.mysql.dialect import FLAVORS, Flavor
from dm.unit import JSON
from tests.testbed.crash_loop import RELAY_POINTS, SYNC_POINTS, CrashLoop
from tests.testbed.loop_result import LoopResult, commit, draw_seed

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "docs" / "chaos-loops.json"
ROUND = 6  # lives between two comparisons
LATEST = 2.0  # times the minutes: how long points that have not fired are waited for


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the loops, write the result, say what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run", description="crash loops over sync and relay")
    parser.add_argument("--minutes", type=float, default=10.0, help="about how long (default 10)")
    parser.add_argument("--result", type=Path, default=RESULT, help="where the figures go")
    parser.add_argument("--flavor", choices=FLAVORS, action="append", help="only this flavour")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    flavors: list[Flavor] = given.flavor or list(FLAVORS)
    results: list[LoopResult] = []
    with tempfile.TemporaryDirectory(prefix="dm-chaos-") as directory:
        for number, flavor in enumerate(flavors):
            until = began + given.minutes * 60 * (number + 1) / len(flavors)
            results += _flavor_loops(flavor, Path(directory) / flavor, until)
    wrong = [f"seed {result.seed}: {result.problem}" for result in results if result.problem]
    wrong += [f"seed {result.seed} hurt too little: {', '.join(result.mild)}" for result in results if result.mild]
    fired = sum((result.fired for result in results), Counter[str]())
    wrong += [f"nobody died at {point}" for point in (*SYNC_POINTS, *RELAY_POINTS) if not fired[point]]
    elsewhere = {point: strikers(point) for point in sorted(POINTS - {*SYNC_POINTS, *RELAY_POINTS})}
    wrong += [f"no test strikes at {point}" for point, tests in elsewhere.items() if not tests]
    _write(given.result, results, fired, elsewhere, wrong, time.monotonic() - began)
    for line in wrong:
        print(f"WRONG: {line}")
    print(f"{sum(result.lives for result in results)} lives, {sum(fired.values())} ended at points; see {given.result}")
    return 1 if wrong else 0


def _flavor_loops(flavor: Flavor, directory: Path, until: float) -> list[LoopResult]:
    """A loop without and one with relay on a pair of servers of their own."""
    results = []
    directory.mkdir()
    with (
        ThrowawayServer(flavor, directory / "upstream", server_id=1) as upstream,
        ThrowawayServer(flavor, directory / "target", server_id=2) as target,
    ):
        for relay in (False, True):
            seed = draw_seed(flavor, relay)
            print(f"{flavor}, {'with' if relay else 'without'} relay: DM_SEED={seed}", flush=True)
            remaining = until - time.monotonic()
            ends = time.monotonic() + (remaining if relay else remaining / 2)
            schema = "relayed" if relay else "direct"
            with CrashLoop(upstream, target, schema, directory, seed=seed, relay=relay) as loop:
                _repeat(loop, ends, ends + (LATEST - 1) * max(remaining, 60.0))
            results.append(loop.result)
            print(json.dumps(loop.result.figures(), indent=2), flush=True)
    return results


def _repeat(loop: CrashLoop, ends: float, latest: float) -> None:
    """Rounds until the time is over and every point has fired."""
    result = loop.result
    while result.identical and (time.monotonic() < ends or (loop.unfired() and time.monotonic() < latest)):
        loop.round(ROUND)
        left = loop.unfired()
        print(
            f"  {result.lives} lives, {result.rounds} comparisons, {result.rows} rows"
            + (f", nobody died at {', '.join(left)}" if left else ""),
            flush=True,
        )


def strikers(point: str) -> list[str]:
    """The test files outside the loops that arm a point: by name, to be given an action, or all of its part."""
    part = point.partition(".")[0]
    name = re.escape(point)
    armed = re.compile(rf'{name}=(kill|stop|hang|error)|[(\[ =]"{name}(?:@\d+)?"[,)\]]|point\.startswith\("{part}\."\)')
    return [file for file, text in _texts().items() if armed.search(text)]


@cache
def _texts() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "tests").rglob("*.py"))}


def _write(
    path: Path,
    results: list[LoopResult],
    fired: Counter[str],
    elsewhere: dict[str, list[str]],
    wrong: list[str],
    seconds: float,
) -> None:
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no", "dm"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, JSON] = {
        "commit": commit(),
        "uncommitted changes under dm": bool(changed.stdout.strip()),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "minutes": round(seconds / 60, 1),
        "outcome": "failed" if wrong else "passed",
        "wrong": list[JSON](wrong),
        "lives": sum(result.lives for result in results),
        "fired": dict(sorted(fired.items())),
        "points struck elsewhere": {point: list[JSON](tests) for point, tests in elsewhere.items()},
        "loops": [result.figures() for result in results],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
