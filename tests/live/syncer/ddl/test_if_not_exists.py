"""IF NOT EXISTS: the statement stands in the binlog whether it made something or not, and does not say which."""

from __future__ import annotations

import pytest

from dm.config.references import StartPoint
from dm.demo.servers import ThrowawayServer
from tests.live.relay.relaying import end_of
from tests.live.syncer.follow.test_follow import identical
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mariadb")
def test_a_schema_that_was_there_keeps_its_character_set(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"ALTER DATABASE {name} CHARACTER SET latin1")
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE DATABASE IF NOT EXISTS {name}",
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20), w TEXT)",
            f"INSERT INTO {name}.t VALUES (1, 'Ã©', 'Ã©'), (2, 'é', 'é')",
        )
        sync.wait_synced()
    identical(upstream, target, name)


@pytest.mark.ci_flavor("mysql")  # MariaDB does not log such a statement
def test_a_table_that_was_there_keeps_its_columns(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, one INT, other INT)")
    file, offset = end_of(upstream)
    meta = StartPoint(binlog_name=file, binlog_pos=offset)
    upstream.execute(
        f"CREATE TABLE IF NOT EXISTS {name}.t (id INT PRIMARY KEY, other INT, one INT)",
        f"INSERT INTO {name}.t VALUES (1, 1, 2)",
    )
    with running_sync(subtask_for(upstream, target, name, task=name, meta=meta)) as sync:
        sync.wait_synced()
    identical(upstream, target, name)
