"""Full loads of columns that `SELECT *` does not show, into servers of other kinds; `test_fidelity.py` has one kind."""

from __future__ import annotations

import pytest

from dm.demo.private_server import PrivateServer
from dm.mysql.dialect import Flavor
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import follow
from tests.testbed.park import ServerPark
from tests.testbed.shared_dialect import Kind

pytestmark = [pytest.mark.live, pytest.mark.spark]

OF = "DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_general_ci"
TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, h INT INVISIBLE DEFAULT 5, v VARCHAR(9), g INT AS (id + 1) STORED INVISIBLE)"
    f" {OF}",
    "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "INSERT INTO t (id, h, v) VALUES (3, 30, 'c'), (4, NULL, 'd')",
    f"CREATE TABLE k (h INT NOT NULL DEFAULT 0 INVISIBLE, v INT, PRIMARY KEY (h)) {OF}",
    "INSERT INTO k (h, v) VALUES (1, 1), (2, 2)",
    f"CREATE TABLE keyless (a INT, h INT INVISIBLE) {OF}",
    "INSERT INTO keyless (a, h) VALUES (1, 1), (1, 1), (1, NULL)",
)
OF_MYSQL = (
    "SET SESSION sql_generate_invisible_primary_key = ON",
    f"CREATE TABLE gipk (a INT) {OF}",
    "SET SESSION sql_generate_invisible_primary_key = OFF",
    "INSERT INTO gipk VALUES (7), (7)",
)
CHANGES = (
    "INSERT INTO t VALUES (5, 'e')",
    "UPDATE t SET h = h + 1",
    "DELETE FROM k WHERE h = 1",
    "UPDATE keyless SET h = 2 WHERE h IS NULL",
)


@pytest.mark.parametrize(
    ("source", "kind", "form"),
    [
        ("mysql", "mariadb", "parquet"),
        pytest.param("mariadb", "mysql", "sql", marks=pytest.mark.chaos),
        pytest.param("mysql", "tidb", "sql", marks=pytest.mark.tidb),
        pytest.param("mariadb", "tidb", "parquet", marks=[pytest.mark.tidb, pytest.mark.chaos]),
    ],
)
def test_hidden_columns_arrive(park: ServerPark, full_load: LoadFactory, source: Flavor, kind: Kind, form: str) -> None:
    upstream = park.shared(source, "upstream-1")
    target: PrivateServer = park.tidb() if kind == "tidb" else park.shared(kind, "target")
    statements = (*TABLES, *OF_MYSQL) if source == "mysql" else TABLES
    load = full_load(upstream, target, *statements, dump_format=form)
    load.dump()
    load.load()
    report = load.report()
    assert report.identical, str(report)
    upstream.execute(f"USE `{load.schema}`", *CHANGES, *(("DELETE FROM gipk LIMIT 1",) if source == "mysql" else ()))
    follow(load)
