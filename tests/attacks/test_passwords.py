"""A server that is not the one that was meant learns no password, and no password is in a text, whatever is in it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from dm.config.endpoint import Endpoint, Security
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.session.login import unproven
from dm.sourcelog.upstream.connection import connect
from tests.testbed.thief import METHODS, Method, PasswordThief, another_key, certificate

PASSWORD = "Pässwört-Ключ-密-🔑"
SIDES: dict[str, Callable[[Endpoint], Any]] = {"source": connect, "target": TargetConnection}


def endpoint(port: int, security: Security | None = None, *, user: str = "dm", password: str = PASSWORD) -> Endpoint:
    return Endpoint(host="127.0.0.1", port=port, user=user, password=SecretStr(password), security=security)


def refused(side: str, at: Endpoint) -> DMError:
    """The error of a login, in none of whose texts the password is."""
    with pytest.raises(DMError) as raised:
        SIDES[side](at)
    error = raised.value
    texts = [str(error), repr(error.details), *traceback.format_exception(error), repr(error.__cause__)]
    for part in (PASSWORD, repr(PASSWORD)[1:-1], ascii(PASSWORD)[1:-1], PASSWORD.encode("unicode_escape").decode()):
        assert not any(part in text for text in texts), texts
    return error


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("method", METHODS)
def test_no_method_tells_it_without_tls(side: str, method: Method) -> None:
    with PasswordThief(method) as thief:
        error = refused(side, endpoint(thief.port))
    assert error.name == "login-unsafe"
    assert not error.retryable
    assert error.workaround
    assert thief.told == []
    assert not any(PASSWORD.encode() in packet for packet in thief.heard)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("method", ["clear", "dialog", "old", "older"])
def test_none_tells_it_inside_tls_that_anyone_could_offer(side: str, method: Method, tmp_path: Path) -> None:
    with PasswordThief(method, tmp_path) as thief:
        assert refused(side, endpoint(thief.port)).name == "login-unsafe"
    assert thief.told == []


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("method", METHODS)
def test_a_server_that_no_ca_has_signed_is_told_nothing(side: str, method: Method, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    authority = certificate(other, another_key())[0].read_text()  # of the same name, and yet not what signed it
    with PasswordThief(method, tmp_path) as thief:
        error = refused(side, endpoint(thief.port, Security(ssl_ca_bytes=SecretStr(authority))))
    assert error.name == "certificate-refused"
    assert not any(PASSWORD.encode() in packet for packet in thief.heard)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("method", ["sha2", "sha2-switch", "sha256", "sha256-switch"])
def test_the_servers_own_key_is_taken_where_the_file_says_so(side: str, method: Method) -> None:
    """It is read as UTF-8; and the thief is one: it would read what is sent."""
    with PasswordThief(method) as thief:
        refused(side, endpoint(thief.port, Security(get_server_public_key=True)))
    assert PASSWORD.encode() + b"\0" in thief.heard


def test_what_a_server_without_a_proof_could_ask_for_is_told_by_check_task() -> None:
    at = endpoint(3306)
    there = at.model_copy(update={"host": "db.example"})
    assert unproven(there)
    assert unproven(there.model_copy(update={"security": Security(get_server_public_key=True)}))
    assert not unproven(there.model_copy(update={"security": Security(ssl_ca_bytes=SecretStr("-----BEGIN "))}))
    assert not unproven(there.model_copy(update={"password": SecretStr("")}))
    assert not any(unproven(at.model_copy(update={"host": host})) for host in ("127.0.0.1", "::1", "localhost"))


@pytest.mark.live
@pytest.mark.parametrize("side", SIDES)
def test_a_password_beyond_latin_1_logs_in_and_a_wrong_one_is_not_shown(upstream: ThrowawayServer, side: str) -> None:
    name = f"beyond_{side}"
    upstream.execute(f"DROP USER IF EXISTS {name}")
    upstream.create_user(name, PASSWORD, "ALL ON *.*")
    try:
        SIDES[side](endpoint(upstream.port, user=name)).close()
        upstream.execute(f"ALTER USER {name} IDENTIFIED BY 'another'")
        assert refused(side, endpoint(upstream.port, user=name)).name == "access-denied"
        for unfit in ("half a pair \ud800", "a\0b"):
            error = refused(side, endpoint(upstream.port, user=name, password=unfit))
            assert error.name == "access-denied"
            assert unfit not in str(error)
    finally:
        upstream.execute(f"DROP USER {name}")
