"""A daemon as a member of a cluster: what its options must say, how it joins and leaves.

It joins before it listens, and leaves after its units rest: then its lease is given up, and others take its sources
over at once.
"""

from __future__ import annotations

import argparse
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from dm.clock import Clock
from dm.cluster.etcd_access import EtcdAccess
from dm.cluster.membership import ClusterOptions, Membership
from dm.errors import DMError
from dm.worker.home import Home
from dm.worker.installed import installed_version
from dm.worker.registry import Registry
from dm.worker.shared_registry import SharedRegistry

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HINT: Final = "dm-worker --cluster https://etcd:2379 --listen 10.0.0.1:8262 --ssl-cert F --ssl-key F --ssl-ca F"


def cluster_options(
    options: argparse.Namespace, listen: tuple[str, int] | None, *, encrypted: bool
) -> ClusterOptions | None:
    """What a member is told; None for a single host. Raises DMError."""
    if options.cluster is None:
        given = [name for name in ("name", "advertise_addr", "labels", "cluster_user") if getattr(options, name)]
        if given:
            _refuse(f"--{given[0].replace('_', '-')} is of a member of a cluster, and --cluster is not given")
        return None
    if listen is None:
        _refuse("members ask each other, so a member listens at a port: --listen is not given")
    if encrypted and options.ssl_ca is None:
        _refuse("members compare each other's certificates with a CA: --ssl-ca is not given")
    name = options.name or socket.gethostname()
    if _NAME.fullmatch(name) is None:
        _refuse(f"--name {name!r} has other characters than letters, digits, dots, dashes and underscores")
    host, port = listen
    address = options.advertise_addr or (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    if options.advertise_addr is None and (host in ("0.0.0.0", "::") or port == 0):
        _refuse(f"no other member reaches {address}: --advertise-addr is not given")
    return ClusterOptions(
        access_of(options), cluster_prefix(options.cluster_prefix), name, address, _labels(options.labels)
    )


def access_of(options: argparse.Namespace) -> EtcdAccess:
    """How etcd is reached; raises DMError."""
    files = (options.cluster_ca, options.cluster_cert, options.cluster_key)
    access = EtcdAccess.of(options.cluster, files, options.cluster_user, options.cluster_password_file)
    access.demand_private()
    return access


def cluster_prefix(text: str) -> str:
    """A prefix that ends with a slash, so that none is the beginning of another one."""
    return text if text.endswith("/") else f"{text}/"


def _labels(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, equal, value = each.partition("=")
        if not equal or not name or not value or name in found:
            _refuse(f"--labels {text!r} is no list of NAME=VALUE, each name once")
        found[name] = value
    return found


def _refuse(problem: str) -> NoReturn:
    raise DMError("usage", problem=problem, hint=_HINT)


@contextmanager
def joined_cluster(options: ClusterOptions, home: Home, clock: Clock) -> Iterator[Membership]:
    """Be a member until the end; raises DMError."""
    membership = Membership(options, home.cluster_mark, installed_version(), clock)
    try:
        if not membership.is_known and (sources := _sources_of(home.registry)):
            raise DMError("home-of-single-host", home=home.directory, sources=", ".join(sources))
        membership.join()
        yield membership
    finally:
        membership.leave()


def _sources_of(path: Path) -> list[str]:
    """The sources in the registry of a single host."""
    if not path.exists():
        return []
    registry = Registry(path)
    try:
        return sorted(registry.sources())
    finally:
        registry.close()


def shared_registry(membership: Membership, home: Home) -> Registry:
    """The registry of the cluster that was joined."""
    return SharedRegistry(home.cluster_copy, membership.mirror, membership.demand_owned)
