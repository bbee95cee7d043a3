"""The convergence test between servers of two kinds, with what both have: identical, or paused as the documents say.

A seed that failed is in the message; DM_SEED=<seed> plays it again. Its statements are in the test's directory.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from dm.demo.private_server import PrivateServer
from dm.errors.catalogue import CATALOGUE
from dm.mysql.dialect import Flavor
from tests.testbed.convergence import Convergence, drop
from tests.testbed.figures import record
from tests.testbed.loop_result import SEED_VARIABLE, draw_seed
from tests.testbed.park import ServerPark
from tests.testbed.shared_dialect import Kind, shared_dialect

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(3600)]

SEEDS = 6
COLLATION = "utf8mb4_general_ci"  # the servers' defaults differ
# docs/tidb.md and docs/ddl.md list these.
PAUSES = tuple(CATALOGUE[name].code for name in ("ddl-values-differ", "columns-narrower", "ddl-failed"))
PAIRS = [
    pytest.param("mysql", "mariadb"),
    pytest.param("mariadb", "mysql"),
    pytest.param("mysql", "tidb", marks=pytest.mark.tidb),
    pytest.param("mariadb", "tidb", marks=pytest.mark.tidb),
]


@pytest.mark.parametrize(("source", "kind"), PAIRS)
def test_seeds_converge(park: ServerPark, tmp_path: Path, source: Flavor, kind: Kind) -> None:
    upstream = park.shared(source, "upstream-1")
    target: PrivateServer = park.tidb() if kind == "tidb" else park.shared(kind, "target")
    first = draw_seed(source, SEEDS)
    seeds = 1 if SEED_VARIABLE in os.environ else SEEDS
    totals: Counter[str] = Counter()
    for seed in range(first, first + seeds):
        name = f"across_{seed}"
        directory = tmp_path / str(seed)
        directory.mkdir()
        for server in (upstream, target):
            server.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE {COLLATION}")
        dialect = shared_dialect(source, kind)
        result = Convergence(upstream, target, name, directory, seed=seed, dialect=dialect, pauses=PAUSES).run()
        assert not result.problem, f"DM_SEED={seed} {source} to {kind}, {directory}: {result.problem}"
        assert result.refused * 2 < result.statements, f"seed {seed}: most statements were refused"
        totals += Counter({what: int(str(count)) for what, count in result.figures().items()})
        totals += Counter({"seeds": 1, f"paused by {result.paused}" if result.paused else "identical": 1})
        drop(upstream, target, name)
    record(f"convergence.{source}.{kind}", {**totals, "first seed": first})
    # A target that refuses many statements ends many a seed early, and nothing is compared there.
    assert totals["identical"] * 4 >= totals["seeds"] or seeds == 1, totals
