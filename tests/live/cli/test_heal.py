"""`dmctl heal` as docs/operations.md has it: the source has purged what a task needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.live.cli.shop import PASSWORD, alike, shop_servers, shown, synced_shop
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.purge import purge_binlogs
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

LOST = (
    "UPDATE shop.items SET name = 'bowl' WHERE id = 1",
    "INSERT INTO shop.items VALUES (3, 'jug')",
    "DELETE FROM shop.items WHERE id = 2",
    "INSERT INTO shop.notes VALUES ('later')",
)
HEADING = "The source has purged a binlog that is needed"


@pytest.mark.parametrize("relayed", [False, pytest.param(True, marks=pytest.mark.chaos)], ids=["direct", "relay"])
@pytest.mark.parametrize("flavor", ["mysql", pytest.param("mariadb", marks=pytest.mark.chaos)])
def test_a_task_goes_on_although_its_binlog_is_gone(
    server: ServerFactory, tmp_path: Path, flavor: Flavor, relayed: bool
) -> None:
    source, target = shop_servers(server, flavor, tmp_path, relay=relayed)
    with synced_shop(tmp_path, source) as daemon:
        refused = daemon.said("heal", "shop-all")
        assert refused.status == 1
        assert "Error 44061" in refused.err
        daemon.must("pause-task", "shop-all")
        if relayed:
            daemon.must("pause-relay", "-s", "mysql-01")
        source.execute(*LOST, "FLUSH BINARY LOGS")
        purge_binlogs(source)
        daemon.said(*(("resume-relay", "-s", "mysql-01") if relayed else ("resume-task", "shop-all")))
        wait_until(lambda: "dmctl heal" in daemon.said("query-status", "shop-all").out, "the error names the way out")
        if not relayed:
            daemon.must("pause-task", "shop-all")
        dry = daemon.must("heal", "shop-all", "--dry-run")
        assert alike(dry.out) == alike(shown(HEADING, "dmctl heal shop-all --dry-run"))
        said = daemon.must("heal", "shop-all")
        relay_line = "  let its relay go on: `dmctl resume-relay -s mysql-01`"
        assert [line for line in alike(said.out) if line != relay_line] == alike(shown(HEADING, "dmctl heal shop-all"))
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


@pytest.mark.ci_flavor("mariadb")
def test_all_sources_of_a_task_are_healed_by_one_command(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(*upstreams, target)
    instances = []
    for number, each in enumerate(upstreams):
        each.execute(
            "FLUSH BINARY LOGS",
            *(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY)" for table in (f"part_{number}", "more")),
        )
        login = f"{{host: 127.0.0.1, port: {each.port}, user: {each.user}, password: '{each.password}'}}"
        (tmp_path / f"s{number}.yaml").write_text(f"source-id: s{number}\nfrom: {login}\n")
        instances.append(f"{{source-id: s{number}, block-allow-list: l, route-rules: [r]}}")
    target.execute(f"CREATE TABLE {name}.merged (id INT PRIMARY KEY)")
    login = f"{{host: 127.0.0.1, port: {target.port}, user: {target.user}, password: '{target.password}'}}"
    text = (
        f"name: merging\ntask-mode: incremental\nmeta-schema: {name}\ntarget-database: {login}\n"
        f"mysql-instances: [{', '.join(instances)}]\nblock-allow-list: {{l: {{do-tables: [{{db-name: {name},"
        f" tbl-name: 'part_*'}}]}}}}\nroutes: {{r: {{schema-pattern: {name}, table-pattern: 'part_*',"
        f" target-schema: {name}, target-table: merged}}}}\n"
    )
    (tmp_path / "t.yaml").write_text(text)
    (tmp_path / "more.yaml").write_text(text.replace("name: merging", "name: more").replace("part_*", "more"))
    with Daemon(tmp_path, {}) as daemon:
        for number in range(2):
            daemon.must("operate-source", "create", f"s{number}.yaml")
        daemon.must("start-task", "t.yaml")
        for number, each in enumerate(upstreams):
            each.execute(f"INSERT INTO {name}.part_{number} VALUES ({number + 1}), ({number + 11})")
        daemon.must("wait", "merging", "--synced", "--timeout", "120")
        daemon.must("pause-task", "merging", "-s", "s0")
        refused = daemon.said("heal", "merging")
        assert (refused.status, "on source s1" in refused.err) == (1, True), refused
        daemon.must("pause-task", "merging")
        target.execute(f"DELETE FROM {name}.merged WHERE id IN (1, 12)")
        daemon.must("start-task", "more.yaml")
        refused = daemon.said("heal", "merging")
        assert (refused.status, f"{name}.merged has rows of task more on s" in refused.err) == (1, True), refused
        target.execute(f"INSERT INTO {name}.merged VALUES (99)")
        compared = daemon.said("diff", "merging", "--fix-sql", str(tmp_path / "fixes"))
        assert f"1 row only at the target: DELETE as a comment, since {name}.more of task more on s" in compared.out
        written = (tmp_path / "fixes" / f"{name}.merged.sql").read_text()
        assert f"\n-- DELETE FROM `{name}`.`merged` WHERE `id` = 99;" in written
        target.execute(f"DELETE FROM {name}.merged WHERE id = 99")
        daemon.must("stop-task", "more")
        said = daemon.must("heal", "merging")
        assert alike(said.out) == [
            "s0, s1: 1 of 1 chunk differed: 2 rows written, in S s",
            f"  {name}.merged: 2 rows",
            "  go on from (PLACE) of s0 and (PLACE) of s1 with `dmctl resume-task merging`",
        ]
        told = daemon.must("query-status", "merging", "--output", "json").json()
        assert [each["subTaskStatus"][0]["heal"]["writtenRows"] for each in told["sources"]] == [2, 2]
        daemon.must("resume-task", "merging")
        daemon.must("wait", "merging", "--synced", "--timeout", "120")
    assert target.query(f"SELECT id FROM {name}.merged ORDER BY id") == ((1,), (2,), (11,), (12,))
