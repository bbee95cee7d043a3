"""Connections without a CA are encrypted where the server can, and share what that takes."""

from __future__ import annotations

import ssl

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.tls import encrypting_only
from dm.upstream.connection import connect, fetch
from tests.testbed.sync import endpoint_of

pytestmark = pytest.mark.live


def test_a_server_with_a_certificate_of_its_own_is_spoken_to_in_cipher(mysql: ThrowawayServer) -> None:
    connection = connect(endpoint_of(mysql))
    try:
        assert fetch(connection, "SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
    finally:
        connection.close()
    with TargetConnection(endpoint_of(mysql)) as target:
        assert target.query("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]


def test_one_context_serves_all_and_looks_at_no_certificate() -> None:
    assert encrypting_only() is encrypting_only()
    assert encrypting_only().verify_mode == ssl.CERT_NONE
    assert not encrypting_only().check_hostname
