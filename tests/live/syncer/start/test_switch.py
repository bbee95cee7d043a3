"""The source was replaced by another server, which has the same transactions in another order."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.sql.context import SourceContext
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, TablePoint, write_new
from dm.progress.lane_rows import KEYLESS, LaneClaim, raise_epoch
from dm.progress.tables import SubtaskKey, create_tables
from tests.live.syncer.follow.test_follow import identical
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import SyncProcess, endpoint_of, running_sync, subtask_for

pytestmark = pytest.mark.live

BEFORE = "00000000-0000-0000-0000-00000000000a"  # the server that was read before


def test_rows_without_a_key_are_applied_once_though_they_come_in_another_order(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(mysql, mariadb)
    table = f"CREATE TABLE {name}.keyless (v INT)"
    mysql.execute(table)
    mariadb.execute(table)

    def executed() -> GtidSet:
        return GtidSet.parse(str(mysql.query("SELECT @@global.gtid_executed")[0][0]))

    start = executed()
    mysql.execute(f"INSERT INTO {name}.keyless VALUES (1)")
    first = executed()
    mysql.execute(f"INSERT INTO {name}.keyless VALUES (2)")
    second = executed() - first
    mysql.execute(f"INSERT INTO {name}.keyless VALUES (3)")

    # There the second transaction came first, and was applied; the checkpoint stands before it.
    mariadb.execute(f"INSERT INTO {name}.keyless VALUES (2)")
    key = SubtaskKey(f"meta_{name}", name, "source-1")
    structure = parse_create_table(table, SourceContext("mysql", 90704, name))
    with TargetConnection(endpoint_of(mariadb)) as connection:
        create_tables(connection, key)
        point = Position(BEFORE, "bin.000001", 100, start)
        write_new(connection, key, Checkpoint(point, tables={TableName(name, "keyless"): TablePoint(structure)}))
        epoch, _ = raise_epoch(connection, key, [KEYLESS])
        LaneClaim(key, KEYLESS, epoch).advance(connection, Position(BEFORE, "bin.000001", 200, second))

    subtask = subtask_for(mysql, mariadb, name, task=name)
    process = SyncProcess(subtask, faults="syncer.after_commit=kill", fault_log=tmp_path / "struck")
    assert process.wait_killed()
    process.close()
    with running_sync(subtask) as sync:
        sync.wait_synced()
    identical(mysql, mariadb, name)
