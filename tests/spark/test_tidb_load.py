"""Loads into TiDB: what it keeps in another form than its source, and its limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.spark.conftest import LoadFactory
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.tidb]

OF_TEXTS = (
    "CREATE TABLE words (id INT PRIMARY KEY, l VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin,"
    " e ENUM('ä', 'b') CHARACTER SET latin1 COLLATE latin1_bin, g VARCHAR(20) CHARACTER SET gbk COLLATE gbk_bin,"
    " u VARCHAR(40) COLLATE utf8mb4_bin, b VARBINARY(20), m SET('y\\\\', 'q''r\\\\z') COLLATE utf8mb4_bin)"
    " DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin",
    "INSERT INTO words VALUES (1, 'Müller € (a, ''b'')', 'ä', '中文', 'ü', x'fc27', 3),"
    " (2, 'plain', 'b', 'x', '', x'00', 1), (3, NULL, NULL, NULL, NULL, NULL, NULL)",
)


@pytest.mark.parametrize("form", ["sql", pytest.param("parquet", marks=pytest.mark.chaos)])
def test_texts_of_latin1_arrive(form: str, mysql: ThrowawayServer, tidb: TidbServer, full_load: LoadFactory) -> None:
    load = full_load(mysql, tidb, *OF_TEXTS, dump_format=form)
    load.dump()
    load.load()
    report = load.report(structures=False)
    assert report.identical, str(report)
    assert tidb.query(f"SELECT l FROM `{load.target_schema}`.words WHERE id = 1") == (("Müller € (a, 'b')",),)


@pytest.mark.chaos
def test_a_transaction_beyond_its_limit_is_named_and_the_load_goes_on_when_the_limit_is_raised(
    mysql: ThrowawayServer, tmp_path: Path, full_load: LoadFactory
) -> None:
    """A load writes parts of 16 MiB, each in one transaction."""
    numbers = "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 300)"
    limit = {"txn-total-size-limit": 1 << 20}
    with TidbServer(tmp_path / "tidb", performance=limit) as small:
        load = full_load(
            mysql, small, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9000))",
            f"INSERT INTO t {numbers} SELECT i, REPEAT('x', 8000) FROM n",
        )  # fmt: skip
        load.dump()
        with pytest.raises(DMError) as refused:
            load.load()
        assert refused.value.code == 36962, refused.value
        assert "txn-total-size-limit" in refused.value.workaround
        limit["txn-total-size-limit"] = 100 << 20
        small.restart()
        load.load()
        report = load.report(structures=False)
        assert report.identical, str(report)
