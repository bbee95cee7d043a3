"""The example of docs/change-feed.md that sends changes to Kafka, against a broker of the test's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dm.demo.servers import ThrowawayServer
from tests.spark.conftest import LoadFactory
from tests.spark.test_feed import ORDERS, PAGE, FedTable, fed
from tests.testbed.kafka import KafkaBroker, kafka_directory, sink_jars

pytestmark = [
    pytest.mark.live,
    pytest.mark.spark,
    pytest.mark.chaos,
    pytest.mark.skipif(not kafka_directory().exists(), reason="Kafka is not here: scripts/fetch_kafka.sh brings it"),
]

# A session of a person's own, with the sink's jars; it sends what there is, and reads the whole topic. With a word more
# it dies when a micro-batch is sent, before the query has noted that.
PROGRAM = """
import json, os, signal, sys
from pyspark.sql import SparkSession
jars, code, broker, dies = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
if dies:
    code = code.replace(").save()", ").save(); __import__('os').kill(__import__('os').getpid(), 9)")
exec(compile(code, "the page", "exec"), {"spark": spark})
sent = spark.read.format("kafka").option("kafka.bootstrap.servers", broker).option("subscribe", "orders").load()
rows = sent.selectExpr("partition", "offset", "CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
for row in rows.orderBy("partition", "offset").collect():
    print(json.dumps(row.asDict()))
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path / "kafka") as running:
        yield running


def sent(table: FedTable, broker: KafkaBroker, *, dies: bool = False) -> list[dict[str, Any]]:
    """Run the example; gives what is in the topic."""
    (code,) = (each for each in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
               if "localhost:9092" in each)  # fmt: skip
    code = table.placed(code).replace("localhost:9092", broker.address)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(map(str, sink_jars())), code, broker.address, "yes" if dies else ""],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},  # without it Spark starts the python3 that is found first
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == (-9 if dies else 0), done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.ci_flavor("mysql")
def test_changes_are_in_the_topic_in_their_rows_order(
    upstream: ThrowawayServer, full_load: LoadFactory, tmp_path: Path, broker: KafkaBroker
) -> None:
    table = fed(full_load, upstream, tmp_path, *ORDERS)
    with table.relaying():
        table.execute(
            "UPDATE orders SET price = price + 1 WHERE id IN (1, 3)",
            *(f"UPDATE orders SET v = 'turn {number}' WHERE id = 1" for number in range(20)),
            "INSERT INTO orders VALUES (4, 'four', -0.01, '2026-01-04', 'a')",
        )
        table.wait()
        first = sent(table, broker)
        assert len(first) == 23
        table.execute("DELETE FROM orders WHERE id = 1", "UPDATE orders SET id = 30 WHERE id = 3")
        table.wait()
        sent(table, broker, dies=True)
        found = sent(table, broker)
    assert len(found) == 27  # the last micro-batch is there twice
    once: dict[tuple[str, str, int, int], dict[str, Any]] = {}
    last: dict[str, tuple[str, str, int, int]] = {}
    for row in found:
        change = json.loads(row["value"])
        place = (change["server"], change["file"], change["position"], change["number"])
        if place not in once:
            assert last.get(row["key"], ("", "", 0, 0)) < place, "changes of a row are in order"
            last[row["key"]] = place
        once[place] = change | {"key": row["key"]}
    changes = [once[place] for place in sorted(once)]
    assert [(each["op"], each["key"]) for each in changes] == [
        ("update", "1"), ("update", "3"), *[("update", "1")] * 20, ("insert", "4"), ("delete", "1"), ("update", "30"),
    ]  # fmt: skip
    assert [each["after"]["v"] for each in changes[2:22]] == [f"turn {number}" for number in range(20)]
    assert (changes[-2]["before"]["v"], changes[-2].get("after")) == ("turn 19", None)
    assert {name: changes[22]["after"][name] for name in ("id", "v", "price", "e")} == {
        "id": 4, "v": "four", "price": -0.01, "e": "a",
    }  # fmt: skip
