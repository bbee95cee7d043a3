"""Shards that were altered since the place where a task begins: the precheck lets the task come to that ALTER."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.worker.test_start_time import next_second
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.unit.worker.home import REAL_DAEMON, TestHome, until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300), pytest.mark.ci_flavor("mysql")]


@dataclass
class Merge:
    """Two shards with a row each, which are merged into one table, made as they were then."""

    home: TestHome
    upstream: ThrowawayServer
    target: ThrowawayServer
    schema: str

    def file(self, mode: str) -> str:
        """The task's file; its source is known to the daemon."""

        def login(server: ThrowawayServer) -> str:
            return f"{{host: 127.0.0.1, port: {server.port}, user: {server.user}, password: '{server.password}'}}"

        source = self.home.file("one.yaml", f"source-id: one\nfrom: {login(self.upstream)}\n")
        self.home.ok("operate-source", "create", source)
        route = f"{{schema-pattern: {self.schema}, table-pattern: 's*', target-schema: {self.schema}, target-table: t}}"
        return self.home.file(
            "t.yaml",
            f"name: t\ntask-mode: {mode}\nshard-mode: optimistic\ntarget-database: {login(self.target)}\n"
            f"meta-schema: meta_{self.schema}\nblock-allow-list: {{b: {{do-dbs: [{self.schema}]}}}}\n"
            f"routes: {{r: {route}}}\nspark: {{master: 'local[1]'}}\n"
            "mysql-instances: [{source-id: one, block-allow-list: b, route-rules: [r]}]\n",
        )

    def alter_a_shard(self) -> None:
        self.upstream.execute(
            f"ALTER TABLE {self.schema}.s1 ADD COLUMN note VARCHAR(20)",
            f"INSERT INTO {self.schema}.s1 VALUES (11, 'noted')",
        )

    def rows(self) -> list[tuple[object, ...]]:
        """What the target has; no rows while it lacks the new column."""
        columns = self.target.query(f"SHOW COLUMNS FROM {self.schema}.t")
        return list(self.target.query(f"SELECT * FROM {self.schema}.t ORDER BY id")) if len(columns) == 2 else []


@pytest.fixture
def merge(tmp_path: Path, server: ServerFactory, target: ThrowawayServer, schema: SchemaFactory) -> Iterator[Merge]:
    upstream = server(target.flavor)
    name = schema(upstream, target)
    tables = [f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY)" for table in ("s1", "s2")]
    upstream.execute(*tables)
    target.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    home = TestHome(tmp_path / "home", program=REAL_DAEMON)
    home.start()
    yield Merge(home, upstream, target, name)
    home.stop()
    target.execute(f"DROP DATABASE IF EXISTS meta_{name}")


def test_a_start_at_a_time_comes_to_the_alters_after_it(merge: Merge) -> None:
    text, _ = next_second(merge.upstream)
    merge.upstream.execute(f"INSERT INTO {merge.schema}.s1 VALUES (1)", f"INSERT INTO {merge.schema}.s2 VALUES (2)")
    merge.alter_a_shard()
    file = merge.file("incremental")
    assert merge.home.dmctl("check-task", file).status == 3, "from the source's end on, no ALTER brings the column"
    merge.home.ok("check-task", file, "--start-time", text)
    merge.home.tried("start-task", file, "--start-time", text)
    until(lambda: "at this point of the binlog is unknown" in str(merge.home.subtask("t")))  # it is at the first row


@pytest.mark.spark
def test_a_load_that_is_stopped_and_started_comes_to_the_alters_after_it(merge: Merge) -> None:
    """The target refuses rows at first, so that the load is under way when the shard is altered."""
    name = merge.schema
    merge.upstream.execute(f"INSERT INTO {name}.s1 VALUES (1)", f"INSERT INTO {name}.s2 VALUES (2)")
    refused = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not yet'"
    merge.target.execute(f"CREATE TRIGGER {name}.refuse BEFORE INSERT ON {name}.t FOR EACH ROW {refused}")
    file = merge.file("all")
    merge.home.tried("start-task", file)
    until(lambda: "not yet" in str(merge.home.subtask("t")))
    merge.alter_a_shard()
    merge.home.ok("stop-task", "t")
    merge.target.execute(f"DROP TRIGGER {name}.refuse")
    merge.home.ok("start-task", file)
    until(lambda: merge.rows() == [(1, None), (2, None), (11, "noted")])
