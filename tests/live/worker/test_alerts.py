"""Each alert is fired by its cause: a real Prometheus, a daemon with TLS, three servers to be hurt.

The rules are those of monitoring/dm.rules.yml with shorter times (tests/testbed/alert_rules.py). In the end each of
them has fired, after it had been silent, and each query of the board has been answered. One rule is of several hosts:
tests/live/cluster/test_several_hosts.py fires it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed import alert_rules
from tests.testbed.certificates import Authority
from tests.testbed.daemon import Daemon
from tests.testbed.looks import looks
from tests.testbed.park import ServerPark
from tests.testbed.prometheus import Prometheus
from tests.testbed.proxy import FaultProxy
from tests.unit.docs.document import ROOT

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(1800)]

BOARD = json.loads((ROOT / "monitoring" / "dm.grafana.json").read_text(encoding="utf-8"))
QUERIES = [re.sub(r"\$\w+", ".*", target["expr"]) for panel in BOARD["panels"] for target in panel.get("targets", ())]
OF_SEVERAL_HOSTS = {"DM_etcd_unreachable"}
SECONDS = 240.0  # a limit for what hangs
SCRAPE = "{scrape_interval: 10s, scrape_timeout: 10s, evaluation_interval: 1s}"  # units are asked for five seconds
PASSWORD = "canary-secret-4c1d"
SCHEMAS = ("shop", "plain", "parts", "full", "other")


@dataclass
class Watch:
    """What has fired and what was answered."""

    prometheus: Prometheus
    fired: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)

    def look(self) -> None:
        self.fired |= {labels["alertname"] for labels, _ in self.prometheus.query('ALERTS{alertstate="firing"}')}
        self.answered |= {query for query in QUERIES if query not in self.answered and self.prometheus.query(query)}

    @contextmanager
    def caused(self, *alerts: str) -> Iterator[None]:
        """Inside stands the cause of these; none of them has fired before, and all do afterwards."""
        self.look()
        assert not self.fired & {*alerts}, self.prometheus.query("ALERTS")
        yield
        for _ in looks(SECONDS):
            self.look()
            if self.fired >= {*alerts}:
                return
        missing = {*alerts} - self.fired
        rules = [rule for rule in self.prometheus.rules() if rule["name"] in missing]
        raise AssertionError(f"{missing}: {rules}, {self.prometheus.targets()}")

    def until_answered(self, metric: str) -> None:
        """Until the board's query of a metric that is there for a while only has been answered."""
        for _ in looks(SECONDS):
            self.look()
            if any(query.startswith(metric) for query in self.answered):
                return
        raise AssertionError(f"{metric}: {self.prometheus.targets()}")


@dataclass
class Scene:
    """A source with a relay, one without, a target; tasks between them."""

    relayed: ThrowawayServer
    plain: ThrowawayServer
    target: ThrowawayServer
    daemon: Daemon
    disk: Path
    ways: tuple[FaultProxy, FaultProxy]  # to the plain source, to the target

    def source(self, name: str, port: int, more: str = "") -> None:
        (self.daemon.directory / f"{name}.yaml").write_text(
            f"source-id: {name}\nenable-gtid: true\n{more}from: {{host: 127.0.0.1, port: {port}, user: dm,"
            f" password: {PASSWORD}}}\nchecker: {{backoff-max: 1s}}\n"
        )
        self.daemon.must("operate-source", "create", f"{name}.yaml")

    def task(self, name: str, source: str, schema: str, more: str = "", instance: str = "", mode: str = "") -> None:
        (self.daemon.directory / f"{name}.yaml").write_text(
            f"name: {name}\ntask-mode: {mode or 'incremental'}\nignore-checking-items: [all]\n"
            f"target-database: {{host: 127.0.0.1, port: {self.ways[1].port}, user: dm, password: {PASSWORD}}}\n"
            f"mysql-instances: [{{source-id: {source}, block-allow-list: b{instance}}}]\n"
            f"block-allow-list: {{b: {{do-dbs: [{schema}]}}}}\nspark: {{master: 'local[1]'}}\n{more}"
        )
        started = self.daemon.dmctl("start-task", f"{name}.yaml")
        assert started.status == 0 or mode, str(started)

    def synced(self, *tasks: str) -> None:
        for task in tasks:
            self.daemon.wait(
                task, lambda status: all(one.get("sync", {}).get("synced") for one in status.values()), "synced"
            )


@pytest.fixture
def scene(park: ServerPark, tmp_path: Path) -> Iterator[Scene]:
    assert os.geteuid() == 0, "a small disk is mounted for the relay"
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)], check=True)
    servers = [park.own("mariadb", gtid=True, options={}).start() for _ in range(3)]
    daemon = Daemon(tmp_path / "daemon", fresh=True)
    certificate, key = Authority(tmp_path / "ca").signed("dm", addresses=("127.0.0.1",))
    try:
        with (
            FaultProxy("127.0.0.1", servers[1].port) as to_source,
            FaultProxy("127.0.0.1", servers[2].port) as to_target,
        ):
            for server in servers:
                server.create_user("dm", PASSWORD, "ALL ON *.*")
                for schema in SCHEMAS:
                    server.execute(
                        f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, v INT)",
                    )  # fmt: skip
            servers[1].execute("CREATE TABLE parts.u LIKE parts.t", "SET GLOBAL binlog_expire_logs_seconds = 800")
            servers[2].execute("DROP TABLE full.t")
            daemon.start("--metrics-addr", "127.0.0.1:0", "--ssl-cert", str(certificate), "--ssl-key", str(key))
            yield Scene(servers[0], servers[1], servers[2], daemon, disk, (to_source, to_target))
    finally:
        daemon.stop()
        for server in servers:
            server.destroy()
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def watch(scene: Scene, tmp_path: Path) -> Iterator[Watch]:
    directory = tmp_path / "prometheus"
    directory.mkdir()
    port = re.search(r'"metrics": "([^"]+)"', scene.daemon.log.read_text(encoding="utf-8"))
    assert port is not None
    one = Prometheus(directory)
    one.start(
        f"global: {SCRAPE}\nrule_files: [{alert_rules.sooner(directory)}]\nscrape_configs:\n"
        f"  - {{job_name: dm, scheme: https, tls_config: {{ca_file: {tmp_path / 'ca' / 'ca.pem'}}},"
        f" authorization: {{credentials_file: {scene.daemon.home / 'metrics-token'}}},"
        f" static_configs: [{{targets: ['{port[1]}']}}]}}\n"
    )
    yield Watch(one)
    one.stop()


def test_each_alert_is_fired_by_its_cause(scene: Scene, watch: Watch) -> None:
    with watch.caused("DM_certificate_ends"):  # it is valid for a day
        pass
    problems = []
    for hurt in (
        _a_task_that_gets_nowhere, _a_relay_on_a_small_disk, _statements, _rows_that_are_wrong, _loads_that_fail,
        _a_load_that_takes_long, _servers_that_are_away, _a_table_aside, _a_cut_over_that_rests,
    ):  # fmt: skip
        try:
            hurt(scene, watch)
        except AssertionError as error:  # this takes minutes: what else fails is told as well
            problems.append(f"{hurt.__name__}: {error}")
            print(problems[-1])
    assert not problems, "\n".join(problems)
    with watch.caused("DM_worker_offline"):
        scene.daemon.stop()
    assert watch.fired == {*alert_rules.names()} - OF_SEVERAL_HOSTS
    assert {*QUERIES} - watch.answered == set()


def _a_relay_on_a_small_disk(scene: Scene, watch: Watch) -> None:
    with watch.caused("DM_remain_storage_of_relay_log"):
        more = f"enable-relay: true\nrelay-dir: {scene.disk}\npurge: {{pause-space: 0.02}}\n"
        scene.source("relayed", scene.relayed.port, more)
        scene.task("shop", "relayed", "shop")
        scene.synced("shop")
    with watch.caused("DM_binlog_file_gap_between_master_relay", "DM_binlog_file_gap_between_master_syncer"):
        filler = scene.disk / "filler"
        filler.write_bytes(bytes(48 << 20))
        watch.prometheus.until("dm_relay_waits_for_space", 1)
        for number in range(4):
            scene.relayed.execute("FLUSH BINARY LOGS", f"INSERT INTO shop.t VALUES ({number}, 0)", "COMMIT")
    held = scene.target.connect()
    with closing(held), held.cursor() as cursor:
        cursor.execute("LOCK TABLES shop.t READ")
        with watch.caused("DM_binlog_file_gap_between_relay_syncer"):
            filler.unlink()
    scene.synced("shop")
    with watch.caused("DM_relay_of_task_rests"):
        scene.daemon.must("pause-relay", "-s", "relayed")
    scene.daemon.must("resume-relay", "-s", "relayed")
    scene.synced("shop")
    with watch.caused("DM_relay_process_exits_with_error"):
        scene.relayed.execute("RESET MASTER", "INSERT INTO shop.t VALUES (100, 0)", "COMMIT")


def _a_task_that_gets_nowhere(scene: Scene, watch: Watch) -> None:
    scene.source("plain", scene.ways[0].port)
    validators = "validators: {q: {mode: full, validate-interval: 1s, row-error-delay: 1s}}\n"
    scene.task("plain", "plain", "plain", validators, ", validator-config-name: q")
    scene.synced("plain")
    written = scene.plain.connect(autocommit=True)
    with closing(written), written.cursor() as writing:
        writing.execute("SET timestamp = UNIX_TIMESTAMP() - 700")  # as if it had been written then
        writing.execute("INSERT INTO plain.t VALUES (0, 0)")
        scene.synced("plain")
        held = scene.target.connect()
        with closing(held), held.cursor() as cursor:
            cursor.execute("LOCK TABLES plain.t READ")
            with watch.caused("DM_replication_lag", "DM_no_progress", "DM_binlog_purge_is_near"):
                for number in range(1, 20):
                    writing.execute("INSERT INTO plain.t VALUES (%s, 0)", (number,))
    scene.synced("plain")


def _statements(scene: Scene, watch: Watch) -> None:
    held = scene.target.connect(autocommit=False)
    with closing(held), held.cursor() as cursor:
        cursor.execute("SELECT * FROM plain.t")
        with watch.caused("DM_long_DDL"):
            scene.plain.execute("ALTER TABLE plain.t ADD c INT")
        held.rollback()
    scene.synced("plain")
    routes = (
        "shard-mode: pessimistic\nroutes:\n  r: {schema-pattern: parts, table-pattern: '*', target-schema: parts,"
        " target-table: t}\n"
    )
    scene.task("parts", "plain", "parts", routes, ", route-rules: [r]")
    scene.synced("parts")
    with watch.caused("DM_pending_DDL"):
        scene.plain.execute("ALTER TABLE parts.t ADD c INT")
    scene.plain.execute("ALTER TABLE parts.u ADD c INT")
    scene.synced("parts")


def _rows_that_are_wrong(scene: Scene, watch: Watch) -> None:
    with watch.caused("DM_comparison_different", "DM_validator_errors"):
        scene.target.execute("UPDATE plain.t SET v = 7 WHERE id = 3", "COMMIT")
        scene.daemon.dmctl("diff", "plain")
        scene.target.execute("CREATE TRIGGER plain.wrong BEFORE INSERT ON plain.t FOR EACH ROW SET NEW.v = 9")
        scene.plain.execute("INSERT INTO plain.t (id, v) VALUES (200, 0)", "COMMIT")
    with watch.caused("DM_task_state", "DM_sync_process_exists_with_error"):
        scene.target.execute("DELETE FROM plain.t WHERE id = 4", "COMMIT")
        scene.plain.execute("UPDATE plain.t SET v = 1 WHERE id = 4", "COMMIT")


def _loads_that_fail(scene: Scene, watch: Watch) -> None:
    scene.plain.execute("USE full", "INSERT INTO t SELECT seq, seq FROM seq_1_to_200000", "COMMIT")
    mydumpers = "mydumpers: {d: {where: no_such_column = 1}}\n"
    with watch.caused("DM_dump_process_exists_with_error"):
        scene.task("dumped", "plain", "full", mydumpers, ", mydumper-config-name: d", mode="full")
    scene.target.execute(
        "CREATE TABLE full.t (id INT PRIMARY KEY, v INT)", "INSERT INTO full.t VALUES (1, 5)", "COMMIT"
    )
    small = "mydumpers: {d: {rows: 2000}}\nloaders: {l: {on-duplicate-logical: error}}\n"
    with watch.caused("DM_load_process_exists_with_error"):
        scene.ways[0].slow(60_000, "down")  # so that the dump takes longer than it takes to look
        scene.task("loaded", "plain", "full", small, ", mydumper-config-name: d, loader-config-name: l", mode="full")
        watch.until_answered("dm_dumpling_remaining_time")
        scene.ways[0].heal()


def _a_load_that_takes_long(scene: Scene, watch: Watch) -> None:
    """The time that is left is known when the second part of 16 MiB is there."""
    scene.plain.execute(
        "SET sql_log_bin = 0", "CREATE DATABASE wide", "USE wide", "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)",
        "INSERT INTO t SELECT seq, REPEAT('x', 1 << 20) FROM seq_1_to_96", "COMMIT",
    )  # fmt: skip
    scene.ways[1].slow(2 << 20, "up")
    scene.task("wide", "plain", "wide", mode="full")
    watch.until_answered("dm_loader_remaining_time")
    scene.ways[1].heal()
    scene.daemon.wait("wide", lambda status: status["plain"]["stage"] == "Finished", "loaded")


def _servers_that_are_away(scene: Scene, watch: Watch) -> None:
    scene.task("other", "plain", "other")
    scene.synced("other")
    with watch.caused("DM_source_unreachable"):
        scene.ways[0].refuse()
        scene.ways[0].cut()
    scene.ways[0].heal()
    scene.synced("other")
    with watch.caused("DM_target_unreachable"):
        scene.ways[1].refuse()
        scene.ways[1].cut()
    scene.ways[1].heal()


def _a_table_aside(scene: Scene, watch: Watch) -> None:
    with watch.caused("DM_table_aside"):
        scene.daemon.must("table", "hold", "other", "other.t")
    scene.daemon.must("table", "release", "other", "other.t")
    scene.synced("other")


def _a_cut_over_that_rests(scene: Scene, watch: Watch) -> None:
    hook = scene.daemon.directory / "hook"
    hook.write_text("#!/bin/sh\n[ $1 != switch ]\n")
    hook.chmod(0o700)
    words = ("cut-over", "other", "--yes", "--no-way-back", "--prove", "none", "--hook", str(hook))
    with watch.caused("DM_cut_over_rests"):
        assert scene.daemon.said(*words).status == 1
    hook.write_text("#!/bin/sh\n")
    scene.daemon.must(*words)
    scene.daemon.must("cut-over", "other", "--complete")
