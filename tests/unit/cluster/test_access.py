"""How etcd is named, and what is refused before it is asked."""

from __future__ import annotations

import fcntl
import resource
import socket
from http.client import HTTPConnection
from pathlib import Path

import pytest

from dm.clock import SystemClock
from dm.cluster.etcd import Etcd
from dm.cluster.etcd_access import EtcdAccess
from dm.errors import DMError


def test_several_endpoints() -> None:
    access = EtcdAccess.of("https://10.0.0.1:2379, https://etcd.example:2379/")
    assert access.endpoints == ("https://10.0.0.1:2379", "https://etcd.example:2379")


@pytest.mark.parametrize("text", ["", "etcd", "10.0.0.1:2379", "ftp://etcd:2379", "https://etcd", "https://etcd:port"])
def test_what_is_no_endpoint(text: str) -> None:
    with pytest.raises(DMError, match="is no endpoint of etcd"):
        EtcdAccess.of(text)


def test_passwords_go_to_another_host_with_tls_only() -> None:
    EtcdAccess.of("http://127.0.0.1:2379,http://localhost:2379,http://[::1]:2379").demand_private()
    EtcdAccess.of("https://10.0.0.1:2379").demand_private()
    with pytest.raises(DMError, match=r"http://10\.0\.0\.1:2379 has no TLS"):
        EtcdAccess.of("http://127.0.0.1:2379,http://10.0.0.1:2379").demand_private()


def test_a_name_that_looks_like_loopback_is_another_host() -> None:
    with pytest.raises(DMError, match="has no TLS"):
        EtcdAccess.of("http://127.example.com:2379").demand_private()


def test_a_certificate_without_a_ca_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "member.pem"
    file.write_text("a certificate")
    with pytest.raises(DMError, match="needs etcd's CA"):
        EtcdAccess.of("https://etcd:2379", (None, file, file)).context()


def test_a_user_has_a_password(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    access = EtcdAccess.of("https://etcd:2379", user="dm", password_file=file)
    assert access.password == "secret"
    assert "secret" not in repr(access)
    with pytest.raises(DMError, match="a name and a file with the password"):
        EtcdAccess.of("https://etcd:2379", user="dm")
    with pytest.raises(DMError, match="missing"):
        EtcdAccess.of("https://etcd:2379", user="dm", password_file=tmp_path / "missing")


def test_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing of that kind")
    with pytest.raises(DMError, match="the certificates for etcd can't be used"):
        EtcdAccess.of("https://etcd:2379", (file, None, None)).context()


def test_a_connection_is_used_again_whatever_the_number_of_its_descriptor() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    near, far = socket.socketpair()
    endpoint = "http://127.0.0.1:1"
    client, connection = Etcd(EtcdAccess((endpoint,)), SystemClock()), HTTPConnection("127.0.0.1", 1)
    with near, far, socket.socket(fileno=fcntl.fcntl(near, fcntl.F_DUPFD, 1100)) as high:
        connection.sock = high
        client._give_back(endpoint, connection)
        assert client._taken(endpoint, 1.0) is connection
        client._give_back(endpoint, connection)
        far.close()  # the other end is gone, so it is no use any more
        with pytest.raises(OSError, match="refused"):
            client._taken(endpoint, 1.0)
    client.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
