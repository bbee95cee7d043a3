"""What the fence of a cut-over holds back at a source, what is a write after it, and who may change it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pymysql
import pytest
from pydantic import SecretStr

from dm.config import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from dm.sourcelog.upstream.connection import connect, fetch
from dm.tools.cutover.findings import findings, findings_of_way_back
from dm.tools.cutover.source import (
    begin_file,
    close,
    closed,
    end,
    modes,
    reopen,
    server_of,
    wanted_tables,
    written,
)
from tests.live.upstream.group import endpoint_at, source_at, subtask_of
from tests.testbed.fixtures import ServerFactory

pytestmark = pytest.mark.live


def task_at(source: ThrowawayServer) -> SubtaskConfig:
    return subtask_of(source_at(endpoint_at(source)), source, source, "fence")


def own() -> None:
    """The row is the caller's."""


@pytest.mark.ci_flavor("mysql")
def test_an_open_transaction_cannot_commit_once_the_source_is_fenced(server: ServerFactory, flavor: Flavor) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    source.create_user("app", "p", "ALL ON d.*")
    subtask = task_at(source)
    before = modes(subtask)
    endpoint = subtask.source.endpoint
    assert server_of(endpoint) == server_of(endpoint.model_copy(update={"host": "localhost"})), "by whatever address"
    assert dict(server_of(endpoint))["port"] == str(source.port)
    assert [each for each in findings(subtask, fences=True) if each.stops] == []
    with closing(source.connect(user="app", password="p", autocommit=False)) as open_one, open_one.cursor() as cursor:
        cursor.execute("INSERT INTO d.t VALUES (1)")
        close(subtask, own)
        assert closed(subtask, strictly=True)
        with pytest.raises(pymysql.err.OperationalError) as refused:
            open_one.commit()
        assert refused.value.args[0] == 1290, "the server runs with read_only"
    assert _rows(source) == 0
    for fences in (True, False):
        found = [each.says for each in findings(subtask, fences=fences) if each.stops]
        assert any("read-only already" in says for says in found) == fences, "its mode was set by somebody else"
    reopen(subtask, before, own)
    assert modes(subtask) == before
    with closing(source.connect(user="app", password="p")) as again, again.cursor() as cursor:
        cursor.execute("INSERT INTO d.t VALUES (2)")
    assert _rows(source) == 1


def _rows(source: ThrowawayServer) -> int:
    return int(str(source.query("SELECT COUNT(*) FROM d.t")[0][0]))


@pytest.mark.ci_flavor("mysql")
def test_only_what_changes_something_is_a_write_after_the_fence(server: ServerFactory, flavor: Flavor) -> None:
    """A new file of the binlog is none, nor are statements that change no row."""
    source = server(flavor)
    source.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    task = task_at(source)
    before = modes(task)
    close(task, own)
    since = end(task)
    assert written(task, since) == ""
    source.execute("FLUSH BINARY LOGS")
    assert end(task) != since
    assert written(task, since) == ""
    reopen(task, before, own)
    source.execute("ANALYZE TABLE d.t", "FLUSH TABLES")
    assert written(task, since) == ""
    for statement in ("INSERT INTO d.t VALUES (1)", "ALTER TABLE d.t ADD c INT", "CREATE VIEW d.v AS SELECT 1"):
        source.execute("FLUSH BINARY LOGS", statement)
        assert written(task, since) != "", statement
        since = end(task)
    assert "binlog ended at" in written(task, replace(since, file=f"x{since.file}")), "it is not there any more"
    assert "another server" in written(task, replace(since, server_uuid="another"))


@pytest.mark.ci_flavor("mariadb")
def test_a_driver_that_was_frozen_changes_a_source_no_more(server: ServerFactory, flavor: Flavor) -> None:
    """It had asked whether the row is its own, and was about to open the source, when another one went on."""
    source = server(flavor)
    task = task_at(source)
    before = modes(task)
    asked = 0

    def frozen() -> None:
        """After its last look another one takes the row over, aborts, and closes the source once more."""
        nonlocal asked
        asked += 1
        if asked == 2:
            reopen(task, before, own)
            close(task, own)

    close(task, own)
    with pytest.raises(DMError) as lost:
        reopen(task, before, frozen)
    assert lost.value.name == "connection-lost"
    assert closed(task, strictly=True)

    def taken() -> None:
        raise DMError("cut-over-taken", task="fence")

    with pytest.raises(DMError, match="taken over"):
        reopen(task, before, taken)
    assert closed(task, strictly=True)
    reopen(task, before, own)
    assert not closed(task, strictly=True)
    with closing(connect(task.source.endpoint)) as session:
        assert fetch(session, "SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Killed'") == ((0,),)


@pytest.mark.ci_flavor("mariadb")
def test_what_would_act_on_rows_that_come_back_stops_a_cut_over_and_may_act_twice_by_name(
    server: ServerFactory, flavor: Flavor
) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT)", "CREATE TABLE d.audit (id INT)")
    source.create_user("plain", "p", "ALL ON d.*")
    task = task_at(source).model_copy(update={"block_allow_list": None})

    def stops(*twice: str) -> list[str]:
        return [each.says.partition(" acts")[0].partition(" runs")[0]
                for each in findings_of_way_back(task, wanted_tables(task), twice) if each.stops]  # fmt: skip

    assert stops() == []
    ((host,),) = source.query("SELECT host FROM mysql.user WHERE user = 'plain'")
    source.execute(
        "CREATE TRIGGER d.stamp AFTER INSERT ON d.t FOR EACH ROW INSERT INTO d.audit VALUES (NEW.id)",
        "CREATE DATABASE other",
        "CREATE TABLE other.t (id INT)",
        "SET GLOBAL event_scheduler = ON",
        "CREATE EVENT d.mine ON SCHEDULE EVERY 1 DAY STARTS '2035-01-01' DO DELETE FROM d.audit",
        "CREATE EVENT d.off ON SCHEDULE EVERY 1 DAY STARTS '2035-01-01' DISABLE DO DELETE FROM d.audit",
        f"CREATE DEFINER = 'plain'@'{host}' EVENT d.bound ON SCHEDULE EVERY 1 DAY STARTS '2035-01-01' DO SELECT 1",
    )
    assert stops() == ["trigger d.stamp", "event d.mine"]
    assert stops("trigger d.stamp", "event d.mine") == []
    said = [each.says for each in findings_of_way_back(task, wanted_tables(task), ["trigger d.none"])]
    assert [each for each in said if '--acts-twice "trigger d.none" names nothing' in each], said
    mends = [each.mend for each in findings_of_way_back(task, wanted_tables(task)) if each.stops]
    assert "DROP TRIGGER `d`.`stamp`" in mends[0]
    assert "ALTER EVENT `d`.`mine` DISABLE" in mends[1]
    source.create_user("blind", "p", "SELECT, REPLICATION CLIENT, PROCESS ON *.*")
    endpoint = task.source.endpoint.model_copy(update={"user": "blind", "password": SecretStr("p")})
    task = task.model_copy(update={"source": task.source.model_copy(update={"endpoint": endpoint})})
    assert stops() == [
        "whether triggers act on what comes back to d.audit can't be seen",
        "whether events act on what comes back to d can't be seen",
    ]


def test_a_server_begins_a_binlog_file_where_the_account_may_have_it(server: ServerFactory, flavor: Flavor) -> None:
    """Then what starts at a GTID set after it has no long file to look through."""
    source = server(flavor)
    source.create_user("plain", "p", "SELECT ON *.*")
    endpoint = task_at(source).source.endpoint
    plain = endpoint.model_copy(update={"user": "plain", "password": SecretStr("p")})

    def files() -> int:
        return len(source.query("SHOW BINARY LOGS"))

    before = files()
    assert not begin_file(plain)
    assert files() == before
    assert begin_file(endpoint)
    assert files() == before + 1
