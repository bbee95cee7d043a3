"""A task of three sources with `merge-order: commit-time`, as a daemon runs it, with the relays of all sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.live.syncer.errors.test_operators import place
from tests.live.syncer.order.test_merge_order import ROWS, Moves, content
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]

SOURCES = ("source-1", "source-2", "source-3")


def login(server: ThrowawayServer) -> str:
    """How files say it."""
    return f"{{host: 127.0.0.1, port: {server.port}, user: {server.user}, password: '{server.password}'}}"


def task_file(name: str, servers: Sequence[ThrowawayServer], target: ThrowawayServer) -> str:
    """The task, from where the binlogs of all sources end now."""
    instances = ""
    for source, server in zip(SOURCES, servers, strict=True):
        file, offset = place(server).split(":")
        meta = f"{{binlog-name: {file}, binlog-pos: {offset}}}"
        instances += f"  - {{source-id: {source}, block-allow-list: moving, meta: {meta}}}\n"
    return (
        f"name: moves\ntask-mode: incremental\nmerge-order: commit-time\nmeta-schema: meta_{name}\n"
        f"target-database: {login(target)}\nmysql-instances:\n{instances}"
        f"block-allow-list: {{moving: {{do-dbs: [{name}]}}}}\n"
    )


def synced(daemon: Daemon) -> dict[str, dict[str, Any]]:
    """The `sync` of each source, when everything is applied."""
    answer = daemon.said("wait", "moves", "--synced", "--timeout", "120")
    assert answer.status == 0, str(answer)
    return {source: status["sync"] for source, status in daemon.status("moves").items()}


def everywhere(servers: Sequence[ThrowawayServer], name: str) -> set[tuple[object, ...]]:
    """The rows of all sources."""
    return {row for server in servers for row in content(server, name)}


def test_rows_that_move_between_three_sources_end_where_they_are(
    park: ServerPark, flavor: Flavor, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    servers = [park.shared(flavor, f"upstream-{number}") for number in (1, 2, 3)]
    name = schema(*servers, target)
    with Daemon(tmp_path / "d") as daemon:
        for source, server in zip(SOURCES, servers, strict=True):
            file = daemon.directory / f"{source}.yaml"
            file.write_text(f"source-id: {source}\nenable-relay: true\nfrom: {login(server)}\n")
            daemon.must("operate-source", "create", str(file))
        for server in (*servers, target):
            server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
        (daemon.directory / "moves.yaml").write_text(task_file(name, servers, target))
        moves = Moves(flavor, servers, name)
        moves.begin()
        moves.move(12)
        daemon.must("start-task", "moves.yaml")
        found = synced(daemon)
        assert content(target, name) == everywhere(servers, name)
        assert len(content(target, name)) == ROWS
        # Now with the servers' own clocks. In MariaDB's whole seconds a row moves to a source with a higher name only.
        one, two, three = servers
        for id in range(100, 105):
            one.execute(f"INSERT INTO {name}.t VALUES ({id}, 1)")
            for here, there in ((one, two), (two, three)):
                here.execute(f"DELETE FROM {name}.t WHERE id = {id}")
                there.execute(f"INSERT INTO {name}.t VALUES ({id}, 2)", f"UPDATE {name}.t SET v = 3 WHERE id = {id}")
        found = synced(daemon)
        assert content(target, name) == everywhere(servers, name)
        assert {sync["binlogType"] for sync in found.values()} == {"local"}, "all read from their relays"
        orders = {source: sync["mergeOrder"] for source, sync in found.items()}
        assert {order["lateTransactions"] for order in orders.values()} == {0}
        assert all(order["turns"] for order in orders.values()), orders
        assert all(set(order["clockAheadSeconds"]) == {*SOURCES} - {source} for source, order in orders.items())
        shown = daemon.said("--output", "json", "query-status", "moves").json()
        assert all(
            status["sync"]["mergeOrder"]["waitsFor"] == []
            for source in shown["sources"]
            for status in source["subTaskStatus"]
        )
    target.execute(f"DROP DATABASE IF EXISTS meta_{name}")
