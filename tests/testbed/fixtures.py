"""Fixtures of the test bed. A flavour that is not installed makes its tests fail, never skip.

mysql, mariadb      shared servers of the session
flavor              both flavours, one after the other
twin                the compiled parts and, where they have twins, Python alone: what uses it runs twice
newer               the usual server of the current flavour, where DM_MARIADB or DM_MYSQL has made the others older
upstream, target    shared servers of the current flavour; `upstreams` are two, `upstream` is the first of them
tidb                the shared TiDB of the session; tests that use it are marked `tidb`
own_tidb            a TiDB that the test may kill
etcd                the shared etcd of the session, without TLS; each test takes a prefix of its own
own_etcd            an etcd that the test may kill or empty
server              factory of servers that the test may kill: server(flavor, gtid=False, binlog_row_metadata="FULL")
schema              factory of fresh schemas: schema(upstream, target) creates one name on all these servers
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from dm.demo.installation import find, usual
from dm.demo.private_server import PrivateServer
from dm.demo.servers import Option, ThrowawayServer
from dm.ident import Ident
from dm.mysql.dialect import FLAVORS, Flavor
from tests.testbed.decoders import compiled, running
from tests.testbed.etcd import EtcdServer
from tests.testbed.park import ServerPark
from tests.testbed.s3 import S3Server
from tests.testbed.tidb import TidbServer


class ServerFactory(Protocol):
    """Starts a server of the test's own."""

    def __call__(
        self, flavor: Flavor, *, gtid: bool = True, start: bool = True, **options: Option
    ) -> ThrowawayServer: ...


class SchemaFactory(Protocol):
    """Creates a schema of one fresh name on servers."""

    def __call__(self, *servers: PrivateServer, prefix: str = "t") -> str: ...


@pytest.fixture(scope="session")
def park(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerPark]:
    servers = ServerPark(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def mysql(park: ServerPark) -> ThrowawayServer:
    return park.shared("mysql", "upstream-1")


@pytest.fixture(scope="session")
def mariadb(park: ServerPark) -> ThrowawayServer:
    return park.shared("mariadb", "upstream-1")


@pytest.fixture(scope="session")
def tidb(park: ServerPark) -> TidbServer:
    return park.tidb()


@pytest.fixture
def own_tidb(tmp_path: Path) -> Iterator[TidbServer]:
    server = TidbServer(tmp_path / "tidb")
    yield server.start()
    server.destroy()


# Of a module, because hypothesis takes the fixtures of a function for ones that each example would need anew.
@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server for all tests of this process; each takes a prefix of its own."""
    server = S3Server(tmp_path_factory.mktemp("s3")).start()
    yield server
    server.stop()


@pytest.fixture(params=["python", "compiled"], scope="module")
def twin(request: pytest.FixtureRequest) -> Iterator[str]:
    native = compiled() if request.param == "compiled" else None
    if native is None and request.param == "compiled":
        pytest.skip("the extension is not built: no C compiler, or no headers of Python")
    with running(native):
        yield request.param


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> Flavor:
    chosen: Flavor = request.param
    return chosen


@pytest.fixture
def upstreams(park: ServerPark, flavor: Flavor) -> tuple[ThrowawayServer, ThrowawayServer]:
    return park.shared(flavor, "upstream-1"), park.shared(flavor, "upstream-2")


@pytest.fixture
def upstream(park: ServerPark, flavor: Flavor) -> ThrowawayServer:
    return park.shared(flavor, "upstream-1")


@pytest.fixture
def target(park: ServerPark, flavor: Flavor) -> ThrowawayServer:
    return park.target(flavor, "target")


@pytest.fixture
def newer(park: ServerPark, flavor: Flavor) -> ThrowawayServer:
    if usual(flavor).release <= find(flavor).release:
        pytest.skip("the usual server is not newer: make test-mariadb or test-mysql56")
    return park.newer(flavor)


@pytest.fixture
def server(park: ServerPark) -> Iterator[ServerFactory]:
    started: list[ThrowawayServer] = []

    def create(flavor: Flavor, *, gtid: bool = True, start: bool = True, **options: Option) -> ThrowawayServer:
        created = park.own(flavor, gtid=gtid, options=options)
        started.append(created)
        return created.start() if start else created

    yield create
    for created in started:
        created.destroy()


@pytest.fixture
def schema() -> Iterator[SchemaFactory]:
    made: list[tuple[PrivateServer, str]] = []

    def create(*servers: PrivateServer, prefix: str = "t") -> str:
        name = f"{prefix}_{secrets.token_hex(4)}"
        for where in servers:
            where.execute(f"CREATE DATABASE {Ident(name).sql}")
            made.append((where, name))
        return name

    yield create
    for where, name in made:
        if where.running:
            where.execute(f"DROP DATABASE IF EXISTS {Ident(name).sql}")


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path / "etcd") as server:
        yield server
