"""A real Prometheus, with the configuration of docs/metrics.md, the rules and the board's queries, and a daemon."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.hold.replica import Replica
from tests.testbed import alert_rules
from tests.testbed.park import ServerPark
from tests.testbed.prometheus import Prometheus
from tests.unit.docs.document import ROOT, blocks

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

PAGE = ROOT / "docs" / "metrics.md"
(CONFIGURATION,) = (block.text for block in blocks(PAGE.read_text(encoding="utf-8")) if block.language == "yaml")
BOARD = json.loads((ROOT / "monitoring" / "dm.grafana.json").read_text(encoding="utf-8"))
SECONDS = 60.0  # a limit for what hangs


@pytest.fixture(scope="module")
def replica(park: ServerPark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """A task that follows through a relay and has done one transaction."""
    servers = [park.own("mariadb", gtid=True, options={}).start() for _ in range(2)]
    one = Replica(servers[0], servers[1], tmp_path_factory.mktemp("daemon"), relay=True)
    one.prepare("incremental")
    one.daemon.start("--metrics-addr", "127.0.0.1:0")
    one.start()
    one.await_synced()  # without `meta` a task begins at the end of the binlog that it finds
    one.write()
    one.await_synced()
    yield one
    one.daemon.stop()
    for server in servers:
        server.destroy()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory, replica: Replica) -> Iterator[Prometheus]:
    one = Prometheus(tmp_path_factory.mktemp("prometheus"))
    yield one.start(configuration(replica, one.directory))
    one.stop()


def configuration(replica: Replica, directory: Path) -> str:
    """The page's, with this daemon's port and token, and a second job that has another token."""
    port = re.search(r'"metrics": "([^"]+)"', replica.daemon.log.read_text(encoding="utf-8"))
    assert port is not None
    right, wrong = directory / "dm.token", directory / "wrong.token"
    right.write_text((replica.daemon.home / "metrics-token").read_text(encoding="ascii"), encoding="ascii")
    wrong.write_text("canary-9d1e", encoding="ascii")
    alert_rules.sooner(directory)
    assert CONFIGURATION.count("/etc/prometheus/dm.token") == CONFIGURATION.count("127.0.0.1:8262") == 1
    here = CONFIGURATION.replace("/etc/prometheus/dm.token", str(right)).replace("127.0.0.1:8262", port[1])
    stranger = (
        f"  - {{job_name: stranger, authorization: {{credentials_file: {wrong}}},"
        f" static_configs: [{{targets: ['{port[1]}']}}]}}\nrule_files:"
    )
    return "global: {scrape_interval: 1s, evaluation_interval: 1s}\n" + here.replace("rule_files:", stranger)


def test_what_a_task_does_is_seen_by_prometheus(replica: Replica, prometheus: Prometheus) -> None:
    labels = prometheus.until('dm_worker_task_state{job="dm"}', 2)
    assert (labels["task"], labels["source_id"]) == (replica.task, "one")
    sync = replica.status()["sync"]
    prometheus.until("dm_syncer_finished_rows_total", float(sync["totalRows"]))
    prometheus.until("dm_syncer_finished_transaction_total", float(sync["totalTransactions"]))
    prometheus.until('sum(dm_syncer_finished_jobs_total{target_table="keyless",type="insert"})', 2)
    prometheus.until("dm_syncer_synced", 1)
    prometheus.until('dm_syncer_binlog_pos{node="master"} - ignoring(node) dm_syncer_binlog_pos{node="syncer"}', 0)
    prometheus.until('dm_relay_binlog_pos{node="master"} - ignoring(node) dm_relay_binlog_pos{node="relay"}', 0)
    prometheus.until('dm_relay_space{type="available"} > bool 0', 1)
    prometheus.until("dm_syncer_replication_lag_gauge > bool 60", 0)
    replica.daemon.must("pause-task", replica.task)
    prometheus.until('dm_worker_task_state{job="dm"}', 3)
    replica.daemon.must("resume-task", replica.task)


def test_a_cause_fires_its_alert_and_its_end_ends_it(replica: Replica, prometheus: Prometheus) -> None:
    """A sample; tests/live/worker/test_alerts.py fires all of them."""
    for pause, resume, alert in (
        (("pause-task", replica.task), ("resume-task", replica.task), "DM_task_state"),
        (("pause-relay", "-s", "one"), ("resume-relay", "-s", "one"), "DM_relay_of_task_rests"),
    ):
        firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
        prometheus.until(firing, 0)
        replica.daemon.said(*pause)
        prometheus.until(firing, 1)
        replica.daemon.said(*resume)
        prometheus.until(firing, 0)


def test_who_has_another_token_sees_nothing(replica: Replica, prometheus: Prometheus) -> None:
    prometheus.until('up{job="dm"}', 1)
    prometheus.until('up{job="stranger"}', 0)
    stranger = next(one for one in prometheus.targets() if one["labels"]["job"] == "stranger")
    assert "401" in stranger["lastError"]
    assert [found for found in prometheus.query("dm_worker_info") if found[0]["job"] == "stranger"] == []
    assert "canary-9d1e" not in replica.daemon.log.read_text(encoding="utf-8")


def test_the_queries_of_the_board_are_answered(replica: Replica, prometheus: Prometheus) -> None:
    prometheus.until('dm_worker_task_state{job="dm"}', 2)
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"].replace("$task", ".*").replace("$source", ".*")
            prometheus.query(query)  # raises for a query that Prometheus does not understand
            if panel["title"] in ("Stage", "Lag", "Rows", "Disk", "Servers answer", "Memory of queued rows"):
                prometheus.until(f"count(count({query})) or vector(0)", 1)


def test_the_rules_can_be_evaluated(prometheus: Prometheus) -> None:
    deadline = time.monotonic() + SECONDS
    while [rule["health"] for rule in prometheus.rules()] != ["ok"] * len(alert_rules.names()):
        assert time.monotonic() < deadline, prometheus.rules()
        time.sleep(0.1)
