"""A target session: its fixed state, and what its errors mean."""

from __future__ import annotations

import secrets
import threading
from contextlib import closing

import pymysql
import pytest
from pydantic import SecretStr

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.live.changes.tables import endpoint_of
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.proxy import FaultProxy

pytestmark = pytest.mark.live


def _error(connection: TargetConnection, sql: str) -> DMError:
    with pytest.raises(DMError) as caught:
        connection.execute(sql)
    return caught.value


def test_the_session_does_not_depend_on_the_servers_defaults(server: ServerFactory, target: ThrowawayServer) -> None:
    odd = server(
        target.flavor,
        sql_mode="NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH",
        default_time_zone="+05:00",
        transaction_isolation="SERIALIZABLE",
        character_set_server="latin1",
        autocommit=False,
    )
    isolation = "@@tx_isolation" if target.flavor == "mariadb" else "@@transaction_isolation"
    wanted = (
        "SELECT @@sql_mode, @@time_zone, @@autocommit, @@unique_checks, @@foreign_key_checks, @@character_set_client,"
        f" @@collation_connection, {isolation}"
    )
    modes = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"
    with TargetConnection(endpoint_of(odd)) as connection:
        ((sql_mode, *rest),) = connection.query(wanted)
        assert sorted(sql_mode.split(",")) == sorted(modes.split(","))
        assert rest == ["+00:00", 1, 1, 0, "utf8mb4", "utf8mb4_general_ci", "READ-COMMITTED"]
        assert connection.flavor == odd.flavor
        assert connection.version // 10000 == (9 if odd.flavor == "mysql" else 10)
        assert connection.query("SELECT CONNECTION_ID()") == [(connection.connection_id,)]
        recorded = connection.settings()
        assert recorded["sql_mode"] == sql_mode
        assert recorded[isolation.removeprefix("@@")] == "READ-COMMITTED"
        told = [recorded[name] for name in ("time_zone", "unique_checks", "foreign_key_checks", "character_set_client")]
        assert told == ["+00:00", "ON", "OFF", "utf8mb4"]


def test_the_users_session_block_comes_on_top_but_not_over_exactness(target: ThrowawayServer) -> None:
    endpoint = endpoint_of(
        target,
        sql_mode="ansi_quotes,no_zero_date,no_backslash_escapes",
        time_zone="+09:00",
        net_read_timeout="77",
        lc_messages="de_DE",
    )
    with TargetConnection(endpoint, foreign_key_checks=True) as connection:
        ((mode, zone, timeout, messages, checks),) = connection.query(
            "SELECT @@sql_mode, @@time_zone, @@net_read_timeout, @@lc_messages, @@foreign_key_checks"
        )
        assert set(mode.split(",")) == {"NO_ZERO_DATE", "NO_AUTO_VALUE_ON_ZERO"}
        assert (zone, timeout, messages, checks) == ("+00:00", 77, "de_DE", 1)


def test_a_row_that_was_so_already_is_told_from_a_missing_one(target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(target)
    with TargetConnection(endpoint_of(target)) as connection:
        connection.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
        connection.execute(f"INSERT INTO {name}.t VALUES (%s, %s), (2, 2)", (1, 1))
        same = connection.run(f"UPDATE {name}.t SET v = 1 WHERE id = 1")
        missing = connection.run(f"UPDATE {name}.t SET v = 1 WHERE id = 3")
        changed = connection.run(f"UPDATE {name}.t SET v = v + 5")
        assert [(o.affected, o.matched) for o in (same, missing, changed)] == [(0, 1), (0, 0), (2, 2)]


def test_statements_that_fail_are_named_without_their_rows(target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(target)
    with TargetConnection(endpoint_of(target)) as connection:
        connection.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(6))")
        connection.execute(f"INSERT INTO {name}.t VALUES (1, 'a')")
        duplicate = _error(connection, f"INSERT INTO {name}.t (id, v) VALUES (1, 'canary')")
        assert (duplicate.name, duplicate.retryable) == ("duplicate-key", False)
        assert f"INSERT INTO {name}.t (id, v) VALUES (?, ?)" in duplicate.message
        too_long = _error(connection, f"UPDATE {name}.t SET v = 'a canary' WHERE id = 1")
        assert too_long.name == "row-value-refused"
        assert "canary" not in str(too_long)
        assert _error(connection, "SELECT * FROM no_such_schema.t").name == "query-failed"


def test_a_deadlock_and_a_lock_wait_may_be_tried_again(target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(target)
    with TargetConnection(endpoint_of(target)) as one, TargetConnection(endpoint_of(target)) as two:
        one.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
        one.execute(f"INSERT INTO {name}.t VALUES (1, 1), (2, 2)")
        two.execute("SET SESSION innodb_lock_wait_timeout = 1")
        for connection, row in ((one, 1), (two, 2)):
            connection.begin()
            connection.execute(f"UPDATE {name}.t SET v = 9 WHERE id = {row}")
        wait = _error(two, f"UPDATE {name}.t SET v = 8 WHERE id = 1")
        assert (wait.name, wait.retryable, wait.details["reason"]) == ("transaction-aborted", True, "lock wait timeout")

        two.execute("SET SESSION innodb_lock_wait_timeout = 50")
        failed: list[DMError] = []

        def cross(connection: TargetConnection, row: int) -> None:
            try:
                connection.execute(f"UPDATE {name}.t SET v = 8 WHERE id = {row}")
            except DMError as error:
                failed.append(error)
            connection.rollback()

        other = threading.Thread(target=cross, args=(one, 2))
        other.start()
        cross(two, 1)
        other.join()
        assert [(error.name, error.details["reason"]) for error in failed] == [("transaction-aborted", "deadlock")]


def test_a_read_only_target_heals_by_itself(server: ServerFactory, target: ThrowawayServer) -> None:
    own = server(target.flavor)
    own.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    own.create_user("writer", "secret-canary", "SELECT, INSERT ON d.*")
    own.execute("SET GLOBAL read_only = 1")
    endpoint = endpoint_of(own).model_copy(
        update={"user": "writer", "password": type(endpoint_of(own).password)("secret-canary")}
    )
    with TargetConnection(endpoint) as connection:
        error = _error(connection, "INSERT INTO d.t VALUES (1)")
        assert (error.name, error.retryable) == ("target-unavailable", True)
        denied = _error(connection, "DROP TABLE d.t")
        assert denied.name in ("privilege-missing", "target-unavailable")
    own.execute("SET GLOBAL read_only = 0")
    with TargetConnection(endpoint) as connection:
        denied = _error(connection, "DROP TABLE d.t")
        assert (denied.name, denied.retryable) == ("privilege-missing", False)
        assert "the privilege DROP on" in denied.message


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO `{}`.`t` VALUES (1)",
        "ALTER TABLE {}.t ADD COLUMN v INT",
        "CREATE TABLE `{}`.`other` (id INT)",
        "CREATE TABLE `{}`.`other` (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES `absent` (id))",
        "SELECT id FROM `{}`.`t` FOR UPDATE",
        "DROP TABLE {}.t",
        "DROP DATABASE `{}`",
        "CREATE DATABASE `{}_more`",
        "USE `{}`",
    ],
)
def test_the_grant_that_an_error_tells_is_the_one_that_helps(
    statement: str, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    where = schema(target)
    target.execute(f"CREATE TABLE {where}.t (id INT PRIMARY KEY)")
    user, password = f"u{secrets.token_hex(4)}", secrets.token_hex(8)
    target.create_user(user, password)
    endpoint = endpoint_of(target).model_copy(update={"user": user, "password": SecretStr(password)})
    sql, refused = statement.format(where), []
    for _ in range(3):  # a server names one privilege at a time
        with TargetConnection(endpoint, foreign_key_checks=False) as connection:
            try:
                connection.execute(sql)
                break
            except DMError as error:
                refused.append((error.name, connection.query("SELECT 1")))
                target.execute(str(error.details["grant"]))
    else:
        pytest.fail("the privileges that were named do not suffice")
    assert refused == [("privilege-missing", [(1,)])] * len(refused)  # the next answer is that of the next statement
    assert refused
    target.execute(f"DROP DATABASE IF EXISTS `{where}_more`")


def test_a_wrong_password_is_refused_without_naming_it(target: ThrowawayServer) -> None:
    endpoint = endpoint_of(target)
    wrong = endpoint.model_copy(update={"password": type(endpoint.password)("secret-canary")})
    with pytest.raises(DMError) as caught:
        TargetConnection(wrong)
    assert caught.value.name == "access-denied"
    assert "canary" not in str(caught.value)
    assert target.user in str(caught.value)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(("packet", "buffer"), [(1 << 20, 1 << 14), (1 << 25, 1 << 14), (1 << 11, 1 << 13)])
def test_a_statement_is_sent_where_the_server_takes_it_to_the_byte(
    flavor: Flavor, server: ServerFactory, packet: int, buffer: int
) -> None:
    own = server(flavor, max_allowed_packet=packet, net_buffer_length=buffer)
    most = max(packet, buffer) - 2

    def of(length: int) -> bytes:
        return b"DO LENGTH('" + b"x" * (length - len(b"DO LENGTH('')")) + b"')"

    with TargetConnection(endpoint_of(own)) as connection:
        connection.execute(of(most))
        with pytest.raises(DMError) as caught:
            connection.run_all([of(most + 1)], [])
        assert (caught.value.name, caught.value.retryable) == ("packet-too-large", False)
        assert f"{most + 1} bytes" in caught.value.message
        assert str(packet) in caught.value.cause
        assert connection.query("SELECT 1") == [(1,)]
    # Why it was not sent: the server does not take it.
    with closing(own.connect()) as bare, pytest.raises(pymysql.err.OperationalError):
        bare.query(of(most + 1))


def test_an_unreachable_target_is_worth_another_try(target: ThrowawayServer) -> None:
    endpoint = endpoint_of(target).model_copy(update={"port": 1})
    with pytest.raises(DMError) as caught:
        TargetConnection(endpoint)
    assert (caught.value.name, caught.value.retryable) == ("connection-failed", True)


def test_a_killed_session_is_lost_and_stays_lost(target: ThrowawayServer) -> None:
    with TargetConnection(endpoint_of(target)) as killer, TargetConnection(endpoint_of(target)) as victim:
        killer.kill(victim.connection_id)
        error = _error(victim, "SELECT 1")
        assert (error.name, error.retryable) == ("connection-lost", True)
        assert not victim.alive
        assert _error(victim, "SELECT 1").name == "connection-lost"
        victim.rollback()
        killer.kill(victim.connection_id)


def test_an_aborted_session_wakes_its_thread(target: ThrowawayServer) -> None:
    with TargetConnection(endpoint_of(target)) as connection:
        errors: list[DMError] = []
        started = threading.Event()

        def wait() -> None:
            started.set()
            errors.append(_error(connection, "SELECT SLEEP(100)"))

        thread = threading.Thread(target=wait)
        thread.start()
        started.wait()
        connection.abort()
        thread.join()
        assert [error.name for error in errors] == ["connection-lost"]


def test_a_commit_without_an_answer_has_an_unknown_outcome(target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(target)
    target.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    with FaultProxy(target.host, target.port) as proxy:
        endpoint = endpoint_of(target).model_copy(update={"port": proxy.port})
        connection = TargetConnection(endpoint)
        connection.begin()
        connection.execute(f"INSERT INTO {name}.t VALUES (1)")
        proxy.truncate(0, "down")
        with pytest.raises(DMError) as caught:
            connection.commit()
        assert (caught.value.name, caught.value.retryable) == ("commit-outcome-unknown", True)
        connection.close()


def test_many_matched_rows_are_not_taken_for_the_length_of_their_message(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(target)
    with TargetConnection(endpoint_of(target)) as connection:
        connection.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
        values = ", ".join(f"({number}, 0)" for number in range(10_000))
        connection.execute(f"INSERT INTO {name}.t VALUES {values}")
        assert connection.run(f"UPDATE {name}.t SET v = 1").matched == 10_000


@pytest.mark.parametrize("several", [True, False])
def test_scripts_are_sent_as_the_session_takes_them(target: ThrowawayServer, several: bool) -> None:
    with TargetConnection(endpoint_of(target), several=several) as connection:
        connection.run_scripts([b"SET @a = 1", b"SET @b = @a + 1", b"SELECT @b"])
        assert connection.query("SELECT @b") == [(2,)]
