"""The `session` block of a source works with numbers and words, and never moves the clock from UTC."""

from __future__ import annotations

import secrets
import threading
from contextlib import closing

import pytest
from pydantic import SecretStr

from dm.config.endpoint import Endpoint
from dm.demo.servers import ThrowawayServer
from dm.dumpfiles.text_rows import read_all
from dm.errors import DMError
from dm.sourcelog.upstream.connection import connect, fetch
from dm.sourcelog.upstream.facts import row_session
from dm.sourcelog.upstream.snapshot import wait_for_no_prepared_xa
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of

pytestmark = pytest.mark.live


def test_numbers_and_words_are_set_and_utc_stays(upstream: ThrowawayServer) -> None:
    session = {"foreign_key_checks": "0", "net_read_timeout": "77", "sql_mode": "ANSI_QUOTES", "time_zone": "+05:00"}
    endpoint = endpoint_of(upstream).model_copy(update={"session": session})
    connection = connect(endpoint)
    try:
        names = "@@foreign_key_checks, @@net_read_timeout, @@sql_mode, @@time_zone"
        assert fetch(connection, f"SELECT {names}") == ((0, 77, "ALLOW_INVALID_DATES", "+00:00"),)
    finally:
        connection.close()


def test_a_lock_without_its_privilege_is_no_matter_of_the_password(upstream: ThrowawayServer) -> None:
    name, password = f"u{secrets.token_hex(4)}", secrets.token_hex(8)
    upstream.create_user(name, password)
    connection = connect(Endpoint(host=upstream.host, port=upstream.port, user=name, password=SecretStr(password)))
    try:
        with pytest.raises(DMError) as caught:
            fetch(connection, "FLUSH TABLES WITH READ LOCK")
        assert caught.value.name == "privilege-missing"
        assert "the privilege RELOAD" in caught.value.message
        assert f"(GRANT RELOAD ON *.* TO '{name}'@'%')" in caught.value.workaround
    finally:
        connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM `{}`.`t`",
        "SELECT * FROM {}.t AS other",
        "SHOW CREATE TABLE `{}`.`t`",
        "SHOW CREATE DATABASE `{}`",
        "LOCK TABLES `{}`.`t` READ",
        "SHOW BINARY LOGS",
        "FLUSH TABLES WITH READ LOCK",
    ],
)
def test_the_grant_that_an_error_tells_is_the_one_that_helps(
    statement: str, upstream: ThrowawayServer, schema: SchemaFactory
) -> None:
    where = schema(upstream)
    upstream.execute(f"CREATE TABLE {where}.t (id INT PRIMARY KEY)")
    name, password = f"u'{secrets.token_hex(4)}", secrets.token_hex(8)
    upstream.create_user(name, password)
    endpoint = Endpoint(host=upstream.host, port=upstream.port, user=name, password=SecretStr(password))
    sql = statement.format(where)
    for _ in range(3):  # a server names one privilege at a time
        with closing(connect(endpoint)) as connection:
            try:
                fetch(connection, sql)
                return
            except DMError as error:
                upstream.execute(str(error.details["grant"]))
    pytest.fail("the privileges that were named do not suffice")


def test_who_may_not_ask_for_prepared_transactions_is_told_the_grant(mysql: ThrowawayServer) -> None:
    name, password = f"u{secrets.token_hex(4)}", secrets.token_hex(8)
    mysql.create_user(name, password)
    endpoint = Endpoint(host=mysql.host, port=mysql.port, user=name, password=SecretStr(password))
    with closing(connect(endpoint)) as connection, pytest.raises(DMError) as caught:
        wait_for_no_prepared_xa(connection, name, threading.Event())
    assert caught.value.name == "dump-xa-unknown"
    mysql.execute(str(caught.value.details["grant"]))
    with closing(connect(endpoint)) as connection:
        wait_for_no_prepared_xa(connection, name, threading.Event())


def test_rows_that_may_not_be_read_are_told_with_the_grant(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    where = schema(upstream)
    upstream.execute(f"CREATE TABLE {where}.t (id INT PRIMARY KEY)", f"INSERT INTO {where}.t VALUES (7)")
    name, password = f"u{secrets.token_hex(4)}", secrets.token_hex(8)
    upstream.create_user(name, password)
    endpoint = Endpoint(host=upstream.host, port=upstream.port, user=name, password=SecretStr(password))
    with closing(row_session(endpoint)) as connection, pytest.raises(DMError) as caught:
        read_all(connection, f"SELECT id FROM `{where}`.`t`")
    upstream.execute(str(caught.value.details["grant"]))
    with closing(row_session(endpoint)) as connection:
        assert read_all(connection, f"SELECT id FROM `{where}`.`t`") == [(b"7",)]
