"""Applications go to the target and come back, with nothing but the verb: both servers equal the workload's ledger."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pytest

from dm.cli.client import Client
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import binlog_end
from dm.task.foreign_transactions import foreign_transactions
from dm.verbs.cutover import BeginCutOver
from tests.testbed.cases import APPLIER_GRANTS, FENCING_GRANTS, SOURCE_GRANTS, TARGET_GRANTS, TEMPORARY_GRANT, XA_GRANTS
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import subtask_for, wait_until

pytestmark = [pytest.mark.live]

PASSWORD = "canary-2fe1"
SCHEMAS = ("shop", "store")  # of the source, and of the target: the route is inverted
TABLES = (
    "CREATE TABLE {}.orders (id INT PRIMARY KEY, note VARCHAR(40), UNIQUE KEY (note))",
    "CREATE TABLE {}.log (id INT, note VARCHAR(40))",  # without a key: a row that comes twice is seen
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
        schema = SCHEMAS[self.at]
        number, note = self.draw.randrange(40), f"written {self.written}"
        with connection.cursor() as cursor:
            if number not in self.orders:
                cursor.execute(f"INSERT INTO {schema}.orders VALUES (%s, %s)", (number, note))
                self.orders[number] = note
            elif self.draw.random() < 0.3:
                cursor.execute(f"DELETE FROM {schema}.orders WHERE id = %s", (number,))
                del self.orders[number]
            else:
                cursor.execute(f"UPDATE {schema}.orders SET note = %s WHERE id = %s", (note, number))
                self.orders[number] = note
            cursor.execute(f"INSERT INTO {schema}.log VALUES (%s, %s)", (number % 3, "line"))
            self.log[number % 3, "line"] += 1
        connection.commit()

    def equal(self, server: ThrowawayServer) -> bool:
        """Whether a server has what the ledger says."""
        schema = SCHEMAS[self.servers.index(server)]
        orders = dict(server.query(f"SELECT id, note FROM {schema}.orders"))
        return orders == self.orders and Counter(server.query(f"SELECT id, note FROM {schema}.log")) == self.log

    def settle(self) -> None:
        """Wait until the task that runs knows how far it is behind."""
        task, source = (("shop", "old"), ("shop-back", "shop-target"))[self.at]

        def known(status: dict[str, Any]) -> bool:
            lag = status[source].get("sync", {}).get("secondsBehindMaster")
            return lag is not None and float(lag) < 5

        self.daemon.wait(task, known, "tells its lag")

    def move(self, *words: str) -> str:
        """The applications go to the other server."""
        self.settle()
        said = self.daemon.said("cut-over", "shop", "--yes", "--prove", "none", *words)
        assert said.status == 0, str(said)
        closed, schema, self.at = self.servers[self.at], SCHEMAS[self.at], 1 - self.at
        with (
            pytest.raises(pymysql.err.MySQLError, match="read-only"),
            closed.connect(user="app", password=PASSWORD) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f"INSERT INTO {schema}.log VALUES (9, 'after the fence')")
        return said.out


@dataclass(frozen=True)
class Plan:
    """What the servers have at first, and how the task takes it."""

    tables: tuple[Sequence[str], Sequence[str]]  # of the source and of the target
    routes: str
    rules: str
    shop: type[Shop] = Shop


PLAIN = Plan(
    tuple([table.format(schema) for table in TABLES] for schema in SCHEMAS),  # type: ignore[arg-type]  # two
    "routes: {store: {schema-pattern: shop, target-schema: store}}\n",
    "[store]",
)


@contextmanager
def opened(plan: Plan, servers: tuple[ThrowawayServer, ThrowawayServer], directory: Path) -> Iterator[Shop]:
    """The task follows."""
    for each, schema, tables in zip(servers, SCHEMAS, plan.tables, strict=True):
        each.execute(f"CREATE DATABASE {schema}", *tables)
        each.create_user("app", PASSWORD, f"SELECT, INSERT, UPDATE, DELETE, ALTER ON {schema}.*")
        flavor = each.flavor
        assert flavor in ("mysql", "mariadb")
        each.create_user(
            "dm", PASSWORD, SOURCE_GRANTS[flavor], TARGET_GRANTS, TEMPORARY_GRANT, APPLIER_GRANTS[flavor],
            FENCING_GRANTS[flavor], *XA_GRANTS[flavor],
        )  # fmt: skip
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (directory / "source.yaml").write_text(f"source-id: old\nfrom: {{{head}, port: {servers[0].port}}}\n")
    (directory / "shop.yaml").write_text(
        f"name: shop\ntask-mode: incremental\ntarget-database: {{{head}, port: {servers[1].port}}}\n"
        f"mysql-instances: [{{source-id: old, block-allow-list: shop, route-rules: {plan.rules}}}]\n"
        f"block-allow-list: {{shop: {{do-dbs: [shop]}}}}\n{plan.routes}"
    )
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    with Daemon(directory) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        daemon.must("start-task", "shop.yaml")
        daemon.wait("shop", lambda status: status["old"].get("sync", {}).get("synced") is True, "follows")
        yield plan.shop(servers, daemon, random.Random(seed))


@pytest.fixture
def shop(request: pytest.FixtureRequest, server: ServerFactory, tmp_path: Path) -> Iterator[Shop]:
    flavors: tuple[Flavor, Flavor] = request.param
    with opened(PLAIN, (server(flavors[0]), server(flavors[1])), tmp_path) as shop:
        yield shop


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
    assert "the target stays closed to writes of applications" in complete.out
    assert shop.servers[1].query("SELECT @@GLOBAL.read_only")[0][0]
    shop.work(5)
    wait_until(lambda: all(map(shop.equal, shop.servers)), "the task goes on")


@pytest.mark.parametrize("shop", [
    pytest.param(("mysql", "mysql"), id="mysql"),
    pytest.param(("mariadb", "mariadb"), id="mariadb", marks=pytest.mark.chaos),
], indirect=True)  # fmt: skip
def test_a_way_back_that_can_not_begin_is_taken_away_and_the_next_one_begins(shop: Shop) -> None:
    """A privilege goes, or a trigger comes, after the check and before the fence."""
    source, target = shop.servers
    ((host,),) = target.query("SELECT host FROM mysql.user WHERE user = 'dm'")
    revoke = f"REVOKE REPLICATION SLAVE ON *.* FROM 'dm'@'{host}'"
    shop.work(10)
    told = aborted(shop, target, revoke)
    assert "REPLICATION SLAVE" in told or "replication_privilege" in told
    shop.work(10)  # the source is open
    wait_until(lambda: shop.equal(target), "the task goes on")
    target.execute(revoke.replace("REVOKE", "GRANT").replace(" FROM ", " TO "))
    trigger = "CREATE TRIGGER shop.late BEFORE INSERT ON shop.orders FOR EACH ROW SET NEW.note = NEW.note"
    assert "trigger shop.late acts on rows that come back" in aborted(shop, source, trigger)
    source.execute("DROP TRIGGER shop.late")
    shop.move()
    shop.work(10)
    wait_until(lambda: shop.equal(source), "what is written at the target comes to the source")


def aborted(shop: Shop, server: ThrowawayServer, statement: str) -> str:
    """What is said of a cut-over that such a statement has ended, executed while the hook stops the writes."""
    hook, files = shop.daemon.directory / "hook", [shop.daemon.directory / f"hook.{name}" for name in ("called", "go")]
    hook.write_text(
        f"#!/bin/sh\n[ $1 = stop-writes ] && touch {files[0]}\n"
        f"while [ $1 = stop-writes -a ! -e {files[1]} ]; do sleep 0.1; done\nexit 3\n"
    )
    hook.chmod(0o700)
    for file in files:
        file.unlink(missing_ok=True)

    def meanwhile() -> None:
        wait_until(files[0].exists, "the hook is called")
        server.execute(statement)
        files[1].touch()

    shop.settle()
    person = threading.Thread(target=meanwhile)
    person.start()
    said = shop.daemon.said("cut-over", "shop", "--yes", "--prove", "none", "--hook", str(hook))
    person.join()
    assert (said.status, "shop: aborted" in said.out) == (1, True), str(said)
    assert "shop-back" not in shop.daemon.said("query-status").out
    return said.out


@pytest.mark.chaos
@pytest.mark.parametrize("shop", [
    pytest.param(("mysql", "mysql"), id="mysql"), pytest.param(("mariadb", "mariadb"), id="mariadb"),
], indirect=True)  # fmt: skip
@pytest.mark.parametrize("at_switch", [False, True])
def test_a_source_that_is_dead_for_good_keeps_nobody_from_completing(shop: Shop, at_switch: bool) -> None:
    """The applications are at the target, and their source does not come back."""
    source, target = shop.servers
    shop.work(10)
    shop.settle()
    if at_switch:
        hook = shop.daemon.directory / "hook"
        hook.write_text("#!/bin/sh\n[ $1 = switch ] && exit 7\nexit 3\n")
        hook.chmod(0o700)
        said = shop.daemon.said("cut-over", "shop", "--yes", "--prove", "none", "--hook", str(hook))
        assert (said.status, "it ended with 7" in said.out) == (1, True), str(said)
    else:
        shop.move()
    source.kill()
    completed = shop.daemon.said("cut-over", "shop", "--complete")
    assert completed.status == 0, str(completed)
    assert "source old stays as it is" in completed.out
    assert shop.daemon.said("query-status", "-o", "json").json()["tasks"] == []
    shop.at = 1
    shop.work(10)
    assert shop.equal(target)


@pytest.mark.chaos
@pytest.mark.parametrize("shop", [("mysql", "mysql"), ("mariadb", "mariadb")], indirect=True)
@pytest.mark.parametrize("back", [False, True])
def test_a_daemon_that_is_killed_while_the_way_back_begins_goes_on(shop: Shop, back: bool) -> None:
    if back:
        shop.move()
    task, target = ("shop-back", shop.servers[0]) if back else ("shop", shop.servers[1])
    shop.work(10)
    environment = {**os.environ, "DM_HOME": str(shop.daemon.home)}
    shop.settle()
    Client(None, environment, lambda _: None).ask(BeginCutOver(task="shop", prove="none", back=back))
    row = f"SELECT state FROM dm_meta.`{task}_cut_over`"
    while json.loads(target.query(row)[0][0])["state"] in ("comparing", "fencing", "fenced", "drained", "proved"):
        time.sleep(0.002)
    shop.daemon.kill()
    shop.daemon.start()
    wait_until(lambda: json.loads(target.query(row)[0][0])["state"] == "switched", "it goes on")
    shop.at = 1 - shop.at
    shop.work(10)
    wait_until(lambda: all(map(shop.equal, shop.servers)), "both have everything, once")


def test_a_transaction_is_a_strangers_without_the_mark_of_the_opposite(server: ServerFactory) -> None:
    source = server("mysql")
    source.execute(
        "CREATE DATABASE shop", *(table.format("shop") for table in TABLES), "CREATE DATABASE dm_meta",
        "CREATE TABLE dm_meta.back_syncer_worker (id INT PRIMARY KEY)",
    )  # fmt: skip
    task = subtask_for(source, source, "shop", task="there").model_copy(update={"opposite": "back"})
    task = task.model_copy(update={"opposite_meta_schema": "dm_meta", "meta_schema": "dm_meta"})
    with closing(connect(task.source.endpoint)) as connection:
        start = binlog_end(connection)

    def transaction(*statements: str) -> None:
        with source.connect(autocommit=False) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    transaction("INSERT INTO dm_meta.back_syncer_worker VALUES (1)", "INSERT INTO shop.log VALUES (1, 'back')")
    transaction("INSERT INTO dm_meta.back_syncer_worker VALUES (2)")
    source.execute(
        "CREATE TABLE `dm_meta`.back_syncer_ddl (id INT)", "CREATE DATABASE other", "CREATE TABLE other.t (id INT)"
    )
    transaction("INSERT INTO other.t VALUES (1)")
    assert foreign_transactions(task, start, statements=False) == (0, "")
    transaction(
        "INSERT INTO shop.log VALUES (2, 'an application')", "INSERT INTO dm_meta.back_syncer_worker VALUES (3)"
    )
    assert foreign_transactions(task, start, statements=False) == (1, "rows of shop.log")
    source.execute("ALTER TABLE shop.log ADD COLUMN more INT")
    assert foreign_transactions(task, start, statements=False)[0] == 1
    assert foreign_transactions(task, start, statements=True)[0] == 4, (
        "those in `other` count: nobody knows what they do"
    )
    with source.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE dm_meta_check_7")
        cursor.execute("USE dm_meta")
        cursor.execute("CREATE TABLE back_syncer_more (id INT)")
        assert foreign_transactions(task, start, statements=True)[0] == 4
        cursor.execute("ALTER TABLE shop.log /* `dm_meta` */ DROP COLUMN more")
    source.execute("CREATE DATABASE `dm_metadata`")
    assert foreign_transactions(task, start, statements=True)[0] == 6, (
        "a schema that begins alike and a comment are no signs"
    )
