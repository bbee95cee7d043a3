"""The change feed: typed as the lake is, exact over restarts, with the examples of its page."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.spark.session import SparkProvider
from dm.tools import lake
from dm.tools.feed import changes
from tests.live.relay.relaying import end_of, has_reached, relaying, source_of, wait_until
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, beside
from tests.spark.test_lake import TYPES

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos]

PAGE = Path(__file__).parents[2] / "docs" / "change-feed.md"
ORDERS = (
    "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20), price DECIMAL(10,2), at DATETIME(3), e ENUM('a','b'))",
    "INSERT INTO orders VALUES (1, 'one', 1.5, '2026-01-01 10:00:00.125', 'a'), (2, 'two', NULL, NULL, 'a'),"
    " (3, '', 3, '2026-01-03', NULL)",
)


class FedTable:
    """A dumped table, and the relay of its source."""

    def __init__(self, load: FullLoad, first: tuple[str, int], directory: Path) -> None:
        self.load = load
        self.first, self.offset = first
        self.relay, self.directory = directory / "relay", directory / "lake"

    @contextmanager
    def relaying(self) -> Iterator[None]:
        with relaying(source_of(self.load.upstream, first=self.first), self.relay):
            yield
            self.wait()

    def wait(self) -> None:
        wait_until(lambda: has_reached(self.relay, self.load.upstream), "the relay")

    def execute(self, *statements: str) -> None:
        self.load.upstream.execute(f"USE `{self.load.schema}`", *statements)

    def run(self, code: str, spark: SparkSession) -> None:
        """An example of the page, with this table's places."""
        exec(compile(self.placed(code), str(PAGE), "exec"), {"spark": spark})

    def placed(self, code: str) -> str:
        """An example with this table's places."""
        for name, value in (
            ("/relay/mysql-01", self.relay), ("/shared/dump", self.load.directory), ("/lake", self.directory),
            ("shop.orders", f"{self.load.schema}.orders"),
        ):  # fmt: skip
            code = code.replace(name, str(value))
        return code


class OrdersWritten:
    """Orders that come and change once, beside whoever follows them; the binlog changes its file now and then."""

    def __init__(self, table: FedTable, pause: float) -> None:
        self._table, self._pause = table, pause
        self._number = 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Until the block is over."""
        over = threading.Event()
        with beside(partial(self._write, over)):
            try:
                yield
            finally:
                over.set()

    def _write(self, over: threading.Event) -> None:
        load = self._table.load
        with closing(load.upstream.connect(autocommit=True, database=load.schema)) as connection:
            cursor = connection.cursor()
            while not over.wait(self._pause):
                self._number += 1
                cursor.execute(f"INSERT INTO orders (id, v) VALUES ({100 + self._number}, 'w')")
                cursor.execute(f"UPDATE orders SET v = 'x' WHERE id = {100 + self._number}")
                if self._number % 50 == 0:
                    cursor.execute("FLUSH BINARY LOGS")

    def demand_once(self, found: DataFrame) -> None:
        """Each change is among what a query has written, and none twice."""
        rows = found.orderBy("after.id", "op").select("op", "after.id", "after.v").collect()
        assert [tuple(row) for row in rows] == [
            change
            for number in range(101, 101 + self._number)
            for change in (("insert", number, "w"), ("update", number, "x"))
        ]


def fed(full_load: LoadFactory, upstream: ThrowawayServer, tmp_path: Path, *statements: str) -> FedTable:
    first = end_of(upstream)
    load = full_load(upstream, upstream, *statements, mode="dump")
    load.dump()
    return FedTable(load, first, tmp_path)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


@pytest.mark.ci_flavor("mysql")
def test_the_examples_of_the_page_are_exact_over_a_restart(
    flavor: Flavor, upstream: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider, tmp_path: Path
) -> None:
    table = fed(full_load, upstream, tmp_path, *ORDERS)
    session = spark.session().newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    feed, merge, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with table.relaying():
        table.execute(
            "BEGIN",
            "UPDATE orders SET price = price + 1, e = 'b' WHERE id < 3",
            "UPDATE orders SET id = 30 WHERE id = 3",
            "COMMIT",
            "INSERT INTO orders VALUES (4, 'four', -0.01, '2026-01-04', 'a')",
        )
        table.wait()
        table.run(feed, session)
        table.run(merge, session)
        table.execute("DELETE FROM orders WHERE id = 1", "UPDATE orders SET v = 'again' WHERE id = 30")
        table.wait()
        table.run(feed, session)
        table.run(merge, session)
    written = rows(session.read.parquet(str(table.directory / "orders_changes")).orderBy("file", "position", "number"))
    assert [(each["op"], (each["before"] or {}).get("id"), (each["after"] or {}).get("id")) for each in written] == [
        ("update", 1, 1), ("update", 2, 2), ("update", 3, 30), ("insert", None, 4), ("delete", 1, None),
        ("update", 30, 30),
    ]  # fmt: skip
    places = [(each["file"], each["position"], each["number"]) for each in written]
    assert len(set(places)) == len(places)
    assert [number for _, _, number in places] == [1, 2, 3, 1, 1, 1]
    assert all(each["schema"] == table.load.schema and each["table"] == "orders" and each["gtid"] for each in written)
    newest = max((table.directory / "orders").iterdir(), key=lambda path: int(path.name))
    second = full_load_again(full_load, table)
    expected = lake.table(session, second.directory, f"{table.load.schema}.orders").orderBy("id")
    assert rows(session.read.parquet(str(newest)).orderBy("id")) == rows(expected)
    assert session.read.parquet(str(newest)).dtypes == expected.dtypes


def full_load_again(full_load: LoadFactory, table: FedTable) -> FullLoad:
    """Another dump of the same schema."""
    first = table.load
    load = FullLoad(
        first.upstream, first.target, first.schema, first.directory.with_name("again"), first.spark,
        settings={"mode": "dump"},
    )  # fmt: skip
    load.dump()
    return load


def test_every_type_is_as_in_the_lake(
    flavor: Flavor, upstream: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider, tmp_path: Path
) -> None:
    table = fed(full_load, upstream, tmp_path, *TYPES)
    session = spark.session()
    (name,) = lake.tables(table.load.directory)
    with table.relaying():
        pass
    stream = changes(
        session, table.relay, name, dump=table.load.directory, start=f"{table.first}:{table.offset}", taskBytes=300
    )
    query = stream.writeStream.format("parquet").option("path", str(tmp_path / "changes"))
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    found = session.read.parquet(str(tmp_path / "changes")).select("after.*")
    expected = lake.table(session, table.load.directory, name)
    assert found.dtypes == expected.dtypes
    assert rows(found.orderBy("id")) == rows(expected.orderBy("id"))


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_the_time_of_a_commit_is_a_moment(
    zone: str, upstream: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider, tmp_path: Path
) -> None:
    """Whatever zones the source and the session have."""
    table = fed(full_load, upstream, tmp_path, *ORDERS)
    session = spark.session().newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    with table.relaying():
        for number, source in enumerate(("+00:00", "-07:00")):
            table.execute(
                f"SET SESSION time_zone = '{source}', timestamp = {1_700_000_000 + number}.75",
                f"UPDATE orders SET v = '{number}' WHERE id = 1",
            )
    stream = changes(session, table.relay, f"{table.load.schema}.orders", dump=table.load.directory)
    query = stream.writeStream.format("parquet").option("path", str(tmp_path / "changes"))
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    found = session.read.parquet(str(tmp_path / "changes")).orderBy("position")
    assert dict(found.dtypes)["committed"] == "timestamp"
    told = found.selectExpr("CAST(committed AS LONG)", "CAST(committed AS STRING)").collect()
    shown = {"UTC": "2023-11-14 22:13:2", "Asia/Tokyo": "2023-11-15 07:13:2"}[zone]
    assert [tuple(row) for row in told] == [(1_700_000_000 + number, f"{shown}{number}") for number in range(2)]


@pytest.mark.timeout(900)
def test_a_growing_relay_is_followed_without_a_gap_over_restarts(
    flavor: Flavor, upstream: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider, tmp_path: Path
) -> None:
    table = fed(full_load, upstream, tmp_path, *ORDERS)
    session = spark.session()
    name, orders = f"{table.load.schema}.orders", OrdersWritten(table, 0.01)

    def follow(**trigger: Any) -> StreamingQuery:
        stream = changes(session, table.relay, name, dump=table.load.directory, batchBytes=20_000, taskBytes=6_000)
        query = stream.writeStream.format("parquet").option("path", str(tmp_path / "changes"))
        return query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(**trigger).start()

    with table.relaying():
        table.wait()
        with orders.writing():
            for batches in (2, 5, 9):
                query = follow(processingTime="0 seconds")
                wait_until(lambda query=query, batches=batches: batch_of(query) >= batches, f"batch {batches}")  # type: ignore[misc]
                query.stop()
    follow(availableNow=True).awaitTermination()
    orders.demand_once(session.read.parquet(str(tmp_path / "changes")))


def batch_of(query: StreamingQuery) -> int:
    """The last batch that is done; -1 before."""
    error = query.exception()
    if error is not None:
        raise error
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])
