"""A paused task with a backlog in its relay, and what comes of it: one schema of a source, under another name."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from dm.config.rules import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.checkpoint import Checkpoint, read_checkpoint
from dm.progress.replayed import read_replay
from dm.progress.tables import SubtaskKey
from dm.spark.session import SparkProvider
from dm.task.start_and_end import place_of_text
from dm.tools.errands import ReplayRequest
from dm.tools.replay.unit import ReplayUnit
from dm.unit import JSON
from tests.live.relay.relaying import end_of, has_reached, relaying, source_of, wait_until
from tests.testbed.sync import running_sync, subtask_for

TABLES = (
    "CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(20), KEY by_v (v))",
    "CREATE TABLE uniques (id INT PRIMARY KEY, u INT UNIQUE, w VARCHAR(10) UNIQUE)",
    "CREATE TABLE texts (k VARCHAR(10) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
    "CREATE TABLE two (a INT, b BINARY(3), v DECIMAL(10, 3), PRIMARY KEY (a, b))",
    "CREATE TABLE keyless (v INT)",
    "INSERT INTO plain VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
    "INSERT INTO uniques VALUES (1, 1, 'one'), (2, 2, 'two'), (3, NULL, NULL)",
    "INSERT INTO texts VALUES ('a', 1), ('b', 2), ('c', 3)",
    "INSERT INTO two VALUES (1, 'xxx', 1.5), (1, 'yyy', 2)",
    "INSERT INTO keyless VALUES (1), (1), (2)",
)
CHANGES = (
    "INSERT INTO plain VALUES (5, 'e'), (6, 'f')",
    "UPDATE plain SET v = 'later' WHERE id IN (1, 5)",
    "DELETE FROM plain WHERE id IN (2, 6)",
    "UPDATE plain SET id = 30 WHERE id = 3",
    "INSERT INTO plain VALUES (2, 'again'), (3, 'another')",
    # Values of a unique key change places.
    "UPDATE uniques SET u = NULL WHERE id = 1",
    "UPDATE uniques SET u = 1, w = 'zwei' WHERE id = 2",
    "UPDATE uniques SET u = 2, w = 'two' WHERE id = 1",
    "INSERT INTO uniques VALUES (4, 4, 'four'), (5, 5, 'five')",
    "FLUSH BINARY LOGS",
    "DELETE FROM uniques WHERE id = 4",
    "UPDATE uniques SET u = 4, w = 'FOUR' WHERE id = 5",
    # What the target takes for the same key.
    "UPDATE texts SET k = 'A' WHERE k = 'a'",
    "DELETE FROM texts WHERE k = 'b'",
    "INSERT INTO texts VALUES ('B', 20)",
    "UPDATE texts SET k = 'C', v = 30 WHERE k = 'c'",
    "UPDATE texts SET k = 'c' WHERE k = 'C'",
    "UPDATE two SET b = 'zzz', v = 9.125 WHERE b = 'xxx'",
    "INSERT INTO two VALUES (1, 'xxx', -1)",
)


class Scene:
    """The task, and its servers."""

    def __init__(
        self, upstream: ThrowawayServer, target: ThrowawayServer, name: str, directory: Path, **syncer: Any
    ) -> None:
        self.upstream, self.target, self.name, self.directory = upstream, target, name, directory
        self.there = f"{name}_there"
        target.execute(f"CREATE DATABASE {self.there}")
        self.first, _ = end_of(upstream)
        route = RouteRule(name="moved", schema_pattern=name, target_schema=self.there)
        self.subtask: SubtaskConfig = subtask_for(upstream, target, name, task=name, routes=(route,), **syncer)
        self.relay = directory / "relay"
        self.work = directory / "work"
        self.key = SubtaskKey(self.subtask.meta_schema, self.subtask.task, self.subtask.source_id)

    @contextmanager
    def session(self) -> Iterator[Cursor]:
        """At the source, for statements that it may refuse."""
        connection = self.upstream.connect(autocommit=True, database=self.name)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION sql_mode = ''")
                yield cursor
        finally:
            connection.close()

    @contextmanager
    def following(self) -> Iterator[None]:
        """The target follows; at the end everything is there, and the checkpoint says so."""
        with self.relayed(), running_sync(self.subtask, self.relay, self.work) as sync:
            sync.wait_synced(120)
            yield
            sync.wait_synced(120)

    @contextmanager
    def relayed(self) -> Iterator[None]:
        """The relay follows; at the end it has everything."""
        with relaying(source_of(self.upstream, first=self.first), self.relay):
            yield
            wait_until(lambda: has_reached(self.relay, self.upstream), "the relay has everything")

    def resumed(self) -> Mapping[str, JSON]:
        """The task goes on until everything is there."""
        with self.relayed(), running_sync(self.subtask, self.relay, self.work) as sync:
            return sync.wait_synced(120)

    def unit(self, spark: SparkProvider, *, until: str = "", cancel: bool = False) -> ReplayUnit:
        """A replay, as a host makes it."""
        request = ReplayRequest(self.subtask, self.relay, self.work, self.directory / "replay", until, cancel)
        return ReplayUnit(request, place_of_text, spark)

    def replay(self, spark: SparkProvider, **options: Any) -> dict[str, Any]:
        """What a replay reports."""
        unit = self.unit(spark, **options)
        unit.run(threading.Event())
        report = dict(unit.status())
        assert report["over"], report
        assert self.record() is None
        return report

    def record(self) -> object:
        """The plan that is stored."""
        with closing(TargetConnection(self.subtask.target)) as connection:
            return read_replay(connection, self.key)

    def checkpoint(self) -> Checkpoint:
        """What is stored."""
        with closing(TargetConnection(self.subtask.target)) as connection:
            found = read_checkpoint(connection, self.key)
        assert found is not None
        return found

    def identical(self) -> None:
        """The target has what the source has."""
        pairs = pair_tables([self.upstream], [self.name], lambda _, table: TableName(self.there, table.table))
        report = compare(pairs, self.target)
        assert report.identical, str(report)

    @property
    def place(self) -> str:
        """The source's end."""
        file, offset = end_of(self.upstream)
        return f"{file}:{offset}"


def accepted(cursor: Cursor, statement: str) -> bool:
    """Whether the server takes a statement."""
    try:
        cursor.execute(statement)
    except pymysql.err.Error:
        return False
    return True


def run(cursor: Cursor, *statements: str) -> None:
    """Execute statements."""
    for statement in statements:
        cursor.execute(statement)
