"""A source that is written to while it is copied: dump, load and sync come to what it has in the end."""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import beside, follow
from tests.testbed.random_workload import RandomWorkload

pytestmark = [pytest.mark.live, pytest.mark.spark]

CHAOS_SEEDS = range(2, 13)
_RENAMES_OF_A_SWAP = 3
FIRST_TABLES, FIRST_TRANSACTIONS, TRANSACTIONS = 6, 60, 200


@pytest.mark.timeout(900)
@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in CHAOS_SEEDS)])
def test_random_rows_and_ddl_while_the_copy_runs(
    seed: int,
    flavor: Flavor,
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    full_load: LoadFactory,
    tmp_path: Path,
) -> None:
    load = full_load(upstream, target, rows=7)
    connection = upstream.connect(autocommit=True)
    with connection, connection.cursor() as cursor, (tmp_path / "statements.sql").open("w") as log:
        workload = RandomWorkload(cursor, load.schema, flavor, random.Random(seed), log)
        workload.create_tables(FIRST_TABLES)
        for _ in range(FIRST_TRANSACTIONS):
            workload.transaction()

        def write() -> None:
            for _ in range(TRANSACTIONS):
                workload.transaction()

        with beside(write):
            while True:  # as auto-resume does it
                try:
                    load.dump()
                    break
                except DMError as error:
                    if not error.retryable:
                        raise
            plan = load.dump()
            load.load()
    print(f"seed {seed}: {workload.transactions} transactions, {workload.ddl} DDL, {plan.rounds} rounds")
    try:
        follow(load)
    except DMError as error:
        # Two tables that changed places inside the dump's window look as before: nobody can tell which of them was read
        # under which name. Then the task rests, and what it names as the way out has to be one.
        if error.name != "ddl-within-dump" or str(error.details["statement"]).count(" TO ") != _RENAMES_OF_A_SWAP:
            raise
        assert plan.p1 is not None
        where = re.fullmatch(r"\((.+), (\d+)\)", error.position or "")
        assert where is not None
        assert plan.p1.reaches(replace(plan.p1, file=where[1], offset=int(where[2]))), "the dump was over"
        print(f"loaded anew: {error.message}")
        load.forget()
        for left in (load.directory, load.directory.with_name("sync")):
            shutil.rmtree(left, ignore_errors=True)
        load.dump()
        load.load()
        follow(load)
