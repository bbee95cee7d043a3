"""A transaction that can't be read ends the run after all that stands before it, however far the reader is ahead."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

BEFORE = 400


def test_what_stands_before_it_is_applied(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"CREATE TABLE {name}.keyless (id INT)")
    rows = f"INSERT INTO {name}.t VALUES (-1)"
    upstream.execute(f"XA START '{name}'", rows, f"XA END '{name}'", f"XA PREPARE '{name}'")
    subtask = subtask_for(upstream, target, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    tables = ("keyless" if number % 7 == 0 else "t" for number in range(BEFORE))
    upstream.execute(*(f"INSERT INTO {name}.{table} VALUES ({number})" for number, table in enumerate(tables)))
    ((_, before, *_),) = upstream.query(
        "SHOW BINARY LOG STATUS" if upstream.flavor == "mysql" else "SHOW MASTER STATUS"
    )
    upstream.execute(f"XA COMMIT '{name}'")  # whose rows stand before the place where the task began
    upstream.execute(f"INSERT INTO {name}.t VALUES ({BEFORE})")
    for _ in range(2):  # a second run ends there, too
        running = RunningSync(subtask, None)
        error = running.wait_ended()
        assert isinstance(error, DMError)
        assert error.name == "xa-prepare-missing"
        counted = f"SELECT (SELECT COUNT(*) FROM {name}.t) + (SELECT COUNT(*) FROM {name}.keyless)"
        assert target.query(counted) == ((BEFORE,),)
        stored = f"SELECT binlog_pos FROM meta_{name}.{name}_syncer_checkpoint WHERE is_global"
        assert target.query(stored) == ((before,),)
