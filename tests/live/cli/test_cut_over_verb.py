"""`dmctl cut-over` on real servers: what it does, what undoes it, and daemons that are killed in each state."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest

from dm.cli.client import Client
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.tools.cutover import source as at_source
from dm.tools.cutover.machine import NotYet
from dm.verbs.cutover import BeginCutOver
from tests.live.cli.test_cut_over import PAGE, alike
from tests.testbed.cases import APPLIER_GRANTS, FENCING_GRANTS, SOURCE_GRANTS, TARGET_GRANTS, TEMPORARY_GRANT
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import subtask_for, wait_until
from tests.unit.docs.document import blocks

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

PASSWORD = "canary-5c07"
HOOK = """#!/bin/sh
echo "$1 $DM_TASK $DM_STATE $DM_TARGET_END" >> {log}
[ "$1" = switch ] && exit {status}
exit 3
"""


@dataclass
class Move:
    """A source, a target, a task between them."""

    source: ThrowawayServer
    target: ThrowawayServer
    daemon: Daemon

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.daemon.said("cut-over", "move", "--status", "-o", "json").json()
        return found

    def begin(self, *, way_back: bool = False, **options: Any) -> None:
        environment = {**os.environ, "DM_HOME": str(self.daemon.home)}
        Client(None, environment, lambda _: None).ask(BeginCutOver(task="move", way_back=way_back, **options))

    def read_only(self) -> bool:
        return bool(self.source.query("SELECT @@global.read_only")[0][0])

    def open(self) -> None:
        for name in ("super_read_only", "read_only"):
            if self.source.query(f"SHOW GLOBAL VARIABLES LIKE '{name}'"):
                self.source.execute(f"SET GLOBAL {name} = OFF")

    def hook(self, status: int = 0) -> tuple[str, Path]:
        log, program = self.daemon.directory / "hook.log", self.daemon.directory / "hook"
        program.write_text(HOOK.format(log=log, status=status))
        program.chmod(0o700)
        return str(program), log

    def rows(self, server: ThrowawayServer) -> list[tuple[Any, ...]]:
        return sorted(server.query("SELECT id FROM move.t"))


@pytest.fixture(params=["mysql", "mariadb"])
def move(request: pytest.FixtureRequest, server: ServerFactory, tmp_path: Path) -> Iterator[Move]:
    flavor: Flavor = request.param
    with moving(server(flavor), server(flavor), tmp_path) as found:
        yield found


@contextmanager
def moving(source: ThrowawayServer, target: ThrowawayServer, tmp_path: Path) -> Iterator[Move]:
    """A task that follows."""
    for each in (source, target):
        each.execute("CREATE DATABASE move", "CREATE TABLE move.t (id INT PRIMARY KEY)")
    source.create_user("dm", PASSWORD, SOURCE_GRANTS[source.flavor])
    target.create_user("dm", PASSWORD, TARGET_GRANTS, TEMPORARY_GRANT, APPLIER_GRANTS[target.flavor])
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (tmp_path / "source.yaml").write_text(f"source-id: old\nfrom: {{{head}, port: {source.port}}}\n")
    (tmp_path / "move.yaml").write_text(
        f"name: move\ntask-mode: incremental\ntarget-database: {{{head}, port: {target.port}}}\n"
        "mysql-instances: [{source-id: old, block-allow-list: move}]\nblock-allow-list: {move: {do-dbs: [move]}}\n"
    )
    with Daemon(tmp_path) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        daemon.must("start-task", "move.yaml")
        daemon.wait("move", lambda status: status["old"].get("sync", {}).get("synced") is True, "follows")
        source.execute("INSERT INTO move.t VALUES (1), (2)")
        yield Move(source, target, daemon)


def refused_until_ready(move: Move) -> None:
    said = move.daemon.said("cut-over", "move", "--dry-run")
    assert said.status == 1, str(said)
    assert "dm may not set" in said.out
    assert "GRANT " in said.out
    assert "way back, source move-target" in said.out, "what it needs is told at the same time"
    assert "way back, target" in said.out
    assert "target, for --back: dm may not set" in said.out
    assert ("target, for --back: open XA" in said.out) == (move.target.flavor == "mysql")
    assert not move.read_only()
    refused = move.daemon.said("cut-over", "move", "--yes")
    assert refused.status == 1
    assert "44070" in refused.err
    assert move.state()["state"] == "none"
    assert "44072" in move.daemon.said("cut-over", "move", "--abort").err


def grant(move: Move) -> None:
    for server in (move.source, move.target):
        flavor: Flavor = server.flavor
        for user, host in server.query("SELECT user, host FROM mysql.user WHERE user = 'dm'"):
            for privileges in (FENCING_GRANTS[flavor], SOURCE_GRANTS[flavor], TARGET_GRANTS, APPLIER_GRANTS[flavor]):
                server.execute(f"GRANT {privileges} TO '{user}'@'{host}'")


def revoke_fencing(move: Move) -> None:
    """At the target, for a return."""
    privileges = FENCING_GRANTS[move.target.flavor]
    for user, host in move.target.query("SELECT user, host FROM mysql.user WHERE user = 'dm'"):
        move.target.execute(f"REVOKE {privileges} FROM '{user}'@'{host}'")


def refused_while_it_replicates(move: Move) -> None:
    """The applier runs: what it would apply is nowhere, so no server is needed."""
    words = (
        ("REPLICATION SOURCE TO SOURCE", "REPLICA") if move.source.flavor == "mysql" else ("MASTER TO MASTER", "SLAVE")
    )
    move.source.execute(f"CHANGE {words[0]}_HOST = 'nowhere.invalid'", f"START {words[1]} SQL_THREAD")
    said = move.daemon.said("cut-over", "move", "--dry-run")
    assert (said.status, "it is a replica" in said.out) == (1, True), str(said)
    assert "ALTER USER 'dm'@" not in said.out, "the account that has to log in"
    move.source.execute(f"STOP {words[1]}", f"RESET {words[1]} ALL")


@pytest.mark.ci_flavor("mysql")
@pytest.mark.spark
def test_from_fence_to_complete_with_a_hook_that_fails_first(move: Move) -> None:
    refused_until_ready(move)
    grant(move)
    refused_while_it_replicates(move)
    ready = move.daemon.said("cut-over", "move", "--dry-run")
    assert ready.status == 0, str(ready)
    assert "# move-back.yaml" in ready.out
    assert PASSWORD not in ready.out
    hook, log = move.hook(status=7)
    failed = move.daemon.said("cut-over", "move", "--yes", "--hook", hook)
    assert failed.status == 1, str(failed)
    assert "it ended with 7" in failed.out
    assert move.read_only()
    assert "44072" in move.daemon.said("cut-over", "move", "--abort").err, "some applications may have moved"
    move.hook(status=0)
    done = move.daemon.said("cut-over", "move", "--yes", "--hook", hook)
    assert done.status == 0, str(done)
    assert "move: switched" in done.out
    (shown,) = [block for block in blocks(PAGE.read_text(encoding="utf-8")) if block.text.startswith("shop: switched")]
    said = re.sub(r"\bmove\b", "shop", re.sub(r"^  old", "  mysql-01", done.out, flags=re.MULTILINE))
    assert alike(said) == alike(shown.text)
    words = [line.split() for line in log.read_text().splitlines()]
    assert [(word, state) for word, _, state, *_ in words] == [
        ("stop-writes", "fencing"), ("switch", "switching"), ("switch", "switching")
    ]  # fmt: skip
    assert len(words[-1]) > 3, "the end of the target's binlog"
    assert move.daemon.said("query-status", "move", "-o", "json").json()["cutOver"]["state"] == "switched"
    resumed = move.daemon.said("resume-task", "move")
    assert (resumed.status, "Error 44078" in resumed.err) == (1, True), str(resumed)
    assert "rests for its cut-over: `dmctl cut-over move --status`" in move.daemon.said("query-status", "move").out
    revoke_fencing(move)
    returned = move.daemon.said("cut-over", "move", "--back", "--yes")
    assert (returned.status, "44070" in returned.err) == (1, True), str(returned)
    assert "`dmctl cut-over move --back --dry-run`" in returned.err
    assert "dm may not set" in move.daemon.said("cut-over", "move", "--back", "--dry-run").out
    complete = move.daemon.said("cut-over", "move", "--complete")
    assert complete.status == 0, str(complete)
    assert "closed to writes" in complete.out
    assert move.read_only()
    assert move.rows(move.source) == move.rows(move.target) == [(1,), (2,)]
    move.open()


@pytest.mark.ci_flavor("mysql")
@pytest.mark.spark
def test_rows_that_were_compared_before_the_fence_are_not_compared_again(move: Move) -> None:
    grant(move)
    move.daemon.must("start-relay", "-s", "old")
    move.source.execute("CREATE TABLE move.counted (id INT AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT = 50")
    wait_until(lambda: bool(move.target.query("SHOW TABLES FROM move LIKE 'counted'")), "the target has it")
    move.target.execute("ALTER TABLE move.counted AUTO_INCREMENT = 5")
    told = move.daemon.said("cut-over", "move", "--dry-run", "--no-way-back").out
    assert "no comparison of all rows is recorded" in told
    assert re.search(r"comparing all rows takes about \d+\.\d s .*\n  so long nobody writes with --prove full", told), (
        told
    )
    assert "ALTER TABLE `move`.`counted` AUTO_INCREMENT = 50" in told
    done = move.daemon.said("cut-over", "move", "--yes", "--prove", "recent", "--no-way-back", "-o", "json")
    assert done.status == 0, str(done)
    row = done.json()["cutOver"]
    assert row["times"]["comparing"] < row["times"]["fencing"]
    assert row["deadline"] > row["times"]["fencing"] + 590, "the time without writes begins with the fence"
    assert (list(row["proof"]["restsOn"]), row["proof"]["wholeBecause"]) == (["move.counted", "move.t"], {})
    said = move.daemon.said("cut-over", "move", "--status").out
    assert "of 2 tables only rows written since all were equal at" in said
    told = move.daemon.said("cut-over", "move", "--dry-run", "--no-way-back").out
    assert re.search(r"comparing all rows of 2 tables took \d+ s, \d+ s ago", told), told
    move.open()


@pytest.mark.chaos  # the model has it in every order
@pytest.mark.parametrize("late", [False, True])
def test_what_can_not_be_applied_is_aborted(move: Move, late: bool) -> None:
    grant(move)
    with move.target.connect(autocommit=False) as holder:
        with holder.cursor() as cursor:
            cursor.execute("INSERT INTO move.t VALUES (9)")
            move.source.execute("INSERT INTO move.t VALUES (9)")  # waits for the holder
            if late:
                words = ("--prove", "none", "--max-lag", "1000", "--timeout", "2")
                said = move.daemon.said("cut-over", "move", "--no-way-back", "--yes", *words)
                assert said.status == 1, str(said)
                assert "the time is over" in said.out
            else:
                move.begin(prove="none", max_lag=1000.0)
                wait_until(lambda: move.state()["state"] == "fenced", "the source is closed")
                assert move.read_only()
                refused = move.daemon.said("stop-task", "move")
                assert "44071" in refused.err, "nothing could open the source without the task"
                said = move.daemon.said("cut-over", "move", "--abort")
                assert said.status == 0, str(said)
            assert "move: aborted" in said.out
            assert not move.read_only()
        holder.rollback()
    move.source.execute("INSERT INTO move.t VALUES (10)")
    wait_until(lambda: move.rows(move.target) == [(1,), (2,), (9,), (10,)], "the task goes on")


@pytest.mark.parametrize("kill_in", [
    "fencing",
    *(pytest.param(state, marks=pytest.mark.chaos) for state in ("fenced", "drained", "proved", "switching")),
])  # fmt: skip
@pytest.mark.ci_flavor("mariadb")
def test_a_daemon_that_is_killed_goes_on_from_the_row(move: Move, kill_in: str) -> None:
    grant(move)
    program = move.daemon.directory / "slow"
    program.write_text(f"#!/bin/sh\n[ $DM_STATE = {kill_in} ] && sleep 2\n[ $1 = switch ] || exit 3\n")
    program.chmod(0o700)
    move.begin(prove="none", hook=str(program))
    place = "SELECT JSON_UNQUOTE(JSON_EXTRACT(state, '$.state')) FROM dm_meta.move_cut_over"
    order = ["comparing", "fencing", "fenced", "drained", "proved", "switching", "switched"]

    def come() -> bool:
        there = move.target.query("SHOW TABLES FROM dm_meta LIKE 'move_cut_over'")
        rows = move.target.query(place) if there else []
        return bool(rows) and order.index(str(rows[0][0])) >= order.index(kill_in)

    while not come():
        time.sleep(0.005)
    move.daemon.kill()
    move.daemon.start()
    wait_until(lambda: move.state()["state"] == "switched", "it goes on")
    assert move.read_only()
    assert move.rows(move.source) == move.rows(move.target)
    assert (
        json.loads(move.target.query("SELECT state FROM dm_meta.move_cut_over")[0][0])["before"]["old"]["read_only"]
        == "OFF"
    )
    move.open()


@pytest.mark.parametrize("seen", [True, False])
def test_the_fence_waits_for_xa_transactions_which_mysql_lets_commit_after_it(
    server: ServerFactory, seen: bool
) -> None:
    """Others are refused their COMMIT, so they need not be waited for where performance_schema tells them apart."""
    source = server("mysql", performance_schema=seen)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.t (id INT PRIMARY KEY)")
    source.create_user("app", PASSWORD, "INSERT ON *.*")
    task = subtask_for(source, source, "x", task="x")
    with source.connect(user="app", password=PASSWORD) as plain, source.connect(user="app", password=PASSWORD) as xa:
        sessions = []
        for connection, begin, row in ((plain, "BEGIN", 1), (xa, "XA START 'a'", 2)):
            with connection.cursor() as cursor:
                cursor.execute("SELECT CONNECTION_ID()")
                sessions += [int(number) for (number,) in cursor.fetchall()]
                cursor.execute(begin)
                cursor.execute(f"INSERT INTO x.t VALUES ({row})")
        at_source.close(task, lambda: None)
        with pytest.raises(NotYet) as waits:
            at_source.demand_none_prepared(task)
        waited = {int(number) for number in str(waits.value).partition("KILL ")[2].split(", ")}
        assert waited == ({sessions[1]} if seen else {*sessions})
        for statement in ("XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'"):  # in spite of the mode
            xa.cursor().execute(statement)
        with pytest.raises(pymysql.err.OperationalError, match="read-only"):
            plain.cursor().execute("COMMIT")
        assert source.query("SELECT * FROM x.t") == ((2,),)
        wait_until(lambda: none_open(task), "innodb_trx is up to 0.1 s old")


def none_open(task: SubtaskConfig) -> bool:
    try:
        at_source.demand_none_prepared(task)
    except NotYet:
        return False
    return True


@pytest.mark.ci_flavor("mysql")
def test_objects_are_there_before_and_triggers_and_events_come_with_the_switch(move: Move) -> None:
    said = move.daemon.said
    move.source.execute(
        "CREATE TABLE move.seen (id INT)",
        "CREATE VIEW move.v AS SELECT id FROM move.t",
        "CREATE TRIGGER move.stamp AFTER INSERT ON move.t FOR EACH ROW INSERT INTO move.seen VALUES (NEW.id)",
        "CREATE EVENT move.nightly ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00' DO SELECT 1",
        "INSERT INTO move.t VALUES (3)",
    )
    for server in (move.source, move.target):
        for user, host in server.query("SELECT user, host FROM mysql.user WHERE user = 'dm'"):
            server.execute(f"GRANT ALL ON *.* TO '{user}'@'{host}'")
    move.daemon.must("wait", "move", "--synced")

    lacking = said("cut-over", "move", "--dry-run", "--no-way-back")
    assert lacking.status == 1, str(lacking)
    assert "objects: the target lacks view move.v\n  dmctl objects move --apply" in lacking.out
    assert "stamp" not in lacking.out, "it comes with the switch"
    waived = said("cut-over", "move", "--dry-run", "--no-way-back", "--waive", "view move.v", "--waive", "view move.w")
    assert waived.status == 0, str(waived)
    assert '--waive "view move.w" names nothing' in waived.out
    move.daemon.must("objects", "move", "--apply", "--kind", "view")

    done = said("cut-over", "move", "--yes", "--no-way-back")
    assert done.status == 0, str(done)
    assert {str(name) for (name,) in move.target.query("SHOW TABLES FROM move")} == {"t", "seen", "v"}
    asked = "SELECT status FROM information_schema.events WHERE event_schema = 'move'"
    assert move.target.query(asked) == (("ENABLED",),)
    move.target.execute("INSERT INTO move.t VALUES (9)")
    assert sorted(move.target.query("SELECT id FROM move.seen")) == [(3,), (9,)], (
        "a row that came was not stamped again"
    )
