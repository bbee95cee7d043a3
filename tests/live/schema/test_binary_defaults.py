"""Defaults of binary columns are any bytes, and SHOW CREATE TABLE of a MariaDB prints them as they are."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.migration import Migration
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live

TABLE = (
    "CREATE TABLE {} (id INT PRIMARY KEY, a VARBINARY(9) DEFAULT x'00FF', b BINARY(2) NOT NULL DEFAULT x'80FE',"
    " c VARBINARY(9) DEFAULT x'C3A9', d VARCHAR(9) CHARACTER SET binary DEFAULT x'5C27FE',"
    " e VARCHAR(9) DEFAULT 'é\\'?' COMMENT '_latin1''ü')"
)


def test_they_arrive_and_are_no_finding(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(TABLE.format(f"{name}.there"))
    states = {result.state for found in Migration(upstream, target, name).check().values() for result in found}
    assert "failure" not in states
    target.execute(TABLE.format(f"{name}.there"))
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.there (id) VALUES (1)",
            TABLE.format(f"{name}.made"),
            f"INSERT INTO {name}.made (id) VALUES (2)",
            f"ALTER TABLE {name}.made ADD f BINARY(1) DEFAULT x'FF'",
            f"CREATE TABLE {name}.alike LIKE {name}.made",
            f"INSERT INTO {name}.alike (id) VALUES (3)",
        )
        sync.wait_synced()
    for table in ("there", "made", "alike"):
        query = f"SELECT id, HEX(a), HEX(b), HEX(c), HEX(d), e FROM {name}.{table}"
        assert target.query(query) == upstream.query(query)
        target.execute(f"DELETE FROM {name}.{table}", f"INSERT INTO {name}.{table} (id) VALUES (9)")
        assert target.query(query)[0][1:5] == ("00FF", "80FE", "C3A9", "5C27FE"), "the target has the defaults itself"
