"""Members of a cluster with real servers: who runs what, who takes over, and what any of them answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dm.cluster.members import ClusterRecord
from dm.demo.servers import ThrowawayServer
from dm.worker.exchange import over_socket
from dm.worker.home import Home
from tests.testbed import alert_rules
from tests.testbed.certificates import Authority
from tests.testbed.cluster import SOURCES, Cluster, ClusterTask
from tests.testbed.daemon import Daemon
from tests.testbed.etcd import PASSWORD, EtcdServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.prometheus import Prometheus
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def told(daemon: Daemon, path: str) -> Any:
    """What a route of the API answers."""
    with Home(daemon.home).socket_path() as name:
        status, text = over_socket(name, ("GET", f"/api/{path}", None), 60)
    assert status == 200, text
    return json.loads(text)


def v1(daemon: Daemon, path: str) -> Any:
    """What DM's OpenAPI answers."""
    return told(daemon, f"v1/{path}")


def test_members_and_etcd_with_tls_and_passwords(tmp_path: Path, mysql: ThrowawayServer) -> None:
    authority = Authority(tmp_path / "ca")
    with EtcdServer(tmp_path / "etcd", authority) as etcd:
        etcd.demand_password()
        with Cluster(tmp_path / "cluster", etcd) as cluster:
            cluster.start("a", "b")
            a, b = cluster["a"], cluster["b"]
            a.must("operate-source", "create", cluster.source_file("one", mysql), "-w", "zone=of-b")
            cluster.until_owned("a", {"one": "b"})
            b.must("start-relay", "-s", "one", "-w", "b")
            refused = a.said("start-relay", "-s", "one", "-w", "a")
            assert "source one is run by member b" in refused.err
            (shown,) = a.said("operate-source", "show", "-o", "json").json()["sources"]
            assert (shown["worker"], shown["relayStatus"]["stage"]) == ("b", "Running")

            # A permission counts at the member that is asked.
            reader = tmp_path / "reader"
            reader.write_text(a.must("token", "create", "anna", "--permission", "read").out)
            as_anna = ("--ssl-ca", str(authority.file), "--addr", cluster.address("a"), "--token-file", str(reader))
            (shown,) = a.said(*as_anna, "operate-source", "show", "-o", "json").json()["sources"]
            assert (shown["worker"], shown["relayStatus"]["stage"]) == ("b", "Running")
            assert "Error 40921: anna has the permission `read`" in a.said(*as_anna, "stop-relay", "-s", "one").err
            a.must("stop-relay", "-s", "one")

            # Somebody with a token that is none is refused, by members as by anybody.
            shown_ca = ("--ssl-ca", str(authority.file), "--addr", cluster.address("b"))
            (tmp_path / "wrong").write_text("x" * 43)
            stranger = a.said(*shown_ca, "--token-file", str(tmp_path / "wrong"), "list-member")
            assert stranger.status != 0
            token = str(b.home / "token")
            assert a.said(*shown_ca, "--token-file", token, "list-member").status == 0
            client = etcd.client("root", PASSWORD)
            record = ClusterRecord.read(client.read("/dm/cluster").entries["/dm/cluster"].value)
            client.close()
            assert record.token not in "".join(
                path.read_text(errors="replace") for path in cluster.directory.rglob("*.log*") if path.is_file()
            )


@pytest.mark.ci_flavor("mysql")
def test_a_task_survives_its_hosts(
    cluster: Cluster, upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    task = ClusterTask(cluster, upstreams, target, schema(*upstreams, target))
    task.prepare()
    cluster.start("a", "b")
    a, b = cluster["a"], cluster["b"]
    files = [cluster.source_file(source, server) for source, server in zip(SOURCES, upstreams, strict=True)]
    a.must("operate-source", "create", *files)
    for name in "ab":
        cluster.until_owned(name, dict.fromkeys(SOURCES))
    assert sorted(cluster.owners("a").values()) == ["a", "b"]  # fewest subtasks each
    a.must("start-task", task.file())
    task.arrives()

    # Any member tells of all, and takes a verb for all.
    for each in (a, b):
        status = each.status("t")
        assert {source: one["stage"] for source, one in status.items()} == {"one": "Running", "two": "Running"}
        (listed,) = each.said("query-status", "-o", "json").json()["tasks"]
        assert listed == {"taskName": "t", "taskStatus": "Running", "sources": ["one", "two"]}
        shown = each.said("operate-source", "show", "-o", "json").json()["sources"]
        assert {line["source"]: line["worker"] for line in shown} == cluster.owners("a")
        assert {line["name"] for line in v1(each, "cluster/masters")["data"]} == {"a", "b"}
        workers = v1(each, "cluster/workers")["data"]
        assert {line["bound_source_name"]: line["name"] for line in workers} == cluster.owners("a")
        tasks = v1(each, "tasks?with_status=true")["data"]
        assert {one["source_name"]: one["stage"] for one in tasks[0]["status_list"]} == dict.fromkeys(
            SOURCES, "Running"
        )
        (first, second) = v1(each, "sources?with_status=true")["data"]
        assert (first["task_name_list"], second["task_name_list"]) == (["t"], ["t"])
    b.must("pause-task", "t")
    assert {one["stage"] for one in a.status("t").values()} == {"Paused"}
    assert {one["stage"] for one in v1(b, "tasks/t/status")["data"]} == {"Stopped"}
    a.must("resume-task", "t")
    task.arrives()
    for each in (a, b):
        assert each.said("diff", "t").status == 0  # compared at one of them, for both sources
        each.must("pace", "t", "--limit", "rows-per-second=100000")
        curves = {one["source"] for one in told(each, "v2/tasks/t/curves")["curves"]}
        assert curves == {*SOURCES}
        own = told(each, "v2/heard")["subtasks"]
        assert [one["source"]["worker"] for one in own] == ["a" if each is a else "b"]
    refused = a.said("flashback", "t", "--from", "2026-01-01 00:00:00")
    assert "task t runs on the members a, b" in refused.err
    assert "`dmctl transfer-source " in refused.err

    # A host dies: the other one takes its source over.
    b.kill()
    lost = next(source for source, owner in cluster.owners("a").items() if owner == "b")
    lines = told(a, "v2/tasks/t/status")["sources"]
    line = next(one for one in lines if one["sourceStatus"]["source"] == lost)
    assert "as it was stored last; member b was heard" in line["subTaskStatus"][0]["result"]["detail"]
    task.write()
    cluster.until_owned("a", dict.fromkeys(SOURCES, "a"))
    task.arrives()
    refused = a.said("offline-member", "--name", "a")
    assert "member a is online" in refused.err

    # It comes back, takes nothing by itself, and is given a source.
    cluster.start("b")
    assert cluster.owners("b") == {"one": "a", "two": "a"}
    b.must("transfer-source", "two", "b")
    cluster.until_owned("a", {"one": "a", "two": "b"})
    task.arrives()

    # A clean stop hands over at once.
    b.stop()
    cluster.until_owned("a", dict.fromkeys(SOURCES, "a"))
    task.arrives()
    a.must("offline-member", "--name", "b")

    # etcd gone: what runs goes on, what changes says so, and nothing is restarted when it is back.
    before = a.hosts()
    cluster.etcd.kill()
    task.arrives()
    refused = a.said("pause-task", "t")
    assert refused.status != 0
    assert "etcd can't be reached" in refused.err
    task.arrives()
    cluster.etcd.start()
    wait_until(lambda: a.said("transfer-source", "one", "a").status == 0, "etcd is back")  # it is there already
    task.arrives()
    assert a.hosts() == before
    a.must("pause-task", "t")
    a.must("resume-task", "t")
    task.arrives()


@pytest.mark.chaos
def test_an_etcd_that_is_gone_is_an_alert(cluster: Cluster, own_etcd: EtcdServer, tmp_path: Path) -> None:
    cluster.start("a")
    (tmp_path / "prometheus").mkdir()
    prometheus = Prometheus(tmp_path / "prometheus").start(
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{alert_rules.sooner(tmp_path / 'prometheus')}]\nscrape_configs:\n"
        f"  - {{job_name: dm, authorization: {{credentials_file: {cluster['a'].home / 'metrics-token'}}},"
        f" static_configs: [{{targets: ['{cluster.address('a')}']}}]}}\n"
    )
    try:
        prometheus.until("dm_worker_etcd_answers", 1)
        fires = 'count(ALERTS{alertname="DM_etcd_unreachable", alertstate="firing"})'
        wait_until(lambda: prometheus.query(fires) == [], "it is silent", 240)  # in the copy, one late renewal fires it
        own_etcd.kill()
        wait_until(lambda: [value for _, value in prometheus.query(fires)] == [1], "the alert fires", 240)
        own_etcd.start()
        wait_until(lambda: prometheus.query(fires) == [], "it fires no longer", 240)
    finally:
        prometheus.stop()
