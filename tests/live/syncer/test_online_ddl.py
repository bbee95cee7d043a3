"""gh-ost and pt-osc at the source: the target gets the change, and nothing of the tools."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest
from pymysql.err import ProgrammingError

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from tests.live.syncer.test_follow import identical
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.online_ddl_tools import TOOLS, OnlineChange, Tool
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SHADOW = (r"^_(.+)_(?:new|gho)$",)
TRASH = (r"^_(.+)_(?:ghc|del|old)$",)
TABLE = "CREATE TABLE {s}.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, w VARCHAR(20), KEY by_v (v))"
ALTERATIONS = (
    "ADD COLUMN a INT NOT NULL DEFAULT 5 AFTER id, ADD COLUMN b DATETIME DEFAULT '2026-01-02', DROP KEY by_v",
    "MODIFY w VARCHAR(50) CHARACTER SET latin1, ADD UNIQUE KEY by_w (w)",
    "AUTO_INCREMENT=1000",
)
COLUMNS = ("id", "v", "w")


def online(subtask: SubtaskConfig, **changes: object) -> SubtaskConfig:
    rules = {"shadow_table_rules": SHADOW, "trash_table_rules": TRASH}
    return subtask.model_copy(update={**rules, **changes})


@contextmanager
def writing(server: ThrowawayServer, table: TableName) -> Iterator[None]:
    """Somebody writes to the table all the time."""
    over = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
                for number in itertools.count():
                    if over.wait(0.02):
                        return
                    with suppress(ProgrammingError):  # there is no table for a moment between two renames
                        cursor.execute(f"INSERT INTO {table.sql} (v, w) VALUES (%s, %s)", (number, f"row {number}"))
                        cursor.execute(f"UPDATE {table.sql} SET v = v + 1 WHERE v < %s ORDER BY id LIMIT 2", (number,))
                        cursor.execute(f"DELETE FROM {table.sql} WHERE v = %s", (number // 2,))
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()
    assert not failed, failed


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    "tool", [pytest.param(tool, marks=[pytest.mark.chaos] if "two" in tool else []) for tool in TOOLS]
)
def test_the_change_arrives_while_rows_are_written_and_nothing_else(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tool: Tool
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(TABLE.format(s=name))
    upstream.execute(f"INSERT INTO {name}.t (v, w) VALUES (-1, 'first'), (-2, 'second')")
    target.execute(f"INSERT INTO {name}.t SELECT 1, -1, 'first' UNION SELECT 2, -2, 'second'")
    change = OnlineChange(tool, upstream, TableName(name, "t"), COLUMNS)
    subtask = online(subtask_for(upstream, target, name, task=name))
    records = f"SELECT ghost_table FROM {subtask.meta_schema}.{name}_onlineddl"
    with running_sync(subtask) as sync:
        sync.wait_synced()
    with running_sync(subtask) as sync, writing(upstream, change.table):
        change.create()
        change.alter(*ALTERATIONS)
        change.copy()
        with running_sync_again(sync, subtask) as again:
            again.wait_synced()
            assert target.query(records) == ((change.ghost.table,),)
            change.cut_over()
            change.clean()
            upstream.execute(f"ALTER TABLE {name}.t ADD COLUMN later INT DEFAULT 7 FIRST")
            again.wait_synced()
            assert target.query(f"SHOW TABLES FROM {name}") == (("t",),)
            assert target.query(records) == ()
    with running_sync(subtask) as last:
        last.wait_synced()
    identical(upstream, target, name)


@contextmanager
def running_sync_again(sync: RunningSync, subtask: SubtaskConfig) -> Iterator[RunningSync]:
    """Pause and resume."""
    sync.stop()
    with running_sync(subtask) as again:
        yield again
