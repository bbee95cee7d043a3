"""A query over the change feed that is killed inside its micro-batches: a sink that commits a batch once is exact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.spark.java import find_java_home
from dm.spark.session import SparkProvider
from tests.spark.conftest import LoadFactory
from tests.spark.test_feed import ORDERS, FedTable, OrdersWritten, fed
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(1800)]

KILLS = 4
_SECONDS = 300  # a limit for what hangs: Spark starts
# A session of a person's own, as the page has it.
PROGRAM = """
import sys
from pyspark.sql import SparkSession
from dm.tools.feed import changes
relay, table, dump, place, trigger = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = changes(spark, relay, table, dump=dump, batchBytes=20_000, taskBytes=6_000)
query = rows.writeStream.format("parquet").option("path", f"{place}/changes")
query = query.option("checkpointLocation", f"{place}/checkpoint")
query = query.trigger(**{trigger: True if trigger == "availableNow" else "0 seconds"})
query.start().awaitTermination()
"""


class Query:
    """Runs of one query, each in a process group of its own: Python, the JVM, and what it starts."""

    def __init__(self, table: FedTable, place: Path) -> None:
        self._table, self._place = table, place

    def start(self, trigger: str) -> subprocess.Popen[bytes]:
        """A run that follows the relay, or one that ends with it."""
        table = self._table
        with (self._place / "said").open("ab") as said:
            return subprocess.Popen(
                [
                    sys.executable, "-c", PROGRAM, str(table.relay), f"{table.load.schema}.orders",
                    str(table.load.directory), str(self._place), trigger,
                ],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={
                    **os.environ,
                    "JAVA_HOME": str(find_java_home(self._place)),
                    "PYSPARK_PYTHON": sys.executable,  # without it Spark starts the python3 that is found first
                },
                start_new_session=True,
            )  # fmt: skip

    def batches(self, kind: str) -> set[str]:
        """The numbers of those that are begun (`offsets`), or done (`commits`)."""
        return {path.name for path in (self._place / "checkpoint" / kind).glob("[0-9]*")}

    def killed_inside_a_batch(self) -> None:
        """SIGKILL of all of it, some batches further, while one is under way."""
        process, before = self.start("processingTime"), len(self.batches("commits"))
        try:

            def inside() -> bool:
                assert process.poll() is None, (self._place / "said").read_text()[-3000:]
                done = self.batches("commits")
                return len(done) > before + 1 and bool(self.batches("offsets") - done)

            wait_until(inside, "a batch under way", _SECONDS)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.ci_flavor("mysql")
def test_every_change_is_in_the_files_once(
    flavor: Flavor, upstream: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider, tmp_path: Path
) -> None:
    table = fed(full_load, upstream, tmp_path, *ORDERS)
    place = tmp_path / "feed"
    place.mkdir()
    query, orders, cut_short = Query(table, place), OrdersWritten(table, 0.02), 0
    with table.relaying():
        table.wait()
        with orders.writing():
            for _ in range(KILLS):
                query.killed_inside_a_batch()
                cut_short += bool(query.batches("offsets") - query.batches("commits"))
    assert cut_short, "no kill was inside a batch"
    last = query.start("availableNow")
    assert last.wait() == 0, (place / "said").read_text()[-3000:]
    orders.demand_once(spark.session().read.parquet(str(place / "changes")))
