"""The `session` block of a source works with numbers and words, and never moves the clock from UTC."""

from __future__ import annotations

import secrets

import pytest
from pydantic import SecretStr

from dm.config.endpoint import Endpoint
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.upstream.connection import connect, fetch
from tests.testbed.sync import endpoint_of

pytestmark = pytest.mark.live


def test_numbers_and_words_are_set_and_utc_stays(upstream: ThrowawayServer) -> None:
    session = {"foreign_key_checks": "0", "net_read_timeout": "77", "sql_mode": "ANSI_QUOTES", "time_zone": "+05:00"}
    endpoint = endpoint_of(upstream).model_copy(update={"session": session})
    connection = connect(endpoint)
    try:
        names = "@@foreign_key_checks, @@net_read_timeout, @@sql_mode, @@time_zone"
        assert fetch(connection, f"SELECT {names}") == ((0, 77, "ANSI_QUOTES", "+00:00"),)
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
        assert "GRANT RELOAD ON *.*" in caught.value.workaround
    finally:
        connection.close()
