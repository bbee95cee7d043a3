"""Whatever the tables are and whatever is written to them: the target ends identical, through kills and cuts.

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
from tests.testbed.convergence import Convergence, drop
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.loop_result import SEED_VARIABLE, draw_seed
from tests.testbed.park import ServerPark

pytestmark = [pytest.mark.live]

PARTS = 10  # of each flavour, so that a machine's processors share them
SEEDS = 10  # of each part
SAMPLE = 20261121  # in make test the workload is always the same; kills and cuts still meet it at other places
MOST_FAILURES = 5


@pytest.mark.timeout(900)
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_random_tables_and_statements_converge(
    park: ServerPark, schema: SchemaFactory, tmp_path: Path, flavor: Flavor
) -> None:
    upstream, target = park.shared(flavor, "upstream-1"), park.shared(flavor, "target")
    seed = int(os.environ.get(SEED_VARIABLE, SAMPLE))
    name = schema(upstream, target, prefix="conv")
    result = Convergence(upstream, target, name, tmp_path, seed=seed, lives=2, transactions=40, tables=4).run()
    assert not result.problem, f"DM_SEED={seed}, statements in {tmp_path}: {result.problem}"
    assert result.kills + result.cut_lives == result.lives - 1 >= 2, "all but the last, which nobody disturbs"
    assert result.refused * 2 < result.statements, f"seed {seed}: most statements were refused"
    assert result.applied["eventRows"] > 0, f"seed {seed}: no row went as a row event"


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_a_hundred_seeds_converge(park: ServerPark, tmp_path: Path, flavor: Flavor, part: int) -> None:
    upstream, target = park.shared(flavor, "upstream-1"), park.shared(flavor, "target")
    first = draw_seed(flavor, part)
    seeds = 1 if SEED_VARIABLE in os.environ else SEEDS
    totals: Counter[str] = Counter()
    failures: dict[int, str] = {}
    for seed in range(first, first + seeds):
        name = f"conv_{seed}"
        directory = tmp_path / str(seed)
        directory.mkdir()
        for server in (upstream, target):
            server.execute(f"CREATE DATABASE {name}")
        result = Convergence(upstream, target, name, directory, seed=seed).run()
        totals += Counter({what: int(str(count)) for what, count in result.figures().items()})
        totals["seeds"] += 1
        if result.problem:
            failures[seed] = result.problem
            sys.stderr.write(f"DM_SEED={seed} {flavor}: {result.problem}\n")
            if len(failures) == MOST_FAILURES:
                break
        drop(upstream, target, name)
    figures: dict[str, JSON] = {**totals, "first seed": first, "identical": totals["seeds"] - len(failures)}
    record(f"convergence.{flavor}.{part}", figures)
    assert totals["rows applied as events"] > 0, "no row went as a row event"
    assert not failures, f"seeds {sorted(failures)}, statements below {tmp_path}: {next(iter(failures.values()))}"
