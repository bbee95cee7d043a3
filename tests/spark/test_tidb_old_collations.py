"""A TiDB in which collations have no meaning (`new_collations_enabled_on_first_bootstrap = false`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.spark.session import SparkProvider
from tests.spark.conftest import LoadFactory
from tests.spark.test_diff import compared
from tests.testbed.sync import running_sync
from tests.testbed.tidb import TidbServer

pytestmark = [
    pytest.mark.live,
    pytest.mark.spark,
    pytest.mark.tidb,
    pytest.mark.chaos,
]

OF_TEXTS = "DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_general_ci"
TABLES = (
    f"CREATE TABLE keyed (k VARCHAR(20) PRIMARY KEY, u VARCHAR(20), n INT, UNIQUE KEY u (u)) {OF_TEXTS}",
    f"CREATE TABLE keyless (t VARCHAR(20), n INT) {OF_TEXTS}",
    "INSERT INTO keyed VALUES ('a', 'x', 1), ('b', 'y', 2), ('ß', 'ä', 3), ('c', NULL, 4)",
    "INSERT INTO keyless VALUES ('a', 1), ('A', 1), ('a ', 1), (NULL, NULL)",
)
CHANGES = (
    "UPDATE keyed SET k = 'A' WHERE n = 1",
    "DELETE FROM keyed WHERE k = 'C'",
    "INSERT INTO keyed VALUES ('C', 'z', 5)",
    "DELETE FROM keyless WHERE t = 'A' LIMIT 2",
    "ALTER TABLE keyed ADD COLUMN w VARCHAR(10) NOT NULL DEFAULT 'W', ADD UNIQUE KEY both_of_them (w, k)",
    "UPDATE keyed SET w = 'w', u = UPPER(u) WHERE n < 4",
    f"CREATE TABLE made (k VARCHAR(9) PRIMARY KEY, v TEXT) {OF_TEXTS}",
    "INSERT INTO made VALUES ('one', 'x'), ('Two', 'y')",
    "UPDATE made SET k = LOWER(k)",
    "ALTER TABLE keyless MODIFY t VARCHAR(40)",
)


def test_a_load_and_what_follows(
    upstream: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider, tmp_path: Path
) -> None:
    with TidbServer(tmp_path / "tidb", new_collations_enabled_on_first_bootstrap=False) as old:
        load = full_load(upstream, old, *TABLES)
        upstream.execute(f"ALTER DATABASE `{load.schema}` CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        load.dump()
        load.load()
        report = load.report()
        assert report.identical, str(report)
        with running_sync(load.subtask(), work_directory=tmp_path / "sync") as sync:
            sync.wait_synced()
            upstream.execute(f"USE `{load.schema}`", *CHANGES)
            sync.wait_synced()
        report = load.report()
        assert report.identical, str(report)
        verdict, _ = compared(spark, [load.subtask()])
        assert verdict == "equal"
        old.execute(
            f"USE `{load.target_schema}`",
            "UPDATE made SET k = 'Two' WHERE k = 'two'",
            "UPDATE made SET v = 'X' WHERE k = 'one'",
        )
        verdict, tables = compared(spark, [load.subtask()])
        assert verdict == "different"
        assert sorted(row.key for row in tables["made"].shown) == ["k=Two", "k=one", "k=two"]
        assert not tables["keyed"].differing
        assert not tables["keyless"].differing
