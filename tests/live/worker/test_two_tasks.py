"""Two tasks in opposite directions in one daemon, from the files of docs/two-directions.md.

With loads, a relay, a reload, a table that joins, a replay, a validator and a flashback, each while the other runs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dm.demo.servers import ThrowawayServer
from tests.live.worker.test_way_back import end_of
from tests.testbed.daemon import Daemon
from tests.testbed.sync import wait_until
from tests.unit.docs.document import blocks

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

PAGE = Path(__file__).parents[3] / "docs" / "two-directions.md"
TABLES = "CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(9));CREATE TABLE {name}.keyless (v INT)"
ID = {"shop": "mysql-01", "back": "back-01"}


def merged(file: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The file with what the page adds to it; `...` on the page is what the file has."""
    for key, value in more.items():
        if isinstance(value, dict):
            file[key] = merged(file.get(key, {}), value)
        elif isinstance(value, list):
            file[key] = [merged(one, other) for one, other in zip(file[key], value, strict=True)]
        elif value != "...":
            file[key] = value
    return file


class Pair:
    """Servers, a schema that is on both, and a daemon with a task in each direction."""

    def __init__(self, servers: tuple[ThrowawayServer, ThrowawayServer], name: str, daemon: Daemon) -> None:
        self.servers, self.name, self.daemon = servers, name, daemon
        yaml = YAML(typ="safe")
        found = [yaml.load(block.text) for block in blocks(PAGE.read_text(encoding="utf-8"))]
        self.shop, self.back, self.careful, *_, self.one_way = found  # `test_conflicts_decided` has the two between
        self.begin = end_of(servers[0]), end_of(servers[1])

    def file(self, task: str, *pages: dict[str, Any], mode: str = "incremental", **more: Any) -> str:
        to = self.servers[1 if task == "shop" else 0]
        login = {"host": "127.0.0.1", "port": to.port, "user": to.user, "password": to.password}
        file: dict[str, Any] = {
            "name": task,
            "task-mode": mode,
            "meta-schema": f"meta_{self.name}",
            "target-database": login,
            "mysql-instances": [{"source-id": ID[task], "block-allow-list": "b"}],
            "block-allow-list": {
                "b": {"do-tables": [{"db-name": self.name, "tbl-name": each} for each in ("t", "k*")]}
            },
            "spark": {"master": "local[1]"},
        }
        if mode == "incremental":
            begin = self.begin[task == "back"]
            meta = {"binlog-name": begin.binlog_name, "binlog-pos": begin.binlog_pos}
            file["mysql-instances"][0]["meta"] = meta
        for page in pages:
            merged(file, page)
        path = self.daemon.directory / f"{task}.yaml"
        with path.open("w", encoding="utf-8") as out:
            YAML(typ="safe").dump({**file, **more}, out)
        return path.name

    def source(self, task: str, **more: object) -> None:
        server = self.servers[0 if task == "shop" else 1]
        login = {"host": "127.0.0.1", "port": server.port, "user": server.user, "password": server.password}
        path = self.daemon.directory / f"{ID[task]}.yaml"
        with path.open("w", encoding="utf-8") as out:
            YAML(typ="safe").dump({"source-id": ID[task], "from": login, **more}, out)
        self.daemon.must("operate-source", "create", path.name)

    def settle(self) -> None:
        """Until what each task has brought is read, and left out, by the other one."""
        for task in ("shop", "back", "shop", "back"):
            self.daemon.must("wait", task, "--synced", "--timeout", "120")

    def write(self, number: int) -> None:
        """Rows of its own on each side; those without a key are doubled by whatever goes round."""
        for side, server in enumerate(self.servers):
            server.execute(
                f"INSERT INTO {self.name}.t (id, v) VALUES ({2 * number + side}, 'new')",
                f"UPDATE {self.name}.t SET v = 'old' WHERE id % 2 = {side} AND id < {2 * number}",
                f"INSERT INTO {self.name}.keyless VALUES ({2 * number + side})",
            )

    def equal(self, written: int) -> None:
        self.settle()
        for server in self.servers:
            keyless = server.query(f"SELECT v FROM {self.name}.keyless ORDER BY v")
            assert keyless == tuple((each,) for each in range(2 * written))
        ends = [server.query(f"SELECT * FROM {self.name}.t ORDER BY id") for server in self.servers]
        assert ends[0] == ends[1]
        assert len(ends[0]) == 2 * written

    def paused(self, task: str) -> None:
        self.daemon.wait(task, lambda status: status[ID[task]]["stage"] == "Paused", "pauses")

    def validated(self, task: str) -> None:
        """Until its validator has looked at the one row, and found it right."""

        def done(status: dict[str, dict[str, Any]]) -> bool:
            found = status[ID[task]]["validation"]
            return (found["processedRowsStatus"], found["errorRowsStatus"]) == (
                "insert/update/delete: 1/0/0",
                "new/ignored/resolved: 0/0/0",
            )

        self.daemon.wait(task, done, "the row is validated")

    def joined(self, table: str, rows: int) -> None:
        """Until a table is loaded beside the stream, and a part of it."""
        target, count = self.servers[1], f"SELECT COUNT(*) FROM {self.name}.{table}"
        there = f"SHOW TABLES FROM {self.name} LIKE '{table}'"
        wait_until(lambda: bool(target.query(there)) and target.query(count) == ((rows,),), f"{table} is loaded", 120)
        self.daemon.wait("shop", lambda status: "joining" not in status[ID["shop"]], f"{table} has joined")

    def sync(self, task: str) -> dict[str, Any]:
        found: dict[str, Any] = self.daemon.status(task)[ID[task]]["sync"]
        return found


@pytest.fixture
def pair(upstreams: tuple[ThrowawayServer, ThrowawayServer], tmp_path: Path) -> Iterator[Pair]:
    name = f"two_{secrets.token_hex(3)}"
    for server in upstreams:
        server.execute(f"CREATE DATABASE {name}")
    with Daemon(tmp_path) as daemon:
        yield Pair(upstreams, name, daemon)
    for server in upstreams:
        server.execute(*(f"DROP DATABASE IF EXISTS {each}" for each in (name, f"meta_{name}")))


@pytest.mark.ci_flavor("mariadb")
def test_the_files_of_the_page_run(pair: Pair) -> None:
    first, second = pair.servers
    daemon, name = pair.daemon, pair.name
    for task, server in zip(ID, pair.servers, strict=True):
        pair.source(task)
        server.execute(*TABLES.format(name=name).split(";"))
    pair.begin = end_of(first), end_of(second)
    daemon.must("start-task", pair.file("shop", pair.shop))
    daemon.must("start-task", pair.file("back", pair.back))
    for number in range(2):
        pair.write(number)
    pair.equal(2)
    before = pair.sync("back")["oppositeStatements"]
    first.execute(f"ALTER TABLE {name}.t ADD COLUMN c INT DEFAULT 7")
    pair.settle()
    assert pair.sync("back")["oppositeStatements"] == before + 1
    assert pair.sync("shop")["oppositeStatements"] == before == 0
    pages = {"shop": (pair.shop, pair.careful), "back": (pair.back, pair.careful, pair.one_way)}
    for task, found in pages.items():
        daemon.must("stop-task", task)
        daemon.must("start-task", pair.file(task, *found))
    checked = daemon.said("check-task", "shop.yaml").out
    assert "both servers give AUTO_INCREMENT the same values" in checked
    for number, server in enumerate(pair.servers):
        server.execute(f"INSERT INTO {name}.t VALUES ({4 + number}, 'new', 1)")
    pair.settle()
    second.execute(f"ALTER TABLE {name}.t ADD COLUMN d INT")
    for task in pages:
        daemon.must("pause-task", task)
    for number, server in enumerate(pair.servers):
        server.execute(f"UPDATE {name}.t SET v = 'side {number}' WHERE id = 1")
    for task, code in (("shop", "36977"), ("back", "36979")):
        daemon.said("resume-task", task)
        pair.paused(task)
        assert code in daemon.said("query-status", task).out
    assert second.query(f"SELECT v FROM {name}.t WHERE id = 1") == (("side 1",),)


@pytest.mark.spark
@pytest.mark.chaos  # two starts of Spark; the parts are in make test, one by one
def test_whatever_a_task_does_beside_its_stream_is_left_out(pair: Pair) -> None:
    first, second = pair.servers
    daemon, name = pair.daemon, pair.name
    first.execute(*TABLES.format(name=name).split(";"), f"CREATE TABLE {name}.later (v INT)")
    for task in ("shop", "back"):
        pair.source(task, **{"enable-relay": True, "relay-dir": str(daemon.directory / f"relay-{task}")})
        daemon.must("start-relay", "-s", ID[task])
    first.execute(*(f"INSERT INTO {name}.t VALUES ({at}, 'new')" for at in (0, 1)))
    first.execute(*(f"INSERT INTO {name}.keyless VALUES ({at})" for at in (0, 1)))
    daemon.must("start-task", pair.file("shop", pair.shop, mode="all"))
    daemon.must("wait", "shop", "--synced", "--timeout", "120")
    daemon.must("start-task", pair.file("back", pair.back))
    pair.equal(1)
    pair.write(1)
    pair.equal(2)
    # A table is emptied and loaded again: by DELETE or TRUNCATE, and by parts with their records.
    second.execute("SET sql_log_bin = 0", f"DELETE FROM {name}.keyless WHERE v = 1", "SET sql_log_bin = 1")
    daemon.must("reload-table", "shop", name, "keyless")
    pair.joined("keyless", 4)
    pair.equal(2)
    # A table joins.
    first.execute(f"INSERT INTO {name}.later VALUES (1), (2)")
    lists: dict[str, Any] = {"block-allow-list": {"b": {"do-dbs": [name]}}}
    daemon.must("update-task", pair.file("back", pair.back, **lists), "--yes")
    daemon.must("update-task", pair.file("shop", pair.shop, mode="all", **lists), "--yes")
    pair.joined("later", 2)
    second.execute(f"INSERT INTO {name}.later VALUES (3)")
    pair.write(2)
    pair.equal(3)
    for server in pair.servers:
        assert server.query(f"SELECT v FROM {name}.later ORDER BY v") == ((1,), (2,), (3,))
    # A backlog is applied in bulk.
    daemon.must("pause-task", "shop")
    pair.write(3)
    daemon.must("wait", "back", "--synced", "--timeout", "120")
    daemon.must("replay", "shop")
    daemon.must("resume-task", "shop")
    pair.equal(4)
    # Only what this task has brought is looked at, and is taken back.
    for task in ("shop", "back"):
        daemon.must("validation", "start", task)
    place = end_of(first)
    first.execute(f"INSERT INTO {name}.t VALUES (100, 'shop')")
    second.execute(f"INSERT INTO {name}.t VALUES (101, 'back')")
    pair.settle()
    daemon.must("flashback", "shop", "--from", f"{place.binlog_name}:{place.binlog_pos}")
    written = "".join(path.read_text() for path in daemon.directory.glob("*.sql"))
    assert "100" in written
    assert "101" not in written
    for task in ("shop", "back"):
        pair.validated(task)
