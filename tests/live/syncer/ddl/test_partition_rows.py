"""TRUNCATE, DROP and EXCHANGE PARTITION take the rows that they took at the source, or the task pauses."""

from __future__ import annotations

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import RunningSync, running_sync, subtask_for
from tests.testbed.tidb import TidbServer

pytestmark = pytest.mark.live

NUMBERS = ", ".join(f"({number})" for number in range(1, 41))
# Types of keys in which numbers and texts of numbers are values.
TYPES = (
    "TINYINT", "INT UNSIGNED", "BIGINT", "DECIMAL(20,4)", "DOUBLE", "BIT(13)", "BINARY(6)", "VARBINARY(9)",
    "CHAR(9) CHARACTER SET latin1 COLLATE latin1_german1_ci", "VARCHAR(9) CHARACTER SET utf16 COLLATE utf16_unicode_ci",
    "VARCHAR(9) COLLATE utf8mb4_general_ci", "CHAR(9) COLLATE utf8mb4_unicode_520_ci", "VARCHAR(9) COLLATE utf8mb4_bin",
)  # fmt: skip


def paused(upstream: ThrowawayServer, target: PrivateServer, name: str, *statements: str) -> DMError:
    sync = RunningSync(subtask_for(upstream, target, name, task=name), None)
    sync.wait_synced()
    upstream.execute(f"USE {name}", *statements)
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "ddl-partitions-differ"
    return error


@pytest.mark.parametrize(
    ("source", "other"), [("mysql", "mariadb"), pytest.param("mariadb", "mysql", marks=pytest.mark.chaos)]
)
def test_both_flavors_have_the_same_rows_in_a_partition(
    park: ServerPark, schema: SchemaFactory, source: Flavor, other: Flavor
) -> None:
    upstream, target = park.shared(source, "upstream-1"), park.shared(other, "target")
    name = schema(upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        for number, kind in enumerate(TYPES):
            table = f"{name}.t{number}"
            upstream.execute(
                f"CREATE TABLE {table} (k {kind} NOT NULL PRIMARY KEY) CHARSET utf8mb4"
                f" PARTITION BY {'LINEAR' * (number % 2)} KEY () PARTITIONS 3",
                f"INSERT INTO {table} VALUES {NUMBERS}",
                f"ALTER TABLE {table} TRUNCATE PARTITION p1",
            )
        upstream.execute(
            f"CREATE TABLE {name}.r (id INT PRIMARY KEY) PARTITION BY RANGE (id)"
            " (PARTITION p0 VALUES LESS THAN (9), PARTITION p1 VALUES LESS THAN MAXVALUE)",
            f"INSERT INTO {name}.r VALUES {NUMBERS}",
            f"ALTER TABLE {name}.r DROP PARTITION p0",
        )
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target, structures=False)
    assert report.identical, str(report)


HASH = "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS {}"
LIST = "CREATE TABLE t (id {} PRIMARY KEY) PARTITION BY LIST COLUMNS (id) (PARTITION p VALUES IN ('a'))"
RANGE = "CREATE TABLE t (id INT PRIMARY KEY){}"
BY_RANGE = " PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9), PARTITION q VALUES LESS THAN (99))"


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    ("there", "here", "value", "operation", "why"),
    [
        (RANGE.format(BY_RANGE), RANGE.format(""), "1", "DROP PARTITION p", "has none"),
        (
            RANGE.format(BY_RANGE),
            RANGE.format(BY_RANGE.replace("9)", "50)", 1)),
            "20",
            "DROP PARTITION p",
            "VALUES LESS THAN (9) at the source, PARTITION p VALUES LESS THAN (50) at the target",
        ),
        (HASH.format(3), HASH.format(4), "1", "TRUNCATE PARTITION p1", "3 at the source, 4 at the target"),
        (HASH.format(3), HASH.format(3).replace("HASH", "KEY"), "1", "TRUNCATE PARTITION p1", "by HASH at the source"),
        (
            LIST.format("CHAR(9) COLLATE utf8mb4_bin"),
            LIST.format("CHAR(9) COLLATE utf8mb4_general_ci"),
            "'a'",
            "EXCHANGE PARTITION p WITH TABLE x",
            "column id is not the same",
        ),
    ],
)
def test_a_target_that_places_rows_otherwise_pauses(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    there: str,
    here: str,
    value: str,
    operation: str,
    why: str,
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"USE {name}", there)
    target.execute(f"USE {name}", here)
    if "EXCHANGE" in operation:
        for server in (upstream, target):
            server.execute(f"USE {name}", "CREATE TABLE x LIKE t", "ALTER TABLE x REMOVE PARTITIONING")
    error = paused(upstream, target, name, f"INSERT INTO t VALUES ({value})", f"ALTER TABLE t {operation}")
    assert why in error.message
    assert len(target.query(f"SELECT * FROM {name}.t")) == 1


def test_collations_that_only_stand_for_each_other_pause(park: ServerPark, schema: SchemaFactory) -> None:
    upstream, target = park.shared("mysql", "upstream-1"), park.shared("mariadb", "target")
    name = schema(upstream, target)
    error = paused(
        upstream,
        target,
        name,
        "CREATE TABLE t (k VARCHAR(9) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY) PARTITION BY KEY () PARTITIONS 5",
        f"INSERT INTO t VALUES {NUMBERS}",
        "ALTER TABLE t TRUNCATE PARTITION p0",
    )
    assert "column k is not the same" in error.message


@pytest.mark.tidb
@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("method", ["LINEAR HASH (id)", "KEY (id)"])
def test_a_tidb_has_other_rows_in_them(
    upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory, method: str
) -> None:
    name = schema(upstream, tidb)
    create = f"CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY {method} PARTITIONS 5"
    rows = f"INSERT INTO t VALUES {NUMBERS}"
    paused(upstream, tidb, name, create, rows, "ALTER TABLE t TRUNCATE PARTITION p0")
    assert len(tidb.query(f"SELECT * FROM {name}.t")) == 40
