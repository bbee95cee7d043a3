"""A COMMIT that TiDB refuses has changed nothing: the batch is sent again, and each row is there once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import SyncProcess, running_sync, subtask_for, wait_until
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.tidb]

SCHEMA_CHANGED, WRITE_CONFLICT = 8028, 9007
KEYED = "UPDATE {}.keyed SET v = 2 WHERE id < 3"
KEYLESS = "INSERT INTO {}.keyless VALUES (7, 'same'), (7, 'same'), (8, 'other')"
# A session that nobody keeps from being optimistic: only such ones meet a conflict at their COMMIT.
OPTIMISTIC = """
from dm.mysql.dialect.tidb import TiDB
TiDB.settled = {**TiDB.settled, "tidb_txn_mode": "optimistic"}
"""


def refused(tidb: TidbServer, number: int) -> int:
    """How often the server has ended a statement with this error."""
    query = "SELECT SUM(error_count) FROM information_schema.client_errors_summary_global WHERE error_number = %s"
    ((count,),) = tidb.query(query, (number,))
    return int(count or 0)


@contextmanager
def structures_that_change_under_transactions(tidb: TidbServer) -> Iterator[None]:
    """Without metadata locks a DDL statement does not wait for transactions on its table."""
    tidb.execute("SET GLOBAL tidb_enable_metadata_lock = OFF")
    try:
        yield
    finally:
        tidb.execute("SET GLOBAL tidb_enable_metadata_lock = ON")


@pytest.fixture
def subtask(upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory) -> SubtaskConfig:
    """A subtask that has begun, in whose tables there are rows."""
    name = schema(upstream, tidb)
    for server in (upstream, tidb):
        server.execute(
            f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            f"CREATE TABLE {name}.keyed (id INT PRIMARY KEY, v INT)",
            f"CREATE TABLE {name}.keyless (a INT, b VARCHAR(10))",
            f"INSERT INTO {name}.keyed VALUES (1, 1), (2, 1), (3, 1)",
        )
    found = subtask_for(upstream, tidb, name, task=name)
    with running_sync(found) as first:
        first.wait_synced()
    return found


class Commit:
    """A batch that has been written and not committed, since its lane waits before the COMMIT."""

    def __init__(self, subtask: SubtaskConfig, directory: Path, patch: str = "") -> None:
        self._log, self._go = directory / "struck", directory / "go"
        faults = f"syncer.before_commit=hang:{self._go}"
        self.process = SyncProcess(subtask, faults=faults, fault_log=self._log, patch=patch)

    def wait(self) -> None:
        """Until the batch is written."""
        wait_until(lambda: self._log.exists() or self.process.ended, "a batch waits before its COMMIT")
        assert self._log.exists(), self.process.errors()

    def refused(self) -> int:
        """The COMMIT is sent, and the task goes on to the source's end; gives how often batches were sent again."""
        self._go.touch()
        return int(str(self.process.wait_synced()["retries"]))

    def close(self) -> None:
        """End the process."""
        self._go.touch()
        self.process.close(kill=True)


def assert_arrived(upstream: ThrowawayServer, tidb: TidbServer, name: str) -> None:
    report = compare(pair_tables([upstream], [name]), tidb, structures=False)
    assert report.identical, str(report)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    ("statement", "table"), [(KEYED, "keyed"), (KEYLESS, "keyless")], ids=["with a key", "without"]
)
def test_a_structure_that_changed_under_a_transaction(
    upstream: ThrowawayServer, tidb: TidbServer, subtask: SubtaskConfig, tmp_path: Path, statement: str, table: str
) -> None:
    name, before = subtask.task, refused(tidb, SCHEMA_CHANGED)
    commit = Commit(subtask, tmp_path)
    try:
        commit.process.wait_synced()
        upstream.execute(statement.format(name))
        commit.wait()
        with structures_that_change_under_transactions(tidb):
            tidb.execute(f"ALTER TABLE {name}.{table} ADD COLUMN own INT DEFAULT 5")
            assert commit.refused() >= 1
    finally:
        commit.close()
    assert refused(tidb, SCHEMA_CHANGED) > before, "the COMMIT was refused"
    tidb.execute(f"ALTER TABLE {name}.{table} DROP COLUMN own")
    assert_arrived(upstream, tidb, name)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("statement", [KEYED, KEYLESS], ids=["with a key", "without"])
def test_a_write_conflict(
    upstream: ThrowawayServer, tidb: TidbServer, subtask: SubtaskConfig, tmp_path: Path, statement: str
) -> None:
    """Somebody else has locked, and changed, what the transaction writes: a row of the table, or the lane's."""
    name, before = subtask.task, refused(tidb, WRITE_CONFLICT)
    lanes = f"{subtask.meta_schema}.{name}_syncer_worker"
    other = f"UPDATE {name}.keyed SET v = 100 WHERE id = 2"
    if statement == KEYLESS:
        other = f"UPDATE {lanes} SET binlog_gtid = CONCAT(binlog_gtid, ' ')"
    commit = Commit(subtask, tmp_path, OPTIMISTIC)
    try:
        commit.process.wait_synced()
        upstream.execute(statement.format(name))
        commit.wait()
        tidb.execute(other)
        assert commit.refused() >= 1
    finally:
        commit.close()
    assert refused(tidb, WRITE_CONFLICT) > before, "the COMMIT was refused"
    assert_arrived(upstream, tidb, name)
