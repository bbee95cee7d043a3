"""Whatever shards alter, in whatever order, and whoever dies meanwhile: the target ends as a reference says.

A seed that failed is in the message; DM_SEED=<seed> plays it again. Its statements are in the test's directory.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from dm.mysql.dialect import Flavor
from dm.unit import JSON
from tests.testbed.figures import record
from tests.testbed.loop_result import SEED_VARIABLE, draw_seed
from tests.testbed.park import ServerPark
from tests.testbed.shard_workload import Mode, ShardWorkload

pytestmark = pytest.mark.live

PARTS = 10  # of each flavour, so that a machine's processors share them
SEEDS = 10  # of each part
STEPS = 40
# In make test the workload is always the same; deaths meet it at other places.
SAMPLE: dict[Mode, dict[Flavor, int]] = {
    "pessimistic": {"mysql": 4, "mariadb": 2},
    "optimistic": {"mysql": 4, "mariadb": 2},
}
MOST_FAILURES = 3


def workload(park: ServerPark, flavor: Flavor, directory: Path, mode: Mode, seed: int, steps: int) -> ShardWorkload:
    """A seed on the shared servers."""
    upstreams = (park.shared(flavor, "upstream-1"), park.shared(flavor, "upstream-2"))
    return ShardWorkload(upstreams, park.shared(flavor, "target"), directory, seed=seed, steps=steps, mode=mode)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("mode", "flavor"),
    [
        ("pessimistic", "mariadb"),
        ("optimistic", "mysql"),
        pytest.param("pessimistic", "mysql", marks=pytest.mark.chaos),
        pytest.param("optimistic", "mariadb", marks=pytest.mark.chaos),
    ],
)
def test_shards_that_alter_in_any_order_are_merged(
    park: ServerPark, tmp_path: Path, mode: Mode, flavor: Flavor
) -> None:
    seed = int(os.environ.get(SEED_VARIABLE, SAMPLE[mode][flavor]))
    played = workload(park, flavor, tmp_path, mode, seed, 12)
    result = played.run()
    assert not result.problem, f"DM_SEED={seed}, statements in {tmp_path}: {result.problem}"
    assert result.counts["DDL"] > 0
    played.drop()


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
def test_a_hundred_seeds_are_merged(park: ServerPark, tmp_path: Path, mode: Mode, flavor: Flavor, part: int) -> None:
    first = draw_seed(mode, flavor, part)
    seeds = 1 if SEED_VARIABLE in os.environ else SEEDS
    totals = Counter[str]()
    failures = dict[int, str]()
    for seed in range(first, first + seeds):
        played = workload(park, flavor, tmp_path, mode, seed, STEPS)
        result = played.run()
        totals += result.counts + Counter({f"killed at {point}": times for point, times in result.fired.items()})
        totals["seeds"] += 1
        totals["paused with the reason"] += bool(result.paused)
        if result.problem:
            failures[seed] = result.problem
            sys.stderr.write(f"DM_SEED={seed} {mode} {flavor}: {result.problem}\n")
            if len(failures) == MOST_FAILURES:
                break
        played.drop()
    figures: dict[str, JSON] = {**totals, "first seed": first, "identical or paused": totals["seeds"] - len(failures)}
    record(f"shards.{mode}.{flavor}.{part}", figures)
    assert not failures, f"seeds {sorted(failures)}, statements below {tmp_path}: {next(iter(failures.values()))}"
