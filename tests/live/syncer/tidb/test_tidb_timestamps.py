"""Statements of a source without explicit_defaults_for_timestamp; a TiDB has it always on."""

from __future__ import annotations

import pytest

from dm.demo.compare import compare, pair_tables
from dm.mysql.dialect import Flavor
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import running_sync, subtask_for
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.tidb, pytest.mark.ci_flavor("mysql")]


def test_bare_timestamps_have_what_the_source_gives_them(
    flavor: Flavor, server: ServerFactory, tidb: TidbServer, schema: SchemaFactory
) -> None:
    # As in MySQL 5.6, where nothing forbids the default zero.
    upstream = server(flavor, explicit_defaults_for_timestamp=False, sql_mode="NO_ENGINE_SUBSTITUTION")
    name = schema(upstream, tidb)
    for each in (upstream, tidb):
        each.execute(f"CREATE TABLE {name}.known (id INT PRIMARY KEY)")
    with running_sync(subtask_for(upstream, tidb, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"ALTER TABLE {name}.known ADD COLUMN a TIMESTAMP",
            f"INSERT INTO {name}.known (id) VALUES (1)",
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a TIMESTAMP, b TIMESTAMP, c TIMESTAMP(3) NULL, d DATETIME)",
            f"INSERT INTO {name}.t (id) VALUES (1), (2)",
            f"ALTER TABLE {name}.t ADD COLUMN e TIMESTAMP",
            f"CREATE TABLE {name}.u (id INT PRIMARY KEY, n INT)",
            f"ALTER TABLE {name}.u ADD COLUMN a TIMESTAMP(6) NOT NULL",
            f"INSERT INTO {name}.u (id) VALUES (1)",
            f"UPDATE {name}.u SET n = 2",
        )
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), tidb)
    assert report.identical, str(report)
