"""A paused task is put right by the ways out that its error names: skip, replace, inject, revert, binlog-schema."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.unit.worker.home import REAL_DAEMON, TestHome, until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300), pytest.mark.ci_flavor("mysql")]


@dataclass
class Following:
    """An incremental task `t` of a daemon of the test's own, on one schema with a table `t (id, v)`."""

    home: TestHome
    upstream: ThrowawayServer
    target: ThrowawayServer
    schema: str

    def start(self) -> None:
        servers = {
            role: f"host: 127.0.0.1, port: {one.port}, user: {one.user}, password: '{one.password}'"
            for role, one in (("source", self.upstream), ("target", self.target))
        }
        source = self.home.file("one.yaml", f"source-id: one\nfrom: {{{servers['source']}}}\n")
        task = self.home.file(
            "t.yaml",
            f"name: t\ntask-mode: incremental\ntarget-database: {{{servers['target']}}}\n"
            f"meta-schema: meta_{self.schema}\n"
            "mysql-instances:\n  - source-id: one\n    block-allow-list: b\n"
            f"block-allow-list: {{b: {{do-dbs: [{self.schema}]}}}}\n",
        )
        assert self.home.dmctl("operate-source", "create", source).status == 0
        self.home.ok("start-task", task)
        self.wait_synced()

    def write(self, *statements: str) -> None:
        self.upstream.execute(*(statement.format(s=f"`{self.schema}`") for statement in statements))

    def at_target(self, *statements: str) -> None:
        self.target.execute(*(statement.format(s=f"`{self.schema}`") for statement in statements))

    def rows(self, server: ThrowawayServer, table: str = "t") -> list[tuple[Any, ...]]:
        return sorted(server.query(f"SELECT * FROM `{self.schema}`.`{table}`"))

    def wait_synced(self) -> None:
        until(lambda: self.failed() or (self.home.subtask("t").get("sync") or {}).get("synced"))
        assert self.failed() is None

    def failed(self) -> Any:
        status = self.home.subtask("t")
        return status["result"]["errors"][0] if status["stage"] == "Paused" and status["result"]["errors"] else None

    def wait_failed(self) -> Any:
        return until(self.failed)

    def binlog(self, *words: str) -> Any:
        return self.home.ok("binlog", *words)

    def converged(self, table: str = "t") -> bool:
        self.wait_synced()
        return self.rows(self.upstream, table) == self.rows(self.target, table)

    def operators(self) -> list[Any]:
        operators: list[Any] = self.binlog("list", "t")["sources"][0]["operators"]
        return operators

    def stored(self) -> int:
        return int(self.target.query(f"SELECT COUNT(*) FROM `meta_{self.schema}`.t_syncer_operator")[0][0])


@pytest.fixture
def following(
    tmp_path: Path, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> Iterator[Following]:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE `{name}`.t (id INT PRIMARY KEY, v VARCHAR(10))")
    home = TestHome(tmp_path / "home", program=REAL_DAEMON)
    home.start()
    one = Following(home, upstream, target, name)
    one.start()
    yield one
    home.dmctl("shutdown")
    target.execute(f"DROP DATABASE IF EXISTS `meta_{name}`")


def place_of(error: Any) -> str:
    """The position at the end of an error's message, as `--binlog-pos` takes it."""
    return str(error["Message"].rpartition("(")[2].rstrip(")").replace(", ", ":"))


def test_every_way_out_of_a_failed_ddl(following: Following) -> None:
    following.at_target("ALTER TABLE {s}.t ADD COLUMN taken INT")
    following.write("ALTER TABLE {s}.t ADD COLUMN taken VARCHAR(5) FIRST", "INSERT INTO {s}.t VALUES ('x', 1, 'a')")
    error = following.wait_failed()
    assert error["ErrCode"] == 36910
    place = place_of(error)

    # Replace it by what the target can do; the rows are read as the source wrote them.
    following.binlog("replace", "t", f"ALTER TABLE `{following.schema}`.t MODIFY taken VARCHAR(5) FIRST")
    assert following.converged()
    until(lambda: following.stored() == 0)  # the checkpoint is after it

    # Skip a statement that nobody can read, given ahead of time to a running task, then reverted, and skipped again.
    following.at_target("ALTER TABLE {s}.t ADD COLUMN second INT")
    following.home.ok("pause-task", "t")
    following.write("ALTER TABLE {s}.t ADD COLUMN second BIGINT")
    ahead = "binlog.999999:4"
    following.binlog("skip", "t", "-b", ahead)
    assert [one["binlogPos"] for one in following.operators()] == [ahead]
    following.binlog("revert", "t", "-b", ahead)
    assert following.operators() == []
    refused = following.home.said("binlog", "revert", "t", "-b", ahead)
    assert "Error 36065" in refused.err
    following.home.tried("resume-task", "t")
    again = following.wait_failed()
    assert place_of(again) != place
    following.binlog("skip", "t")
    following.write("INSERT INTO {s}.t VALUES ('y', 2, 'b', 5)")
    assert following.converged()
    too_late = following.home.said("binlog", "skip", "t", "-b", place)
    assert "Error 36952" in too_late.err
    assert "Error 36950" in following.home.said("binlog", "skip", "t").err


def test_a_statement_is_skipped_while_its_task_is_being_resumed(following: Following) -> None:
    following.at_target("ALTER TABLE {s}.t ADD COLUMN a INT, ADD COLUMN b INT")
    for column in ("a", "b"):
        following.write(f"ALTER TABLE {{s}}.t ADD COLUMN {column} BIGINT")
    following.wait_failed()
    resuming = threading.Thread(target=lambda: following.home.dmctl("resume-task", "t"))  # a process of its own
    resuming.start()  # whichever comes first: no answer is "try again"
    following.binlog("skip", "t")
    resuming.join()
    following.wait_failed()
    following.home.said("resume-task", "t")
    following.binlog("skip", "t")
    following.write("INSERT INTO {s}.t VALUES (1, 'a', 2, 3)")
    assert following.converged()
    assert "Error 36950" in following.home.said("binlog", "skip", "t").err


def test_ddl_is_injected_before_rows_that_do_not_fit(following: Following) -> None:
    following.at_target("ALTER TABLE {s}.t MODIFY v VARCHAR(2)")
    following.write("INSERT INTO {s}.t VALUES (1, 'long'), (2, 'x')", "UPDATE {s}.t SET v = 'longer' WHERE id = 2")
    following.wait_failed()
    assert "Error 36951" in following.home.said("binlog", "skip", "t").err
    assert "Error 36064" in following.home.said("binlog", "inject", "t", "UPDATE a.t SET b = 1").err
    assert "Error 36024" in following.home.said("binlog", "inject", "t", "ALTER TABLE t ADD c INT").err
    following.binlog("inject", "t", f"ALTER TABLE `{following.schema}`.t MODIFY v VARCHAR(10)")
    assert following.converged()
    assert until(lambda: following.operators() == [])  # it goes with the next checkpoint


def test_statements_of_statement_format_are_skipped_one_by_one(following: Following) -> None:
    with following.upstream.connect() as session, session.cursor() as cursor:
        for statement in (
            "SET SESSION binlog_format = STATEMENT",
            f"INSERT INTO `{following.schema}`.t VALUES (7, 'seven')",
            "BEGIN",
            f"UPDATE `{following.schema}`.t SET v = 'a' WHERE id = 7",
            f"UPDATE `{following.schema}`.t SET v = 'b' WHERE id = 7",
            "COMMIT",
        ):
            cursor.execute(statement)
    places = []
    for _ in range(3):
        error = following.wait_failed()
        assert error["ErrCode"] == 36014
        places.append(place_of(error))
        following.binlog("skip", "t", "-b", places[-1])
        until(lambda: following.failed() is None or place_of(following.failed()) != places[-1])
    assert len(set(places)) == 3
    following.at_target("INSERT INTO {s}.t VALUES (7, 'b')")
    assert following.converged()


def test_a_wrong_tracked_structure_is_replaced(following: Following) -> None:
    table = (following.schema, "t")
    following.write("INSERT INTO {s}.t VALUES (1, 'one')")
    assert following.converged()
    following.home.ok("pause-task", "t")
    shown = following.home.said("binlog-schema", "list", "t", *table)
    assert "`v` varchar(10)" in shown.out

    wrong = following.home.file("t.sql", "CREATE TABLE t (id INT PRIMARY KEY)")
    following.home.ok("binlog-schema", "update", "t", *table, wrong)
    following.write("INSERT INTO {s}.t VALUES (2, 'two')")
    following.home.tried("resume-task", "t")
    assert following.wait_failed()["ErrCode"] == 36027
    following.home.ok("binlog-schema", "update", "t", *table, "--from-target")
    following.home.ok("resume-task", "t")
    assert following.converged()

    following.home.ok("pause-task", "t")
    following.home.ok("binlog-schema", "update", "t", *table, following.home.file("t.sql", shown.out))
    following.home.ok("binlog-schema", "update", "t", *table, "--from-source")
    following.home.ok("binlog-schema", "delete", "t", *table)
    assert "Error 44005" in following.home.said("binlog-schema", "list", "t", *table).err
    assert "Error 44009" in following.home.said("binlog-schema", "update", "t", *table, "one.yaml").err
    following.write("INSERT INTO {s}.t VALUES (3, 'three')")
    following.home.ok("resume-task", "t")
    assert following.converged()
