"""docs/validate.md, typed as it stands: a comparison and its statements, a mistake that is taken back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.testbed.cases import APPLIER_GRANTS, SOURCE_GRANTS, TARGET_GRANTS, TEMPORARY_GRANT
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.unit.docs.document import ROOT, blocks, section

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(600)]

PAGE = ROOT / "docs" / "validate.md"
PASSWORD = "canary-d1ff"
TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.items (id INT PRIMARY KEY, name VARCHAR(20))",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, price DOUBLE, note VARCHAR(20))",
)


VARIES = (
    (r"in [\d.]+ s$", "in S s"),
    (r"\(binlog\.\d+, \d+\)", "(PLACE)"),
    (r"GTID( set)? [-\d,]+\d", r"GTID\1 G"),
    (r"127\.0\.0\.1:\d+", "HOST"),
    (r"\d+ rows?, [\d.]+ s behind", "R rows, S s behind"),
)


def alike(text: str, directories: Path) -> list[str]:
    """Lines without what another run has differently."""
    for name in ("fixes", "back"):
        text = text.replace(str(directories / name), name.upper())
    for pattern, same in VARIES:
        text = re.sub(pattern, same, text, flags=re.MULTILINE)
    return [line for line in text.splitlines() if line.strip()]


@pytest.mark.chaos
def test_a_comparison_goes_as_the_page_says(server: ServerFactory, tmp_path: Path) -> None:
    source, target = server("mariadb"), server("mariadb")
    for each in (source, target):
        each.execute(*TABLES)
    source.create_user("dm", PASSWORD, SOURCE_GRANTS["mariadb"])  # what the README gives is enough for the page
    target.create_user("dm", PASSWORD, TARGET_GRANTS, TEMPORARY_GRANT, APPLIER_GRANTS["mariadb"])
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (tmp_path / "source.yaml").write_text(f"source-id: mysql-01\nfrom: {{{head}, port: {source.port}}}\n")
    (tmp_path / "shop.yaml").write_text(
        f"name: shop\ntask-mode: incremental\ntarget-database: {{{head}, port: {target.port}}}\n"
        "mysql-instances: [{source-id: mysql-01, block-allow-list: shop, syncer-config-name: often}]\n"
        "block-allow-list: {shop: {do-dbs: [shop]}}\nsyncers: {often: {checkpoint-flush-interval: 1}}\n"
    )
    page = PAGE.read_text(encoding="utf-8")
    shown = [
        part.partition("\n")
        for block in blocks(page)
        for part in re.split(r"^\$ dmctl ", block.text, flags=re.MULTILINE)[1:]
    ]
    shown = [each for each in shown if not each[0].startswith("validation ")]
    assert [" ".join(command.split()[:2]) for command, _, _ in shown] == [
        "diff shop", "diff shop", *("reload-table shop", "wait shop", "diff shop"),
        *("update-task shop.yaml", "wait shop", "diff shop"), "flashback shop",
    ]  # fmt: skip
    with Daemon(tmp_path, {}) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        daemon.must("start-relay", "-s", "mysql-01")
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
        (command, _, expected), (again, _, equal), *joining, (undo, _, undone) = shown
        said = daemon.said(*command.replace("fixes", str(tmp_path / "fixes")).split())
        stood = daemon.said("query-status", "shop")
        assert "shop on mysql-01: last compared: 1 table equal, different: shop.orders; since " in stood.out, str(stood)
        assert (said.status, alike(said.out, tmp_path)) == (1, alike(expected, tmp_path)), str(said)
        text = (tmp_path / "fixes" / "shop.orders.sql").read_text(encoding="utf-8")
        target.execute(*filter(None, text.split(";\n")))
        said = daemon.said(*again.split())
        assert (said.status, alike(said.out, tmp_path)) == (0, alike(equal, tmp_path)), str(said)

        target.execute("UPDATE shop.orders SET price = price + 1", "DELETE FROM shop.orders WHERE id = 1")
        for command, _, expected in joining:
            if command.startswith("update-task"):
                source.execute(
                    "CREATE DATABASE stock",
                    "CREATE TABLE stock.parts (id INT PRIMARY KEY)",
                    "INSERT INTO stock.parts VALUES (1), (2)",
                )
                task = (tmp_path / "shop.yaml").read_text(encoding="utf-8")
                (tmp_path / "shop.yaml").write_text(task.replace("do-dbs: [shop]", "do-dbs: [shop, stock]"))
            said = daemon.said(*command.split())
            # What the checks warn of is about these servers' settings, which the page's need not have.
            words = [line for line in said.err.splitlines(keepends=True) if not line.startswith("warning: ")]
            told = said.out if command.startswith("diff") else "".join(words) + said.out
            assert (said.status, alike(told, tmp_path)) == (0, alike(expected, tmp_path)), str(said)

        file, offset = source.query("SHOW MASTER STATUS")[0][:2]
        source.execute("UPDATE shop.orders SET price = 0")
        daemon.must("wait", "shop", "--synced", "--timeout", "120")
        daemon.must("pause-task", "shop")
        place = re.compile(r"binlog\.\d+:\d+")
        undo = place.sub(f"{file}:{offset}", undo).replace("--sql back", f"--sql {tmp_path / 'back'}")
        said = daemon.said(*undo.split())
        assert (said.status, alike(said.out, tmp_path)) == (0, alike(undone, tmp_path)), str(said)
        text = (tmp_path / "back" / "flashback.mysql-01.sql").read_text(encoding="utf-8")
        (written,) = (one.text for one in blocks(section(page, "Taking changes back")) if one.language == "sql")
        assert alike(text, tmp_path) == alike(written, tmp_path)
        target.execute(*filter(None, text.split(";\n")))
        assert target.query("SELECT price FROM shop.orders ORDER BY id") == ((1.5,), (2.5,), (0.5,))
