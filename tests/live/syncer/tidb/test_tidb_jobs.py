"""A DDL job that outlives the run that sent it is waited for, and its statement is not sent again."""

from __future__ import annotations

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import SyncProcess, running_sync, subtask_for, wait_until
from tests.testbed.tidb import TidbServer
from tests.testbed.tidb_jobs import in_use, jobs, pause, standing_still, times_asked

pytestmark = [pytest.mark.live, pytest.mark.tidb, pytest.mark.ci_flavor("mysql"), pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("ADD UNIQUE INDEX by_v (v)", "by_v"),
        # Each operation is a job of its own, and the second one comes when the first has ended.
        pytest.param("ADD COLUMN w INT NOT NULL DEFAULT 5, ADD INDEX by_v (v)", "w INT", marks=pytest.mark.chaos),
    ],
)
def test_the_next_run_waits_for_the_job_of_one_that_died(
    upstream: ThrowawayServer, own_tidb: TidbServer, schema: SchemaFactory, statement: str, words: str
) -> None:
    """The server dies as well, so that no session of the dead run is there to wait for."""
    name = schema(upstream, own_tidb)
    table = TableName(name, "t")
    for server in (upstream, own_tidb):
        server.execute(
            f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            f"CREATE TABLE {table.sql} (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO {table.sql} VALUES (1, 1), (2, 2), (3, NULL), (4, NULL)",
        )
    subtask = subtask_for(upstream, own_tidb, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    process = SyncProcess(subtask)
    try:
        process.wait_synced()
        with in_use(own_tidb, table):
            upstream.execute(f"ALTER TABLE {table.sql} {statement}", f"INSERT INTO {table.sql} (id, v) VALUES (5, 5)")
            number = pause(own_tidb, table, words)
            process.process.kill()
            own_tidb.kill()
    finally:
        process.close(kill=True)
    own_tidb.start()
    with running_sync(subtask) as sync:
        with standing_still(own_tidb, table, words, number):
            wait_until(lambda: times_asked(own_tidb, "query") > 2, "it asks for the job again and again")
            assert sync.unit.status()["synced"] is False
        sync.wait_synced()
    assert jobs(own_tidb, table, words) == [(number, "synced")]
    report = compare(pair_tables([upstream], [name]), own_tidb)
    assert report.identical, str(report)
