"""`dmctl replay` as a person types it: a paused task, its backlog, and the task again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.relay.relaying import end_of
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(300)]

PASSWORD = "canary-8ep1ay"
TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.items (id INT PRIMARY KEY, name VARCHAR(20))",
    "CREATE TABLE shop.notes (note VARCHAR(20))",
)
FIRST = ("INSERT INTO shop.items VALUES (1, 'cup'), (2, 'pot')", "INSERT INTO shop.notes VALUES ('first')")
BACKLOG = (
    *(f"UPDATE shop.items SET name = '{number}' WHERE id = 1" for number in range(20)),
    "INSERT INTO shop.items VALUES (3, 'jug')",
    "DELETE FROM shop.items WHERE id = 2",
    "INSERT INTO shop.notes VALUES ('later')",
)


def test_a_paused_task_is_replayed_and_resumed(server: ServerFactory, tmp_path: Path) -> None:
    source, target = server("mariadb"), server("mariadb")
    for each in (source, target):
        each.execute(*TABLES)
        each.create_user("dm", PASSWORD, "ALL PRIVILEGES ON *.*")
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (tmp_path / "source.yaml").write_text(
        f"source-id: mysql-01\nenable-relay: true\nfrom: {{{head}, port: {source.port}}}\n"
    )
    (tmp_path / "shop.yaml").write_text(
        f"name: shop\ntask-mode: incremental\ntarget-database: {{{head}, port: {target.port}}}\n"
        "mysql-instances: [{source-id: mysql-01, block-allow-list: shop}]\nblock-allow-list: {shop: {do-dbs: [shop]}}\n"
    )
    with Daemon(tmp_path, {}) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        daemon.must("start-task", "shop.yaml")
        daemon.must("wait", "shop", "--synced", "--timeout", "120")
        source.execute(*FIRST)
        daemon.must("wait", "shop", "--synced", "--timeout", "120")
        refused = daemon.said("replay", "shop")
        assert refused.status == 1
        assert "Error 44050" in refused.err
        daemon.must("pause-task", "shop")
        source.execute(*BACKLOG)
        file, offset = end_of(source)
        (directory,) = (tmp_path / "home" / "relay" / "mysql-01").glob("*.000001")
        wait_until(lambda: (directory / file).stat().st_size >= offset, "the relay has everything")
        said = daemon.must("replay", "shop")
        assert "22 changes of 1 table as 3 changes at the target" in said.out, str(said)
        assert "left to the syncer: shop.notes: it was changed in the source's order" in said.out
        assert target.query("SELECT * FROM shop.items ORDER BY id") == ((1, "19"), (3, "jug"))
        status = daemon.status("shop")["mysql-01"]
        assert (status["replay"]["over"], status["replay"]["error"]) == (True, None)
        assert "replay: done" in daemon.must("query-status", "shop").out
        assert PASSWORD not in str(said) + str(status)
        daemon.must("resume-task", "shop")
        daemon.must("wait", "shop", "--synced", "--timeout", "120")
        assert target.query("SELECT note FROM shop.notes ORDER BY note") == (("first",), ("later",))
