"""The `session` block of a source works with numbers and words, and never moves the clock from UTC."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
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
