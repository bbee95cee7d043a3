"""Members that are refused at their start, and how a cluster comes back whose etcd has lost everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.verbs.declaration import ConfigFile
from dm.worker.home import Home
from dm.worker.registry import Registry
from tests.testbed.cluster import Cluster
from tests.testbed.daemon import Daemon
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


def refused(cluster: Cluster, directory: Path, *arguments: str) -> str:
    """What a daemon says that ends at once."""
    with pytest.raises(AssertionError, match="ended at once") as said:
        Daemon(directory).start(*arguments)
    return str(said.value)


@pytest.mark.chaos
def test_names_clusters_and_homes(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start("a")
    said = refused(cluster, tmp_path / "again", *cluster.arguments("a")[:6], "--listen", "127.0.0.1:1")
    assert "a member with the name a lives at 127.0.0.1:" in said

    nothing = refused(
        cluster, tmp_path / "b", *cluster.options[:2], "--cluster-prefix", "/none/", *cluster.arguments("b")[4:]
    )
    assert "there is no cluster below /none/ in this etcd" in nothing

    cluster["a"].stop()
    assert cluster.here("cluster", "init", *cluster.options[:2], "--cluster-prefix", "/other/").status == 0
    other = refused(
        cluster,
        cluster.directory / "a",
        *cluster.options[:2],
        "--cluster-prefix",
        "/other/",
        *cluster.arguments("a")[4:],
    )
    assert "the cluster below /other/ is number" in other

    single = Home(tmp_path / "single" / "home")
    single.create()
    registry = Registry(single.registry)
    registry.put_sources({"shop": ConfigFile("shop.yaml", "text", "/", {})})
    registry.close()
    there = refused(cluster, tmp_path / "single", *cluster.arguments("c"))
    assert "has the registry of a single host with the sources shop" in there


def test_an_etcd_that_lost_its_data_is_not_taken_for_a_cluster_without_sources(cluster: Cluster) -> None:
    cluster.start("a")
    a = cluster["a"]
    source = cluster.file("s.yaml", {"source-id": "s", "from": {"host": "127.0.0.1", "port": 1, "user": "dm"}})
    home = Home(cluster.directory / "a" / "home")
    assert a.said("operate-source", "create", source).status != 0  # nobody listens there, so it is put in by hand
    a.stop()
    assert cluster.here("cluster", "export", *cluster.options, home="a").status == 0
    registry = Registry(home.registry)
    registry.put_sources({"s": ConfigFile(source, Path(source).read_text(), str(cluster.directory), {})})
    registry.close()
    assert "with 1 source of" in cluster.here("cluster", "import", *cluster.options, home="a").out
    cluster.start("a")
    cluster.until_owned("a", {"s": "a"})

    cluster.etcd.lose_data()
    wait_until(
        lambda: "etcd has lost what it kept" in a.said("operate-source", "stop", "s").err, "the loss is told", 60
    )
    assert a.said("operate-source", "show", "-o", "json").json()["sources"][0]["source"] == "s"
    a.stop()
    said = refused(cluster, cluster.directory / "a", *cluster.arguments("a"))
    assert "etcd has lost what it kept of this cluster" in said
    assert "dmctl cluster import" in said

    assert "with 1 source of" in cluster.here("cluster", "import", *cluster.options, home="a").out
    cluster.start("a")
    cluster.until_owned("a", {"s": "a"})
