"""Connections without a CA are encrypted where the server can, and share what that takes; with one they verify."""

from __future__ import annotations

import base64
import json
import ssl

import pytest

from dm.config import Endpoint, read_source
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.sourcelog.upstream.connection import connect, fetch
from dm.tls import encrypting_only
from tests.testbed.fixtures import ServerFactory
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


def test_a_server_that_knows_tls_1_0_only_is_spoken_to_in_cipher(server: ServerFactory, mysql: ThrowawayServer) -> None:
    """A MySQL before 5.7.28 and a MariaDB before 10.4 may be built with yaSSL, which knows no TLS 1.2."""
    authority, certificate, key = (str(mysql.data / f"{name}.pem") for name in ("ca", "server-cert", "server-key"))
    old = server(
        "mariadb",
        tls_version="TLSv1.0",
        ssl_cipher="DEFAULT:@SECLEVEL=0",
        ssl_ca=authority,
        ssl_cert=certificate,
        ssl_key=key,
    )
    connection = connect(endpoint_of(old))
    try:
        assert fetch(connection, "SHOW STATUS LIKE 'Ssl_version'")[0][1] == "TLSv1"
    finally:
        connection.close()
    with TargetConnection(endpoint_of(old)) as target:
        assert target.query("SHOW STATUS LIKE 'Ssl_version'")[0][1] == "TLSv1"


def test_one_context_serves_all_and_looks_at_no_certificate() -> None:
    assert encrypting_only() is encrypting_only()
    assert encrypting_only().verify_mode == ssl.CERT_NONE
    assert not encrypting_only().check_hostname


def verified(server: ThrowawayServer, **security: object) -> Endpoint:
    """The server's login with a `security` block, through a file and the form on the pipe."""
    plain = endpoint_of(server)
    login = {"host": plain.host, "port": plain.port, "user": plain.user, "security": security}
    source = read_source(json.dumps({"source-id": "a", "from": login}), environ={})
    endpoint = type(source).from_wire(source.to_wire()).endpoint
    return endpoint.model_copy(update={"password": plain.password})


def common_name(server: ThrowawayServer) -> str:
    decoded = ssl._ssl._test_decode_cert(str(server.data / "server-cert.pem"))  # type: ignore[attr-defined]
    return str(next(value for part in decoded["subject"] for name, value in part if name == "commonName"))


def test_certificates_may_stand_in_the_file(mysql: ThrowawayServer) -> None:
    texts = {part: (mysql.data / f"{name}.pem").read_bytes() for part, name in PARTS.items()}
    names = [common_name(mysql)]
    for security in (
        {f"{part}-bytes": list(text) for part, text in texts.items()},
        {f"{part}-base64": base64.b64encode(text).decode() for part, text in texts.items()},
        {"ssl-ca": str(mysql.data / "ca.pem"), "ssl-cert-bytes": texts["ssl-cert"].decode(),
         "ssl-key": str(mysql.data / "client-key.pem")},
        {"ssl-ca": str(mysql.data / "ca.pem")},
    ):  # fmt: skip
        endpoint = verified(mysql, **security, **{"cert-allowed-cn": ["other", *names]})
        assert texts["ssl-key"].decode() not in repr(endpoint)
        connection = connect(endpoint)
        assert fetch(connection, "SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
        connection.close()
        with TargetConnection(endpoint) as target:
            assert target.query("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]


def test_a_server_of_another_name_or_another_ca_is_refused(mysql: ThrowawayServer) -> None:
    authority = str(mysql.data / "ca.pem")
    other = {"ssl-ca": authority, "cert-allowed-cn": ["db.example"]}
    unnamed = {"ssl-ca": authority}  # its certificate does not name the host
    foreign = {"ssl-ca": str(mysql.data / "client-cert.pem"), "cert-allowed-cn": [common_name(mysql)]}
    named = f"the name {mysql.host} is not in it; it is for common name {common_name(mysql)}.*`cert-allowed-cn`"
    for security, said in (
        (other, "`cert-allowed-cn` does not list it"),
        (unnamed, named),
        (foreign, "certif.*`ssl-ca` under `security`"),
    ):
        endpoint = verified(mysql, **security)
        with pytest.raises(DMError, match=said) as raised:
            connect(endpoint)
        assert raised.value.name == "certificate-refused"
        with pytest.raises(DMError, match=said):
            TargetConnection(endpoint)


PARTS = {"ssl-ca": "ca", "ssl-cert": "client-cert", "ssl-key": "client-key"}
