"""`dmctl update-task` and `dmctl reload-table` with a daemon: tables join a task that runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dm.cli.client import Client
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from tests.spark.full_load import beside
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.joined_writes import Writes
from tests.unit.worker.home import REAL_DAEMON, TestHome, until

# Two starts of Spark; `make test` has both verbs without a daemon (tests/spark).
pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(600)]


@dataclass
class Joining:
    """A task that follows one table of a schema."""

    home: TestHome
    upstream: ThrowawayServer
    target: ThrowawayServer
    schema: str

    def file(self, *tables: str, more: str = "") -> str:
        login = "host: 127.0.0.1, user: {user}, password: '{password}', port: {port}"
        to = login.format(user=self.target.user, password=self.target.password, port=self.target.port)
        wanted = ", ".join(f"{{db-name: {self.schema}, tbl-name: {table}}}" for table in tables)
        return self.home.file(
            "t.yaml",
            f"name: t\ntask-mode: incremental\ntarget-database: {{{to}}}\nmeta-schema: meta_{self.schema}\n"
            f"mysql-instances:\n  - source-id: one\n    block-allow-list: b\n"
            f"block-allow-list: {{b: {{do-tables: [{wanted}]}}}}\nspark: {{master: 'local[1]'}}\n{more}",
        )

    def status(self) -> Any:
        return self.home.subtask("t")

    def synced(self) -> bool:
        status = self.status()
        assert status["stage"] == "Running", status
        return "joining" not in status and bool((status.get("sync") or {}).get("synced"))

    def caught_up(self) -> bool:
        """The same, where processes die: it may just be tried again."""
        status = self.status()
        synced = bool((status.get("sync") or {}).get("synced"))
        return status["stage"] == "Running" and "joining" not in status and synced

    def follows(self) -> bool:
        status = self.status()
        return (status["stage"], status["unit"]) == ("Running", "Sync")

    def tables(self) -> set[str]:
        """Those of the target."""
        return {str(name) for (name,) in self.target.query(f"SHOW TABLES FROM `{self.schema}`")}

    def identical(self) -> bool:
        """Whether all tables are."""
        return compare(pair_tables([self.upstream], [self.schema]), self.target).identical


@pytest.fixture
def joining(
    tmp_path: Path, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> Iterator[Joining]:
    name = schema(upstream, target)
    upstream.execute(
        f"CREATE TABLE `{name}`.first (id INT PRIMARY KEY, v INT)",
        f"CREATE TABLE `{name}`.second (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO `{name}`.second VALUES (1, 1), (2, 2)",
    )
    target.execute(f"CREATE TABLE `{name}`.first (id INT PRIMARY KEY, v INT)")
    home = TestHome(tmp_path / "home", program=REAL_DAEMON)
    home.start()
    one = Joining(home, upstream, target, name)
    source = home.file(
        "one.yaml",
        f"source-id: one\nfrom: {{host: 127.0.0.1, user: {upstream.user}, password: '{upstream.password}',"
        f" port: {upstream.port}}}\n",
    )
    assert home.dmctl("operate-source", "create", source).status == 0
    home.ok("start-task", one.file("first"))
    until(one.synced)
    yield one
    home.dmctl("shutdown")
    target.execute(f"DROP DATABASE IF EXISTS `meta_{name}`")


def test_a_table_is_added_and_loaded_again(joining: Joining) -> None:
    home, schema = joining.home, joining.schema
    longer = joining.file("first", "second")
    said = home.dmctl("update-task", longer, stdin="n\n")
    assert said.status == 1
    assert f"`{schema}`.`second`" in said.err
    assert joining.synced(), "nothing was done"

    home.ok("update-task", longer, "--yes")
    joining.upstream.execute(
        f"INSERT INTO `{schema}`.second VALUES (3, 3)", f"INSERT INTO `{schema}`.first VALUES (1, 1)"
    )
    until(joining.synced)
    assert joining.identical()
    assert home.dmctl("update-task", longer).err.strip() == "t: the file changes nothing"
    assert home.dmctl("update-task", "t", "--cancel").status == 1

    refused = home.dmctl("update-task", joining.file("first", "second", more="timezone: '+01:00'\n"))
    assert refused.status == 1
    assert "46925" in refused.err
    assert "`timezone`" in refused.err

    joining.target.execute(f"UPDATE `{schema}`.second SET v = 9", f"DELETE FROM `{schema}`.second WHERE id = 2")
    home.ok("reload-table", "t", schema, "second")
    joining.upstream.execute(
        f"INSERT INTO `{schema}`.second VALUES (4, 4)", f"INSERT INTO `{schema}`.first VALUES (2, 2)"
    )
    until(joining.synced)
    assert joining.identical()


def test_an_addition_is_cancelled_and_asked_for_again(joining: Joining) -> None:
    home, schema, target = joining.home, joining.schema, joining.target
    joining.upstream.execute(f"INSERT INTO `{schema}`.first VALUES (1, 1)")
    until(joining.synced)
    home.ok("update-task", joining.file("first", "second*"), "--yes")
    until(lambda: (joining.status().get("joining") or {}).get("phase") == "loading")
    with closing(target.connect(autocommit=False)) as stranger:
        # The task's own stream can't come to rest, so that it does not take the tables.
        with stranger.cursor() as cursor:
            cursor.execute(f"SELECT * FROM `{schema}`.first WHERE id = 1 FOR UPDATE")
        joining.upstream.execute(
            f"UPDATE `{schema}`.first SET v = 2 WHERE id = 1",
            f"CREATE TABLE `{schema}`.second_new (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO `{schema}`.second_new VALUES (1, 1), (2, 2)",
        )
        until(lambda: "second_new" in joining.tables())
        until(lambda: bool(target.query(f"SELECT 1 FROM `{schema}`.second_new")))
        assert home.ok("update-task", "t", "--cancel")["sources"] == ["one"]
    until(joining.caught_up)
    assert joining.tables() == {"first"}
    # The file of before holds again.
    assert home.dmctl("update-task", joining.file("first")).err.strip() == "t: the file changes nothing"

    joining.upstream.execute(f"DELETE FROM `{schema}`.second_new WHERE id = 1", f"DELETE FROM `{schema}`.second")
    assert home.ok("update-task", joining.file("first", "second*"), "--yes")["filledTables"] == []
    until(joining.synced)
    assert joining.tables() == {"first", "second", "second_new"}
    assert joining.identical()


def test_rows_that_are_at_the_target_are_said_before_a_table_is_added(joining: Joining) -> None:
    schema = joining.schema
    joining.target.execute(
        f"CREATE TABLE `{schema}`.second (id INT PRIMARY KEY, v INT)", f"INSERT INTO `{schema}`.second VALUES (9, 9)"
    )
    said = joining.home.dmctl("update-task", joining.file("first", "second"), stdin="n\n")
    assert said.status == 1
    assert f"have rows already, which stay beside the source's or in their place: `{schema}`.`second`" in said.err


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seconds", [0.1, 0.5, 1.5, 5.0])
@pytest.mark.parametrize("verb", ["update-task", "reload-table"])
def test_tables_join_over_kills_of_the_daemon(
    verb: str, seconds: float, joining: Joining, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies somewhere in the verb, or in the load; the verb is given again, as a person would, and it dies again."""
    home, schema = joining.home, joining.schema
    # `dmctl` would start one of its own, which nobody ends.
    monkeypatch.setattr(Client, "_start_daemon", lambda _: None)
    typed = ["update-task", joining.file("first", "second"), "--yes"]
    if verb == "reload-table":
        home.ok(*typed)
        until(joining.synced)
        joining.target.execute(f"UPDATE `{schema}`.second SET v = 9", f"DELETE FROM `{schema}`.second WHERE id = 2")
        typed = ["reload-table", "t", schema, "second"]
    writes = [Writes(joining.upstream, f"`{schema}`.{table}") for table in ("first", "second")]
    with beside(writes[0].run), beside(writes[1].run):
        try:
            death = threading.Timer(seconds, home.kill)
            death.start()
            home.said(*typed)
            death.join()
            home.start()
            until(joining.follows)
            home.ok(*typed)
            threading.Event().wait(seconds)
            home.kill()
            home.start()
            until(joining.caught_up)
        finally:
            for each in writes:
                each.over.set()
    until(joining.caught_up)
    assert joining.identical()
