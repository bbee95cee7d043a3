"""Shards that gh-ost and pt-online-schema-change alter: the rename at the end is the shard's DDL."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from tests.live.syncer.ddl.test_online_ddl import online
from tests.live.syncer.shards.test_shards import KEYED, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.online_ddl_tools import TOOLS, OnlineChange, Tool
from tests.testbed.sync import SyncProcess, running_sync

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

MODES = ("pessimistic", "optimistic")
FIRST = "ADD COLUMN w INT DEFAULT 7, ADD KEY by_v (v)"
SECOND = "ADD UNIQUE KEY by_id (id, v)"  # optimistic shards wait for each other here, too
# One case of each mode in `make test`, the others in `make chaos`.
USUAL = {("pessimistic", "gh-ost"), ("optimistic", "pt-osc")}
CASES = [
    pytest.param(mode, tool, marks=[] if (mode, tool) in USUAL else pytest.mark.chaos)
    for mode, tool in itertools.product(MODES, TOOLS)
]


class Shard:
    """One table of the source, and the tool that alters it."""

    def __init__(self, server: ThrowawayServer, table: TableName, first: int) -> None:
        self._server, self._table = server, table
        self._ids = itertools.count(first)
        self._columns = ["id", "v"]
        self._change: OnlineChange | None = None

    def row(self) -> None:
        """One more, and each one altered."""
        values = ", 9" if "w" in self._columns else ""
        self._server.execute(
            f"INSERT INTO {self._table.sql} VALUES ({next(self._ids)}, 1{values})",
            f"UPDATE {self._table.sql} SET v = v + 1",
        )

    def begin(self, tool: Tool, alteration: str) -> None:
        """The ghost is there, altered, with the rows."""
        self._change = OnlineChange(tool, self._server, self._table, self._columns)
        self._change.create()
        self._change.alter(alteration)
        self._change.copy()

    def end(self) -> None:
        """It takes the table's place."""
        assert self._change is not None
        self._change.cut_over()
        self._change.clean()
        self._columns = ["id", "v", "w"]

    def alter(self, alteration: str) -> None:
        """The same without a tool."""
        self._server.execute(f"ALTER TABLE {self._table.sql} {alteration}")
        self._columns = ["id", "v", "w"]


def merging(
    name: str, upstreams: Sequence[ThrowawayServer], target: ThrowawayServer, mode: str, columns: str = KEYED
) -> list[SubtaskConfig]:
    """The subtasks, with the names of the tools' tables."""
    found = subtasks_of(name, upstreams, target, columns=columns)
    return [online(subtask, shard_mode=mode) for subtask in found]


def altered_one_by_a_tool(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, mode: str, tool: Tool
) -> SubtaskConfig:
    """A tool alters one shard, and a statement the other, over two restarts; all that is written has come."""
    (subtask,) = merging(name, [upstream], target, mode)
    one, other = (Shard(upstream, TableName(name, f"s{number}"), number * 100) for number in (1, 2))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        for shard in (one, other):
            shard.row()
        one.begin(tool, FIRST)
        sync.wait_synced()
    with running_sync(subtask) as sync:  # the ghost is half way
        one.row()
        one.end()
        one.row()
        one.begin(tool, SECOND)  # the first change waits for the other shard, in the pessimistic mode
        other.row()
        wait_for_rows(target, name, 5 if mode == "optimistic" else 4, sync)
    with running_sync(subtask) as sync:
        one.row()
        one.end()
        one.row()
        other.alter(FIRST)
        other.row()
        other.begin(tool, SECOND)
        other.end()
        other.row()
        wait_for_rows(target, name, 9, sync)
        sync.wait_synced()
    return subtask


@pytest.mark.ci_sample(2)
@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(("mode", "tool"), CASES)
def test_a_tool_alters_one_shard_and_a_statement_the_other(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: str, tool: Tool
) -> None:
    name = schema(upstream, target)
    subtask = altered_one_by_a_tool(upstream, target, name, mode, tool)
    assert target.query(f"SHOW TABLES FROM {name}") == (("t",), ("u",))
    assert target.query(f"SELECT ghost_table FROM {subtask.meta_schema}.{name}_onlineddl") == ()
    merged([upstream], target, name)


POINTS = ("shard.ready", "shard.held", "shard.pass_begun", "shard.before_return", "shard.after_execute")


@pytest.mark.chaos
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("point", [f"{point}=kill@{passage}" for point in POINTS for passage in (1, 2)])
def test_a_run_that_is_killed_is_continued(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: str, point: str
) -> None:
    name = schema(upstream, target)
    (subtask,) = merging(name, [upstream], target, mode)
    shards = [Shard(upstream, TableName(name, f"s{number}"), number * 100) for number in (1, 2)]
    with running_sync(subtask) as sync:
        sync.wait_synced()
    for shard in shards:
        for alteration in ("ADD COLUMN w INT DEFAULT 7, ADD UNIQUE KEY by_w (id, w)", SECOND):
            shard.row()
            shard.begin("gh-ost", alteration)
            shard.row()
            shard.end()
        shard.row()
    process = SyncProcess(subtask, faults=point)
    try:
        assert process.wait_killed(), process.errors()
    finally:
        process.close()
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 10, sync)
        sync.wait_synced()
    merged([upstream], target, name)
