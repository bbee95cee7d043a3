"""Options of a member that are refused before anything is asked."""

from __future__ import annotations

import pytest

from dm.cluster.membership import ClusterOptions
from dm.errors import DMError
from dm.worker.daemon import listen_address
from dm.worker.options import parser
from dm.worker.several_hosts import cluster_options

ETCD = ("--cluster", "https://10.0.0.1:2379")


def read(*arguments: str, encrypted: bool = False) -> ClusterOptions | None:
    options = parser().parse_args(arguments)
    listen = listen_address(options.listen, encrypted=encrypted) if options.listen else None
    return cluster_options(options, listen, encrypted=encrypted)


def test_without_an_etcd_it_is_a_single_host() -> None:
    assert read("--listen", "127.0.0.1:8262") is None


def test_what_a_member_is_told() -> None:
    options = read(
        *ETCD, "--listen", "0.0.0.0:8262", "--ssl-ca", "ca.pem", "--name", "db-1", "--advertise-addr", "db-1.lan:8262",
        "--labels", "zone=a, disk=ssd", "--cluster-prefix", "/team", encrypted=True,
    )  # fmt: skip
    assert options is not None
    assert (options.name, options.address, options.prefix) == ("db-1", "db-1.lan:8262", "/team/")
    assert options.labels == {"zone": "a", "disk": "ssd"}


@pytest.mark.parametrize(
    ("arguments", "encrypted", "problem"),
    [
        (("--name", "a"), False, "--name is of a member of a cluster"),
        (ETCD, False, "--listen is not given"),
        ((*ETCD, "--listen", "10.0.0.2:8262"), True, "--ssl-ca is not given"),
        ((*ETCD, "--listen", "127.0.0.1:0"), False, "no other member reaches"),
        ((*ETCD, "--listen", "0.0.0.0:8262", "--ssl-ca", "f"), True, "--advertise-addr is not given"),
        ((*ETCD, "--listen", "127.0.0.1:8262", "--name", "a/b"), False, "other characters than"),
        ((*ETCD, "--listen", "127.0.0.1:8262", "--labels", "zone"), False, "no list of NAME=VALUE"),
        ((*ETCD, "--listen", "127.0.0.1:8262", "--labels", "a=1,a=2"), False, "each name once"),
        (("--cluster", "http://10.0.0.1:2379", "--listen", "127.0.0.1:8262"), False, "has no TLS"),
        (("--cluster", "etcd", "--listen", "127.0.0.1:8262"), False, "no endpoint of etcd"),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], encrypted: bool, problem: str) -> None:
    with pytest.raises(DMError, match=problem):
        read(*arguments, encrypted=encrypted)
