"""The change feed in a session that another one has made: Spark tells it of the format already."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.mysql.binlog.frame import MAGIC
from dm.spark.session import SparkProvider
from dm.tools.feed import changes

pytestmark = pytest.mark.spark


def test_a_session_that_another_one_has_made_has_the_feed_too(spark: SparkProvider, tmp_path: Path) -> None:
    files = tmp_path / "5f3c1a52-0000-11ef-8000-000000000001.000001"
    files.mkdir()
    (files / "binlog.000001").write_bytes(MAGIC)
    first = spark.session()
    for session in (first, first.newSession(), first.newSession(), first):
        rows = changes(session, tmp_path, "shop.orders", structure="CREATE TABLE orders (id INT PRIMARY KEY)")
        assert rows.isStreaming
        assert rows.sparkSession is session
        assert dict(rows.dtypes)["after"] == "struct<id:int>"
