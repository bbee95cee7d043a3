"""The part of docs/validate.md about validators, typed as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.cli.test_validate import PAGE, PASSWORD, TABLES, alike
from tests.testbed.cases import APPLIER_GRANTS, SOURCE_GRANTS, TARGET_GRANTS, TEMPORARY_GRANT
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until
from tests.unit.docs.document import blocks, section

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


def settled(daemon: Daemon) -> bool:
    """Whether the three are found, and the validator has said since that nothing waits."""
    told = daemon.said("validation", "status", "shop").out
    wanted = ("insert/update/delete: 6/0/1", "pending insert/update/delete: 0/0/0", "new/ignored/resolved: 3/0/0")
    return all(words in told for words in wanted)


def _lacks_a_privilege(daemon: Daemon, source: ThrowawayServer, target: ThrowawayServer) -> None:
    """The way out that is said is a GRANT and a verb, and it works."""
    source.execute("INSERT INTO shop.items VALUES (3, 'lid')")  # without rows nothing is asked
    target.execute("REVOKE CREATE TEMPORARY TABLES ON dm_meta.* FROM 'dm'@'%'")
    daemon.must("validation", "start", "shop")
    wait_until(lambda: "error 10901" in daemon.said("query-status", "shop").out, "it is said by the task's status")
    statements = set()
    for words in (("query-status", "shop"), ("validation", "status", "shop")):
        told = daemon.said(*words).out
        statements |= set(re.findall(r"GRANT [A-Z, ]*CREATE TEMPORARY TABLES ON \S+ TO 'dm'@'%'", told))
        assert "`dmctl validation start` for a validator" in told
    (grant,) = statements
    assert (
        "the validator is stopped; go on with `dmctl validation start shop`" in daemon.said("query-status", "shop").out
    )
    target.execute(grant)
    daemon.must("validation", "start", "shop")
    wait_until(lambda: "update/delete: 7/0/1" in daemon.said("validation", "status", "shop").out, "it goes on")


def test_validators_go_as_the_page_says(server: ServerFactory, tmp_path: Path) -> None:
    source, target = server("mariadb"), server("mariadb")
    for each in (source, target):
        each.execute(*TABLES, "CREATE TABLE shop.log (line TEXT)")
    source.create_user("dm", PASSWORD, SOURCE_GRANTS["mariadb"])
    target.create_user("dm", PASSWORD, TARGET_GRANTS, TEMPORARY_GRANT, APPLIER_GRANTS["mariadb"])
    page = section(PAGE.read_text(encoding="utf-8"), "While a task runs: validators")
    (asked,) = (block.text for block in blocks(page) if block.language == "yaml")
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (tmp_path / "source.yaml").write_text(f"source-id: mysql-01\nfrom: {{{head}, port: {source.port}}}\n")
    more = "    block-allow-list: shop\n    syncer-config-name: often\n"
    (tmp_path / "shop.yaml").write_text(
        f"name: shop\ntask-mode: incremental\ntarget-database: {{{head}, port: {target.port}}}\n"
        + asked.replace("    validator-config-name", f"{more}    validator-config-name")
        + "block-allow-list: {shop: {do-dbs: [shop]}}\nsyncers: {often: {checkpoint-flush-interval: 1}}\n"
    )
    shown = [
        part.partition("\n")
        for block in blocks(page)
        for part in re.split(r"^\$ dmctl ", block.text, flags=re.MULTILINE)[1:]
    ]
    with Daemon(tmp_path, {}) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        daemon.must("start-task", "shop.yaml")
        daemon.must("wait", "shop", "--synced", "--timeout", "120")
        wait_until(lambda: "binlog." in daemon.said("validation", "status", "shop").out, "it has begun")
        status = daemon.said("query-status", "shop", "--output", "json").json()
        assert status["sources"][0]["subTaskStatus"][0]["validation"]["mode"] == "full"
        assert "validator:shop:mysql-01" in daemon.hosts()
        daemon.must("validation", "stop", "shop")
        assert daemon.said("validation", "stop", "shop").status != 0
        source.execute(
            "INSERT INTO shop.items VALUES (1, 'cup'), (2, 'pot')",
            "INSERT INTO shop.orders VALUES (1, 1.5, 'first'), (2, 2.5, 'late'), (3, 0.5, NULL), (4, 1, 'gone')",
            "DELETE FROM shop.orders WHERE id = 4",
            "INSERT INTO shop.log VALUES ('a line')",
        )
        daemon.must("wait", "shop", "--synced", "--timeout", "120")
        target.execute(
            "UPDATE shop.orders SET note = 'early' WHERE id = 2",
            "DELETE FROM shop.orders WHERE id = 3",
            "INSERT INTO shop.orders VALUES (4, 1, 'back')",
        )
        for command, _, expected in shown:
            if command.startswith("validation status"):
                wait_until(lambda: settled(daemon), "all are found")
            said = daemon.said(*command.split())
            assert (said.status, alike(said.out, tmp_path)) == (0, alike(expected, tmp_path)), str(said)
        assert daemon.said("validation", "clear-error", "shop", "1").status == 0
        errors = daemon.said("validation", "show-error", "shop", "--error", "all", "--output", "json").json()["error"]
        assert [(each["id"], each["status"]) for each in errors] == [("2", "ResolvedErr"), ("3", "ResolvedErr")]
        daemon.must("validation", "stop", "shop")
        _lacks_a_privilege(daemon, source, target)
        daemon.must("stop-task", "shop")
