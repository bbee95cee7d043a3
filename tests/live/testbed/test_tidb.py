"""The TiDB of the test bed: private, restartable, killable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pymysql
import pytest

from tests.testbed.contrary import EVERYWHERE, NOT_OF_TIDB, OF_MYSQL, OF_TIDB, contrary
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.tidb]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[TidbServer]:
    server = TidbServer(tmp_path / "tidb")
    yield server.start()
    server.destroy()


def test_it_says_that_it_is_a_tidb(tidb: TidbServer) -> None:
    ((version,),) = tidb.query("SELECT VERSION()")
    assert "-TiDB-" in version


def test_nobody_enters_without_the_password(tidb: TidbServer) -> None:
    with pytest.raises(pymysql.err.OperationalError, match="1045"):
        tidb.connect(password="")


def test_it_keeps_schemas_apart(tidb: TidbServer, schema: SchemaFactory) -> None:
    name = schema(tidb)
    tidb.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"INSERT INTO {name}.t VALUES (1)")
    assert tidb.query(f"SELECT * FROM {name}.t") == ((1,),)


def test_a_kill_loses_nothing_that_was_acknowledged(own: TidbServer) -> None:
    own.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT)")
    for number in range(50):
        own.execute(f"INSERT INTO d.t VALUES ({number}, REPEAT('x', 1000))")
    own.kill()
    assert not own.running
    own.start()
    assert own.query("SELECT COUNT(*), SUM(LENGTH(v)) FROM d.t") == ((50, 50_000),)
    own.restart()
    assert own.query("SELECT COUNT(*) FROM d.t") == ((50,),)


def test_a_frozen_one_is_silent_and_goes_on(own: TidbServer) -> None:
    own.freeze()
    with pytest.raises(pymysql.err.OperationalError):
        own.connect(read_timeout=1, connect_timeout=1)
    own.thaw()
    assert own.query("SELECT 1") == ((1,),)


def test_settings_go_over_the_defaults(tmp_path: Path) -> None:
    with TidbServer(tmp_path / "tidb", new_collations_enabled_on_first_bootstrap=False) as old:
        ((enabled,),) = old.query("SELECT VARIABLE_VALUE FROM mysql.tidb WHERE VARIABLE_NAME = 'new_collation_enabled'")
        assert enabled == "False"


def test_it_takes_all_contrary_globals_of_a_mysql_but_those_that_it_refuses(own: TidbServer) -> None:
    assert OF_TIDB.keys() >= OF_MYSQL.keys() - NOT_OF_TIDB.keys()
    question = "SHOW GLOBAL VARIABLES"
    before = dict(own.query(question))
    with contrary(own, {**EVERYWHERE, **OF_TIDB}):
        with closing(own.connect()) as session, session.cursor() as cursor:
            cursor.execute("SET SESSION max_execution_time = 0, sql_select_limit = 18446744073709551615")
            cursor.execute("SET SESSION tidb_enable_external_ts_read = OFF")
            cursor.execute(question)
            now = dict(cursor.fetchall())
    same = {name for name in {**EVERYWHERE, **OF_TIDB} if now[name] == before[name]}
    assert same == set()
    assert dict(own.query(question)).items() >= {name: before[name] for name in {**EVERYWHERE, **OF_TIDB}}.items()
    for name, refused in NOT_OF_TIDB.items():
        with pytest.raises(pymysql.err.MySQLError, match=f"^.{refused}, "):
            own.execute(f"SET GLOBAL {name} = '{OF_MYSQL[name]}'")


def test_it_works_in_its_own_directory(own: TidbServer) -> None:
    """Where it works it makes a directory for what it writes when it runs out of memory."""
    assert Path(f"/proc/{own.pid}/cwd").resolve() == own.directory.resolve()


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    server = TidbServer(tmp_path / "tidb").start()
    server.destroy()
    assert list(tmp_path.iterdir()) == []
