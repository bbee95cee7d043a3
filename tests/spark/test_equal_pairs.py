"""A hundred pairs of equal tables, twenty of them under a workload with DDL: none of them is called different."""

from __future__ import annotations

import random
import threading
from functools import partial
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.spark.session import SparkProvider
from dm.tools.diff.report import TableReport
from dm.tools.diff.unit import DiffUnit
from dm.tools.errands import DiffRequest
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import beside
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.loop_result import draw_seed
from tests.testbed.random_table import draw_table
from tests.testbed.random_workload import RandomWorkload
from tests.testbed.sync import running_sync, subtask_for
from tests.testbed.typed_rows import filled_table, session

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos]

AT_REST, UNDER_WORKLOAD = 40, 10  # of each flavour
COMPARISONS = 4


def told(report: TableReport) -> str:
    return f"{report.to_json()}"


def test_equal_pairs_are_equal(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    load, seed = full_load(upstream, target), draw_seed(upstream.flavor, False)
    chance = random.Random(seed)
    with session(upstream) as cursor:
        for number in range(AT_REST):
            filled_table(cursor, load.schema, partial(draw_table, f"t{number}", upstream.flavor, chance), chance)
    load.dump()
    load.load()
    unit = DiffUnit([load.subtask()], DiffRequest(spark_from=0, rows=3), spark)
    unit.run(threading.Event())
    assert len(unit.report.tables) == AT_REST
    unequal = [told(table) for table in unit.report.tables if table.verdict != "equal"]
    assert not unequal, f"seed {seed}: {unequal}"
    assert sum(table.chunks for table in unit.report.tables) > AT_REST


def test_equal_pairs_are_never_different_under_a_workload_with_ddl(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, spark: SparkProvider, tmp_path: Path
) -> None:
    name, seed = schema(upstream, target), draw_seed(upstream.flavor, True)
    subtask = subtask_for(upstream, target, name, task=name, checkpoint_flush_interval=1)
    over, compared, unsettled = threading.Event(), 0, 0
    connection = upstream.connect(autocommit=True)
    with (
        (tmp_path / "statements.sql").open("w", encoding="utf-8") as log,
        connection.cursor() as cursor,
        running_sync(subtask) as sync,
    ):
        workload = RandomWorkload(cursor, name, upstream.flavor, random.Random(seed), log)
        sync.wait_synced()  # its start is stored
        workload.create_tables(UNDER_WORKLOAD)

        def write() -> None:
            while not over.wait(0.01):
                workload.transaction()

        def look(*follows: str) -> list[TableReport]:
            unit = DiffUnit([subtask], DiffRequest(spark_from=0, rows=3, follows=follows), spark)
            unit.run(threading.Event())
            assert unit.report.tables
            wrong = [told(table) for table in unit.report.tables if table.verdict == "different"]
            assert not wrong, f"seed {seed}, statements in {tmp_path}: {wrong}"
            return unit.report.tables

        with beside(write):
            try:
                for _ in range(COMPARISONS):
                    found = look(subtask.source_id)
                    compared += len(found)
                    unsettled += sum(table.verdict != "equal" for table in found)
            finally:
                over.set()
        sync.wait_synced(300)
        assert all(table.verdict == "equal" for table in look(subtask.source_id))
    connection.close()
    assert workload.ddl > 0
    assert unsettled < compared, "nothing was decided"
    record(
        f"diff.equal_pairs.{upstream.flavor}",
        {
            "seed": seed, "comparisons": COMPARISONS, "tables compared": compared, "not decided": unsettled,
            "transactions": workload.transactions, "ddl": workload.ddl,
        },
    )  # fmt: skip
