"""Applications go to the target and come back, with nothing but the verb: both servers equal the workload's ledger."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.testbed.cases import APPLIER_GRANTS, SOURCE_GRANTS, TARGET_GRANTS, TEMPORARY_GRANT
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live]

PASSWORD = "canary-2fe1"
FENCING: dict[Flavor, str] = {
    "mysql": "SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN, PROCESS ON *.*",
    "mariadb": "READ_ONLY ADMIN, PROCESS ON *.*",
}
TABLES = (
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(40), UNIQUE KEY (note))",
    "CREATE TABLE shop.log (id INT, note VARCHAR(40))",  # without a key: a row that comes twice is seen
)


@dataclass
class Shop:
    """Two servers, the task between them, and what the applications have written."""

    servers: tuple[ThrowawayServer, ThrowawayServer]
    daemon: Daemon
    draw: random.Random
    at: int = 0  # the server that has the applications
    orders: dict[int, str] = field(default_factory=dict)
    log: Counter[tuple[int, str]] = field(default_factory=Counter)
    written: int = 0

    def work(self, transactions: int) -> None:
        """Keyed rows and keyless ones, each transaction in the ledger once it has committed."""
        with self.servers[self.at].connect(user="app", password=PASSWORD, autocommit=False) as connection:
            for _ in range(transactions):
                self._transaction(connection)

    def _transaction(self, connection: pymysql.connections.Connection[Any]) -> None:
        self.written += 1
        number, note = self.draw.randrange(40), f"written {self.written}"
        with connection.cursor() as cursor:
            if number not in self.orders:
                cursor.execute("INSERT INTO shop.orders VALUES (%s, %s)", (number, note))
                self.orders[number] = note
            elif self.draw.random() < 0.3:
                cursor.execute("DELETE FROM shop.orders WHERE id = %s", (number,))
                del self.orders[number]
            else:
                cursor.execute("UPDATE shop.orders SET note = %s WHERE id = %s", (note, number))
                self.orders[number] = note
            cursor.execute("INSERT INTO shop.log VALUES (%s, %s)", (number % 3, "line"))
            self.log[number % 3, "line"] += 1
        connection.commit()

    def equal(self, server: ThrowawayServer) -> bool:
        """Whether a server has what the ledger says."""
        orders = dict(server.query("SELECT id, note FROM shop.orders"))
        return orders == self.orders and Counter(server.query("SELECT id, note FROM shop.log")) == self.log

    def move(self, *words: str) -> str:
        """The applications go to the other server."""
        said = self.daemon.said("cut-over", "shop", "--yes", "--prove", "none", *words)
        assert said.status == 0, str(said)
        closed, self.at = self.servers[self.at], 1 - self.at
        with (
            pytest.raises(pymysql.err.MySQLError, match="read-only"),
            closed.connect(user="app", password=PASSWORD) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("INSERT INTO shop.log VALUES (9, 'behind the fence')")
        return said.out


@pytest.fixture
def shop(request: pytest.FixtureRequest, server: ServerFactory, tmp_path: Path) -> Iterator[Shop]:
    flavors: tuple[Flavor, Flavor] = request.param
    servers = server(flavors[0]), server(flavors[1])
    for each in servers:
        each.execute("CREATE DATABASE shop", *TABLES)
        each.create_user("app", PASSWORD, "SELECT, INSERT, UPDATE, DELETE ON shop.*")
        flavor = each.flavor
        assert flavor in ("mysql", "mariadb")
        each.create_user(
            "dm", PASSWORD, SOURCE_GRANTS[flavor], TARGET_GRANTS, TEMPORARY_GRANT, APPLIER_GRANTS[flavor],
            FENCING[flavor], *(["SELECT ON performance_schema.*"] if flavor == "mysql" else []),
        )  # fmt: skip
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (tmp_path / "source.yaml").write_text(f"source-id: old\nfrom: {{{head}, port: {servers[0].port}}}\n")
    (tmp_path / "shop.yaml").write_text(
        f"name: shop\ntask-mode: incremental\ntarget-database: {{{head}, port: {servers[1].port}}}\n"
        "mysql-instances: [{source-id: old, block-allow-list: shop}]\nblock-allow-list: {shop: {do-dbs: [shop]}}\n"
    )
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    with Daemon(tmp_path) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        daemon.must("start-task", "shop.yaml")
        daemon.wait("shop", lambda status: status["old"].get("sync", {}).get("synced") is True, "follows")
        yield Shop(servers, daemon, random.Random(seed))


def pairs(times: int) -> list[Any]:
    """Each pair of flavours, of which one is enough for most changes."""
    chaos = pytest.mark.chaos
    return [
        pytest.param(("mysql", "mysql"), times, id="mysql", marks=[chaos] if times > 2 else []),
        pytest.param(("mariadb", "mariadb"), times, id="mariadb", marks=chaos),
        pytest.param(("mysql", "mariadb"), times, id="across", marks=chaos),
    ]


@pytest.mark.parametrize(("shop", "times"), [*pairs(1)[:1], *pairs(10)], indirect=["shop"])
def test_back_and_forth_both_servers_equal_the_ledger(shop: Shop, times: int) -> None:
    for _ in range(times):
        shop.work(30)
        shop.move()
        shop.work(30)
        wait_until(lambda: shop.equal(shop.servers[0]), "what is written at the target comes to the source")
        shop.move("--back")
        shop.work(5)
    wait_until(lambda: all(map(shop.equal, shop.servers)), "both have everything, once")
    complete = shop.daemon.said("cut-over", "shop", "--complete")
    assert complete.status == 0, str(complete)
    assert "task shop goes on" in complete.out
    shop.work(5)
    wait_until(lambda: all(map(shop.equal, shop.servers)), "the task goes on")
