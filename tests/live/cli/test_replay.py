"""`dmctl replay` as docs/operations.md has it: a paused task, its backlog, and the task again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.live.relay.relaying import end_of
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until
from tests.unit.docs.document import OPERATIONS, blocks, section

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


VARIES = ((r"\(binlog\.\d+, \d+\)", "(PLACE)"), (r"in [\d.]+ s$", "in S s"))


def shown() -> str:
    """What the page says that the verb answers."""
    (block,) = (each for each in blocks(section(OPERATIONS.read_text(), "A backlog")) if "$ dmctl replay" in each.text)
    return block.text.split("$ dmctl replay shop-all\n")[1].split("$ ")[0]


def alike(text: str) -> list[str]:
    """Lines without what another run has differently."""
    for pattern, same in VARIES:
        text = re.sub(pattern, same, text, flags=re.MULTILINE)
    return [line for line in text.splitlines() if line.strip()]


def test_a_paused_task_is_replayed_and_resumed(server: ServerFactory, tmp_path: Path) -> None:
    source, target = server("mariadb"), server("mariadb")
    for each in (source, target):
        each.execute(*TABLES)
        each.create_user("dm", PASSWORD, "ALL PRIVILEGES ON *.*")
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (tmp_path / "source.yaml").write_text(
        f"source-id: mysql-01\nenable-relay: true\nfrom: {{{head}, port: {source.port}}}\n"
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
        refused = daemon.said("replay", "shop-all")
        assert refused.status == 1
        assert "Error 44050" in refused.err
        daemon.must("pause-task", "shop-all")
        source.execute(*BACKLOG)
        file, offset = end_of(source)
        (directory,) = (tmp_path / "home" / "relay" / "mysql-01").glob("*.000001")
        wait_until(lambda: (directory / file).stat().st_size >= offset, "the relay has everything")
        said = daemon.must("replay", "shop-all")
        assert alike(said.out) == alike(shown())
        assert target.query("SELECT * FROM shop.items ORDER BY id") == ((1, "19"), (3, "jug"))
        status = daemon.status("shop-all")["mysql-01"]
        assert (status["replay"]["over"], status["replay"]["error"]) == (True, None)
        assert "replay: done" in daemon.must("query-status", "shop-all").out
        assert PASSWORD not in str(said) + str(status)
        daemon.must("resume-task", "shop-all")
        daemon.must("wait", "shop-all", "--synced", "--timeout", "120")
        assert target.query("SELECT note FROM shop.notes ORDER BY note") == (("first",), ("later",))
