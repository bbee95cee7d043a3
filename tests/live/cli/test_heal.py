"""`dmctl heal` as docs/operations.md has it: the source has purged what a task needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until
from tests.unit.docs.document import OPERATIONS, blocks, section

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

PASSWORD = "canary-h3a1"
TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.items (id INT PRIMARY KEY, name VARCHAR(20))",
    "CREATE TABLE shop.notes (note VARCHAR(20))",
)
FIRST = ("INSERT INTO shop.items VALUES (1, 'cup'), (2, 'pot')", "INSERT INTO shop.notes VALUES ('first')")
LOST = (
    "UPDATE shop.items SET name = 'bowl' WHERE id = 1",
    "INSERT INTO shop.items VALUES (3, 'jug')",
    "DELETE FROM shop.items WHERE id = 2",
    "INSERT INTO shop.notes VALUES ('later')",
)
VARIES = ((r"\(binlog\.\d+, \d+\)", "(PLACE)"), (r"in [\d.]+ s$", "in S s"), (r"about \d+ s", "about S s"))


def shown(command: str) -> str:
    """What the page says that a command answers."""
    page = section(OPERATIONS.read_text(), "The source has purged a binlog that is needed")
    (block,) = (each for each in blocks(page) if f"$ {command}\n" in each.text)
    return block.text.split(f"$ {command}\n")[1].split("$ ")[0]


def alike(text: str) -> list[str]:
    """Lines without what another run has differently."""
    for pattern, same in VARIES:
        text = re.sub(pattern, same, text, flags=re.MULTILINE)
    return [line for line in text.splitlines() if line.strip()]


def purged(source: ThrowawayServer) -> bool:
    """Whether all but the newest file are gone; a session that has not noticed its end keeps the one that it reads."""
    newest = source.query("SHOW BINARY LOGS")[-1][0]
    source.execute(f"PURGE BINARY LOGS TO '{newest}'")
    return len(source.query("SHOW BINARY LOGS")) == 1


@pytest.mark.parametrize("relayed", [False, pytest.param(True, marks=pytest.mark.chaos)], ids=["direct", "relay"])
@pytest.mark.parametrize("flavor", ["mysql", pytest.param("mariadb", marks=pytest.mark.chaos)])
def test_a_task_goes_on_although_its_binlog_is_gone(
    server: ServerFactory, tmp_path: Path, flavor: Flavor, relayed: bool
) -> None:
    source, target = server(flavor), server(flavor)
    for each in (source, target):
        each.execute(*TABLES)
        each.create_user("dm", PASSWORD, "ALL PRIVILEGES ON *.*")
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (tmp_path / "source.yaml").write_text(
        f"source-id: mysql-01\nenable-relay: {str(relayed).lower()}\nfrom: {{{head}, port: {source.port}}}\n"
    )
    (tmp_path / "shop-all.yaml").write_text(
        f"name: shop-all\ntask-mode: incremental\ntarget-database: {{{head}, port: {target.port}}}\n"
        "mysql-instances: [{source-id: mysql-01, block-allow-list: shop}]\nblock-allow-list: {shop: {do-dbs: [shop]}}\n"
    )
    with Daemon(tmp_path, {}) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        daemon.must("start-task", "shop-all.yaml")
        daemon.must("wait", "shop-all", "--synced", "--timeout", "120")
        source.execute(*FIRST)
        daemon.must("wait", "shop-all", "--synced", "--timeout", "120")
        refused = daemon.said("heal", "shop-all")
        assert refused.status == 1
        assert "Error 44061" in refused.err
        daemon.must("pause-task", "shop-all")
        if relayed:
            daemon.must("pause-relay", "-s", "mysql-01")
        source.execute(*LOST, "FLUSH BINARY LOGS")
        wait_until(lambda: purged(source), "nobody reads the old files any more")
        daemon.said(*(("resume-relay", "-s", "mysql-01") if relayed else ("resume-task", "shop-all")))
        wait_until(lambda: "dmctl heal" in daemon.said("query-status", "shop-all").out, "the error names the way out")
        if not relayed:
            daemon.must("pause-task", "shop-all")
        dry = daemon.must("heal", "shop-all", "--dry-run")
        assert alike(dry.out) == alike(shown("dmctl heal shop-all --dry-run"))
        said = daemon.must("heal", "shop-all")
        relay_line = "  let its relay go on: `dmctl resume-relay -s mysql-01`"
        assert [line for line in alike(said.out) if line != relay_line] == alike(shown("dmctl heal shop-all"))
        assert (relay_line in said.out) == relayed
        if relayed:
            daemon.must("resume-relay", "-s", "mysql-01")
        source.execute("INSERT INTO shop.notes VALUES ('after')", "UPDATE shop.items SET name = 'vase' WHERE id = 3")
        daemon.must("resume-task", "shop-all")
        daemon.must("wait", "shop-all", "--synced", "--timeout", "120")
        assert target.query("SELECT * FROM shop.items ORDER BY id") == ((1, "bowl"), (3, "vase"))
        notes = (("after",), ("first",), ("later",))
        assert target.query("SELECT note FROM shop.notes ORDER BY note") == notes
        assert PASSWORD not in str(said)
