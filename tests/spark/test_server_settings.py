"""What a server is set to changes nothing of what is dumped and loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from dm.config.endpoint import Endpoint
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.session.state import sql_mode
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, beside, endpoint, follow, rows
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark]

MANY = 5000
TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, KEY v (v))",
    "CREATE TABLE other (id INT PRIMARY KEY, v INT, KEY v (v))",
    "CREATE TABLE keyless (id INT, t TEXT)",
    "CREATE TABLE digits (d INT)",
    "INSERT INTO digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)",
    "INSERT INTO keyless SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d, REPEAT('x', 40)"
    f" FROM digits a, digits b, digits c, digits e WHERE e.d < {MANY // 1000}",
    "INSERT INTO keyed SELECT id, id FROM keyless",
    *(f"CREATE TABLE small_{number} (id INT PRIMARY KEY)" for number in range(40)),
)


@contextmanager
def set_to(server: ThrowawayServer, name: str, value: object) -> Iterator[None]:
    """The server with another global value of a variable."""
    ((before,),) = rows(server, f"SELECT @@GLOBAL.{name}")
    server.execute(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL {name} = {before}")


def assert_same(load: FullLoad) -> None:
    report = load.report()
    assert report.identical, str(report)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("dump_files", ["all", pytest.param("none", marks=pytest.mark.chaos)])
def test_no_answer_ends_before_its_last_row(
    dump_files: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, *TABLES, rows=1000, dump_files=dump_files, defer_indexes=True)
    with set_to(upstream, "sql_select_limit", 10), set_to(target, "sql_select_limit", 1):
        load.dump()
        load.load()
    assert_same(load)
    follow(load)


@pytest.mark.ci_flavor("mariadb")
def test_data_goes_in_packets_that_the_target_admits(upstream: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(upstream, upstream, *TABLES)
    load.dump()
    with set_to(upstream, "max_allowed_packet", 32768), set_to(upstream, "local_infile", 1):
        load.load()
    assert_same(load)


WAYS = [
    pytest.param(0, {}, id="insert"),
    pytest.param(1, {}, id="local"),
    pytest.param(0, {"dump_format": "sql"}, id="sql"),
    pytest.param(0, {"dump_files": "none"}, id="stream"),
]
WAITING = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"  # INNODB_TRX stays as it is while it is polled
COUNT = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = "


def prepare(load: FullLoad) -> str:
    """Bring two rows up to the point where they are written; gives their table, in which some are already."""
    if load.settings.get("dump_files") != "none":
        load.dump()
    table = f"`{load.target_schema}`.keyed"
    load.target.execute(
        f"CREATE DATABASE `{load.target_schema}`",
        f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, KEY v (v))",
        f"INSERT INTO {table} VALUES (1, 0), (2, 0)",
        f"INSERT INTO {table} SELECT seq, 0 FROM mysql.seq_10_to_500",
    )
    return table


def write(load: FullLoad) -> None:
    """Write what was prepared, at the first attempt of the unit."""
    if load.settings.get("dump_files") == "none":
        load.dump()
    assert load.load().status()["finishedRows"] == "2"


@pytest.mark.parametrize(("local_infile", "settings"), WAYS)
def test_a_part_that_loses_a_deadlock_is_loaded_again(
    local_infile: int, settings: dict[str, str], mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, TABLES[0], "INSERT INTO keyed VALUES (1, 1), (2, 2)", **settings)
    table = prepare(load)
    before = rows(mariadb, f"{COUNT} 'lock_deadlocks'")
    with set_to(mariadb, "local_infile", local_infile), closing(mariadb.connect()) as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"DELETE FROM {table} WHERE id >= 10")  # who has done more is not who has to give way
        cursor.execute(f"UPDATE {table} SET v = 5 WHERE id = 2")

        def meet() -> None:
            wait_until(lambda: rows(mariadb, WAITING)[0][1] == "1", "the load has row 1 and waits for row 2")
            cursor.execute(f"UPDATE {table} SET v = 5 WHERE id = 1")
            other.commit()

        with beside(meet):
            write(load)
    assert rows(mariadb, f"{COUNT} 'lock_deadlocks'") > before
    assert_same(load)


@pytest.mark.ci_sample(2)
@pytest.mark.parametrize(("local_infile", "settings"), WAYS)
def test_a_part_that_waited_in_vain_for_a_lock_is_loaded_again(
    local_infile: int, settings: dict[str, str], mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, TABLES[0], "INSERT INTO keyed VALUES (1, 1), (2, 2)", **settings)
    table = prepare(load)
    before = rows(mariadb, f"{COUNT} 'lock_timeouts'")
    with (
        set_to(mariadb, "local_infile", local_infile),
        set_to(mariadb, "innodb_lock_wait_timeout", 1),
        closing(mariadb.connect()) as other,
        other.cursor() as cursor,
    ):
        cursor.execute("BEGIN")
        cursor.execute(f"DELETE FROM {table} WHERE id >= 2")

        def let_go() -> None:
            wait_until(lambda: rows(mariadb, f"{COUNT} 'lock_timeouts'") > before, "the load has waited in vain")
            other.commit()

        with beside(let_go):
            write(load)
    assert_same(load)


def test_timestamps_without_a_default_stay_so(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(
        upstream, target, "CREATE TABLE t (id INT PRIMARY KEY, a TIMESTAMP NOT NULL, b TIMESTAMP NOT NULL)"
    )
    load.dump()
    with set_to(target, "explicit_defaults_for_timestamp", 0):
        load.load()
    assert "CURRENT_TIMESTAMP" not in rows(target, f"SHOW CREATE TABLE `{load.target_schema}`.t")[0][1]
    assert_same(load)


def test_a_session_block_can_not_change_how_names_are_quoted(target: ThrowawayServer) -> None:
    wanted = "ANSI_QUOTES,NO_ZERO_DATE,ANSI,ORACLE"
    assert sql_mode(wanted) == "NO_ZERO_DATE,NO_AUTO_VALUE_ON_ZERO"
    block = {"sql_mode": wanted, "sql_select_limit": "1", "completion_type": "2"}
    asked = Endpoint.model_validate(endpoint(target).model_copy(update={"session": block}))
    with TargetConnection(asked) as connection:
        connection.begin()
        connection.commit()
        assert len(connection.query("SELECT 1 UNION SELECT 2")) == 2
