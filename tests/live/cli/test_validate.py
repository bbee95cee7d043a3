"""docs/validate.md, typed as it stands: a comparison, its statements, and the comparison after them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.unit.docs.document import ROOT, blocks

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(600)]

PAGE = ROOT / "docs" / "validate.md"
PASSWORD = "canary-d1ff"
TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.items (id INT PRIMARY KEY, name VARCHAR(20))",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, price DOUBLE, note VARCHAR(20))",
)


def alike(text: str, fixes: Path) -> list[str]:
    """Lines without what another run has differently."""
    text = text.replace(str(fixes), "FIXES")
    return [re.sub(r"in [\d.]+ s$", "in S s", line) for line in text.splitlines() if line.strip()]


def test_a_comparison_goes_as_the_page_says(server: ServerFactory, tmp_path: Path) -> None:
    source, target = server("mariadb"), server("mariadb")
    for each in (source, target):
        each.execute(*TABLES)
        each.create_user("dm", PASSWORD, "ALL PRIVILEGES ON *.*")
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (tmp_path / "source.yaml").write_text(f"source-id: mysql-01\nfrom: {{{head}, port: {source.port}}}\n")
    (tmp_path / "shop.yaml").write_text(
        f"name: shop\ntask-mode: incremental\ntarget-database: {{{head}, port: {target.port}}}\n"
        "mysql-instances: [{source-id: mysql-01, block-allow-list: shop, syncer-config-name: often}]\n"
        "block-allow-list: {shop: {do-dbs: [shop]}}\nsyncers: {often: {checkpoint-flush-interval: 1}}\n"
    )
    fixes = tmp_path / "fixes"
    shown = [
        part.partition("\n")
        for block in blocks(PAGE.read_text(encoding="utf-8"))
        for part in re.split(r"^\$ dmctl ", block.text, flags=re.MULTILINE)[1:]
    ]
    assert [command for command, _, _ in shown] == ["diff shop --fix-sql fixes", "diff shop"]
    with Daemon(tmp_path, {}) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        daemon.must("start-task", "shop.yaml")
        daemon.must("wait", "shop", "--synced", "--timeout", "120")
        source.execute(
            "INSERT INTO shop.items VALUES (1, 'cup'), (2, 'pot')",
            "INSERT INTO shop.orders VALUES (1, 1.5, 'first'), (2, 2.5, 'late'), (3, 0.5, NULL)",
        )
        daemon.must("wait", "shop", "--synced", "--timeout", "120")
        target.execute(
            "UPDATE shop.orders SET note = 'early' WHERE id = 2",
            "DELETE FROM shop.orders WHERE id = 3",
            "INSERT INTO shop.orders VALUES (7, 1, 'nobody''s')",
        )
        (command, _, expected), (again, _, equal) = shown
        said = daemon.said(*command.replace("fixes", str(fixes)).split())
        assert (said.status, alike(said.out, fixes)) == (1, alike(expected, fixes)), str(said)
        text = (fixes / "shop.orders.sql").read_text(encoding="utf-8")
        target.execute(*filter(None, text.split(";\n")))
        said = daemon.said(*again.split())
        assert (said.status, alike(said.out, fixes)) == (0, alike(equal, fixes)), str(said)
