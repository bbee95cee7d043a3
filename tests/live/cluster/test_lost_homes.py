"""A host is lost with its home, while something of its task was under way: the next owner goes on from the target.

Member `a` has the task until its daemon is killed and its home is removed. Member `b` has nothing but etcd, the servers
and what is stored at the target. Where `a` has to be lost at one moment, a fault point holds it there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dm.cli.client import Client
from dm.demo.servers import ThrowawayServer
from dm.verbs.cutover import BeginCutOver
from tests.testbed.cluster import Cluster, login
from tests.testbed.etcd import EtcdServer
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(900)]

SECONDS = 300.0


@pytest.fixture
def cluster(tmp_path: Path, own_etcd: EtcdServer) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", own_etcd) as made:
        yield made


def begin(cluster: Cluster, sources: dict[str, ThrowawayServer], fault: str = "") -> None:
    """Both members live, and `a` has the sources."""
    cluster.start("a", **({"DM_FAULTS": fault} if fault else {}))
    cluster.start("b")
    for name, server in sources.items():
        cluster["a"].must("operate-source", "create", cluster.source_file(name, server), "-w", "a")
    cluster.until_owned("b", dict.fromkeys(sources, "a"))


def lose(cluster: Cluster, *sources: str) -> None:
    """The host of `a` is gone with all that it had."""
    cluster["a"].kill()
    shutil.rmtree(cluster["a"].home)
    cluster.until_owned("b", dict.fromkeys(sources, "b"))


def task_file(cluster: Cluster, target: ThrowawayServer, schema: str, sources: dict[str, Any], **more: Any) -> str:
    """A task in mode `all`; of each source what its instance says besides."""
    return cluster.file(
        "task.yaml",
        {
            "name": "t", "task-mode": "all", "meta-schema": f"meta_{schema}", "target-database": login(target),
            "mysql-instances": [
                {"source-id": name, "block-allow-list": "l", **said} for name, said in sources.items()
            ],
            "block-allow-list": {"l": {"do-dbs": [schema]}}, **more,
        },
    )  # fmt: skip


def same(schema: str, table: str, one: ThrowawayServer, other: ThrowawayServer) -> bool:
    query = f"SELECT * FROM {schema}.{table} ORDER BY 1, 2"
    return bool(other.query(f"SHOW TABLES FROM {schema} LIKE '{table}'")) and one.query(query) == other.query(query)


def until_same(schema: str, table: str, one: ThrowawayServer, other: ThrowawayServer) -> None:
    wait_until(lambda: same(schema, table, one, other), f"{table} is as at the source", SECONDS)


@pytest.mark.spark
def test_tables_that_are_loaded_to_join_are_loaded_again(
    cluster: Cluster, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for table in ("first", "late"):
        upstream.execute(
            f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name}.{table} VALUES (1, 1)"
        )
    target.execute(f"CREATE TABLE {name}.first (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name}.first VALUES (1, 1)")
    begin(cluster, {"one": upstream}, f"dumper.before_p1=hang:{tmp_path / 'never'}")
    end = dict(zip(("binlog-name", "binlog-pos"), upstream.query("SHOW BINARY LOGS")[-1][:2], strict=True))

    def listed(*tables: str) -> str:
        lists = {"l": {"do-tables": [{"db-name": name, "tbl-name": table} for table in tables]}}
        more: dict[str, Any] = {"block-allow-list": lists, "task-mode": "incremental"}
        return task_file(cluster, target, name, {"one": {"meta": end}}, **more)

    cluster["a"].must("start-task", listed("first"))
    cluster["a"].must("update-task", listed("first", "late"), "--yes")

    def joining() -> bool:
        said = cluster["a"].status("t")["one"].get("joining")
        return isinstance(said, dict) and said.get("unit") == "Dump"

    wait_until(joining, "the table is read", SECONDS)
    upstream.execute(f"INSERT INTO {name}.late VALUES (2, 2)")
    lose(cluster, "one")
    for table in ("first", "late"):
        upstream.execute(f"INSERT INTO {name}.{table} VALUES (3, 3)")
        until_same(name, table, upstream, target)
    wait_until(lambda: not cluster["b"].status("t")["one"].get("joining"), "the table has joined", SECONDS)


def test_a_shard_that_waits_for_another_goes_on_waiting(
    cluster: Cluster, upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*upstreams, target)
    sources = dict(zip(("one", "two"), upstreams, strict=True))
    target.execute(f"CREATE TABLE {name}.whole (id INT PRIMARY KEY, v INT)")
    instances = {}
    for source, server in sources.items():
        server.execute(f"CREATE TABLE {name}.part_{source} (id INT PRIMARY KEY, v INT)")
        end = dict(zip(("binlog-name", "binlog-pos"), server.query("SHOW BINARY LOGS")[-1][:2], strict=True))
        instances[source] = {"meta": end, "route-rules": ["r"]}
    begin(cluster, sources)
    route = {"schema-pattern": name, "table-pattern": "part_*", "target-schema": name, "target-table": "whole"}
    more: dict[str, Any] = {"shard-mode": "pessimistic", "routes": {"r": route}, "task-mode": "incremental"}
    cluster["a"].must("start-task", task_file(cluster, target, name, instances, **more))
    one, two = upstreams
    one.execute(
        f"INSERT INTO {name}.part_one VALUES (1, 1)",
        f"ALTER TABLE {name}.part_one ADD COLUMN c INT",
        f"INSERT INTO {name}.part_one VALUES (2, 2, 2)",
    )
    two.execute(f"INSERT INTO {name}.part_two VALUES (11, 11)")

    def waits() -> bool:
        return bool(cluster["b"].said("shard-ddl-lock", "list", "t", "-o", "json").json()["locks"])

    wait_until(waits, "the shard waits", SECONDS)
    wait_until(lambda: target.query(f"SELECT COUNT(*) FROM {name}.whole")[0][0] == 2, "the rows before it", SECONDS)
    lose(cluster, *sources)
    two.execute(f"INSERT INTO {name}.part_two VALUES (12, 12)")
    wait_until(lambda: target.query(f"SELECT COUNT(*) FROM {name}.whole")[0][0] == 3, "the other one goes on", SECONDS)
    assert waits()
    assert len(target.query(f"SHOW COLUMNS FROM {name}.whole")) == 2
    two.execute(f"ALTER TABLE {name}.part_two ADD COLUMN c INT", f"INSERT INTO {name}.part_two VALUES (13, 13, 13)")
    wanted = ((1, 1, None), (2, 2, 2), (11, 11, None), (12, 12, None), (13, 13, 13))
    wait_until(lambda: len(target.query(f"SHOW COLUMNS FROM {name}.whole")) == 3, "the DDL runs", SECONDS)
    wait_until(lambda: target.query(f"SELECT * FROM {name}.whole ORDER BY id") == wanted, "all rows", SECONDS)


def test_a_validator_keeps_what_it_has_found_and_goes_on(
    cluster: Cluster, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.rows_of (id INT PRIMARY KEY, v INT)")
    begin(cluster, {"one": upstream})
    end = dict(zip(("binlog-name", "binlog-pos"), upstream.query("SHOW BINARY LOGS")[-1][:2], strict=True))
    often = {"v": {"mode": "full", "row-error-delay": "1s"}}
    more: dict[str, Any] = {"task-mode": "incremental", "validators": often}
    instance = {"meta": end, "validator-config-name": "v"}
    cluster["a"].must("start-task", task_file(cluster, target, name, {"one": instance}, **more))
    # What the target makes of a row is seen by the validator alone.
    target.execute(
        f"CREATE TRIGGER {name}.wrong BEFORE INSERT ON {name}.rows_of FOR EACH ROW"
        " SET NEW.v = IF(NEW.id IN (13, 14), 0, NEW.v)"
    )

    def found(at: str) -> int:
        return len(cluster[at].said("validation", "show-error", "t", "-o", "json").json()["error"])

    upstream.execute(f"INSERT INTO {name}.rows_of VALUES (1, 1), (13, 1)")
    wait_until(lambda: found("a") == 1, "the row is found", SECONDS)
    lose(cluster, "one")
    wait_until(lambda: found("b") == 1, "it is still known", SECONDS)
    upstream.execute(f"INSERT INTO {name}.rows_of VALUES (2, 2), (14, 1)")
    wait_until(lambda: found("b") == 2, "the validator goes on", SECONDS)


def test_a_cut_over_goes_on(cluster: Cluster, server: ServerFactory, tmp_path: Path) -> None:
    source, target = server("mysql"), server("mysql")
    for each in (source, target):
        each.execute("CREATE DATABASE move", "CREATE TABLE move.t (id INT PRIMARY KEY, v INT)")
    gate, log, hook = tmp_path / "gate", tmp_path / "hook.log", tmp_path / "hook"
    hook.write_text(  # it has looked at the gate before it says so
        f'#!/bin/sh\n[ "$1" = switch ] || exit 3\n[ -e {gate} ]; shut=$?\necho "$1" >> {log}\n'
        "[ $shut = 0 ] || exec sleep 600\n"
    )
    hook.chmod(0o700)
    begin(cluster, {"one": source})
    end = dict(zip(("binlog-name", "binlog-pos"), source.query("SHOW BINARY LOGS")[-1][:2], strict=True))
    cluster["a"].must(
        "start-task", task_file(cluster, target, "move", {"one": {"meta": end}}, **{"task-mode": "incremental"})
    )
    source.execute("INSERT INTO move.t VALUES (1, 1)")
    until_same("move", "t", source, target)
    cluster["a"].must("wait", "t", "--synced", "--timeout", "120")

    def state(at: str) -> Any:
        said = cluster[at].said("cut-over", "t", "--status", "-o", "json")
        return said.json()["state"] if said.out else None

    Client(None, {"DM_HOME": str(cluster["a"].home)}, lambda _: None).ask(
        BeginCutOver(task="t", way_back=False, hook=str(hook), prove="none")
    )
    wait_until(lambda: log.exists() and log.read_text() == "switch\n", "the hook runs", SECONDS)
    assert state("b") == "switching"  # which the owner tells
    gate.touch()  # for the next owner, who may call the hook at once; the one that runs goes on waiting
    lose(cluster, "one")
    wait_until(lambda: state("b") == "switched", "the next owner switches", SECONDS)
    assert log.read_text().split() == ["switch", "switch"]
    cluster["b"].must("cut-over", "t", "--complete")
