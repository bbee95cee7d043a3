"""An ALTER whose first piece the target refuses alone is executed as the source executed it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, subtask_for

pytestmark = pytest.mark.live

# A column that another one is computed from does not go alone.
TABLE = "t (id INT PRIMARY KEY, a INT, g INT AS (a + 1) STORED, v INT)"
ALTER = "t DROP COLUMN a, DROP COLUMN g, ADD COLUMN n INT DEFAULT 4, MODIFY v BIGINT"


def identical(upstream: ThrowawayServer, target: ThrowawayServer, name: str) -> None:
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)


def create(name: str, *servers: ThrowawayServer) -> None:
    for server in servers:
        server.execute(f"CREATE TABLE {name}.{TABLE}")


def test_what_is_refused_in_pieces_is_executed_whole(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.t (id, a, v) VALUES (1, 1, 1)",
            f"ALTER TABLE {name}.{ALTER}",
            f"INSERT INTO {name}.t VALUES (2, 2, 3)",
        )
        sync.wait_synced()
    identical(upstream, target, name)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("point", ["syncer.before_ddl=kill@2", "syncer.after_ddl=kill@1"])
def test_a_kill_around_the_whole_neither_repeats_nor_forgets_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, point: str, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    subtask = subtask_for(upstream, target, name, task=name)
    armed = SyncProcess(subtask, faults=point, fault_log=tmp_path / "faults")
    try:
        armed.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.{ALTER}", f"INSERT INTO {name}.t VALUES (2, 2, 3)")
        assert armed.wait_killed()
    finally:
        armed.close()
    assert bool(target.query(f"SHOW COLUMNS FROM {name}.t LIKE 'n'")) == point.startswith("syncer.after")
    with running_sync(subtask) as sync:
        sync.wait_synced()
    identical(upstream, target, name)


@pytest.mark.ci_flavor("mysql")
def test_what_is_refused_whole_too_has_left_nothing_and_begins_anew(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    target.execute(f"ALTER TABLE {name}.t ADD COLUMN h INT AS (a + 2) STORED")  # of the target's own
    subtask = subtask_for(upstream, target, name, task=name)
    for _ in range(2):
        sync = RunningSync(subtask, None)
        try:
            if not upstream.query(f"SHOW COLUMNS FROM {name}.t LIKE 'n'"):
                sync.wait_synced()
                upstream.execute(f"ALTER TABLE {name}.{ALTER}", f"INSERT INTO {name}.t VALUES (2, 2, 3)")
            error = sync.wait_ended()
        finally:
            sync.stop()
        assert isinstance(error, DMError)
        assert error.name == "ddl-failed"
        assert not target.query(f"SHOW COLUMNS FROM {name}.t LIKE 'n'")
    target.execute(f"ALTER TABLE {name}.t DROP COLUMN h, DROP COLUMN g")
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
    identical(upstream, target, name)
