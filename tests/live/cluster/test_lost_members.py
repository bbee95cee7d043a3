"""A member that is frozen beyond its lease and thawed, and one that is cut off from etcd alone: the other goes on."""

from __future__ import annotations

import os
import signal

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.cluster import SOURCES, Cluster, ClusterTask
from tests.testbed.etcd import EtcdServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.proxy import FaultProxy
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.chaos]


@pytest.fixture
def task(
    cluster: Cluster, upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> ClusterTask:
    made = ClusterTask(cluster, upstreams, target, schema(*upstreams, target))
    made.prepare()
    return made


def begin(cluster: Cluster, task: ClusterTask) -> None:
    """A source at each of two members, and the task on both."""
    cluster.start("a", "b")
    for source, server, member in zip(SOURCES, task.upstreams, ("a", "b"), strict=True):
        file = cluster.source_file(source, server)
        cluster["a"].must("operate-source", "create", file, "-w", member)
    cluster.until_owned("a", {"one": "a", "two": "b"})
    cluster["a"].must("start-task", task.file())
    task.arrives()


def test_a_frozen_member_finds_its_sources_with_another_one(cluster: Cluster, task: ClusterTask) -> None:
    begin(cluster, task)
    a, b = cluster["a"], cluster["b"]
    os.kill(b.pid, signal.SIGSTOP)  # its units go on, until they are fenced
    task.write()
    cluster.until_owned("a", dict.fromkeys(SOURCES, "a"))
    task.arrives()
    os.kill(b.pid, signal.SIGCONT)
    wait_until(lambda: not b.hosts(), "the member lets go of what it had", 120)
    wait_until(lambda: cluster.owners("b") == dict.fromkeys(SOURCES, "a"), "it knows who has them")
    task.arrives()
    assert {one["stage"] for one in b.status("t").values()} == {"Running"}
    b.must("transfer-source", "two", "b")
    cluster.until_owned("a", {"two": "b"})
    task.arrives()
    assert a.hosts().keys() == {"sync:t:one"}


def test_a_member_that_is_cut_off_from_etcd_is_fenced_and_rests(
    cluster: Cluster, task: ClusterTask, own_etcd: EtcdServer
) -> None:
    host, _, port = own_etcd.endpoint.removeprefix("http://").partition(":")
    with FaultProxy(host, int(port)) as way:
        cluster.endpoints["b"] = f"http://{way.host}:{way.port}"
        begin(cluster, task)
        a, b = cluster["a"], cluster["b"]
        way.stall()
        task.write()
        cluster.until_owned("a", dict.fromkeys(SOURCES, "a"))
        task.arrives()
        refused = b.said("pause-task", "t", "-s", "two")
        assert refused.status != 0
        assert "etcd can't be reached" in refused.err
        way.heal()
        wait_until(lambda: not b.hosts(), "the member lets go of what it had", 120)
        wait_until(lambda: cluster.owners("b") == dict.fromkeys(SOURCES, "a"), "it knows who has them")
        assert {one["stage"] for one in b.status("t").values()} == {"Running"}
        task.arrives()
        assert a.hosts().keys() == {"sync:t:one", "sync:t:two"}
        way.close()
