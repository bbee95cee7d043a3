"""A host is lost with its home, while something of its task was under way: the next owner goes on from the target.

`tests/testbed/lost_home.py` has the two members; `test_lost_dumps.py` has the dumps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dm.cli.client import Client
from dm.demo.servers import ThrowawayServer
from dm.verbs.cutover import BeginCutOver
from tests.testbed.cluster import Cluster
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.lost_home import SECONDS, LostHome
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(900)]


@pytest.fixture
def alone(cluster: Cluster, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> LostHome:
    """A task of one source."""
    return LostHome(cluster, target, schema(upstream, target), {"one": upstream})


@pytest.mark.spark
def test_tables_that_are_loaded_to_join_are_loaded_again(
    alone: LostHome, upstream: ThrowawayServer, target: ThrowawayServer, tmp_path: Path
) -> None:
    name, cluster = alone.schema, alone.cluster
    for table in ("first", "late"):
        upstream.execute(
            f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name}.{table} VALUES (1, 1)"
        )
    target.execute(f"CREATE TABLE {name}.first (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name}.first VALUES (1, 1)")
    alone.begin(f"dumper.before_p1=hang:{tmp_path / 'never'}")
    ends = alone.ends()

    def listed(*tables: str) -> str:
        lists = {"l": {"do-tables": [{"db-name": name, "tbl-name": table} for table in tables]}}
        return alone.file(ends, **{"block-allow-list": lists, "task-mode": "incremental"})

    alone.start(listed("first"))
    cluster["a"].must("update-task", listed("first", "late"), "--yes")

    def joining() -> bool:
        said = cluster["a"].status("t")["one"].get("joining")
        return isinstance(said, dict) and said.get("unit") == "Dump"

    wait_until(joining, "the table is read", SECONDS)
    upstream.execute(f"INSERT INTO {name}.late VALUES (2, 2)")
    alone.lose()
    for table in ("first", "late"):
        upstream.execute(f"INSERT INTO {name}.{table} VALUES (3, 3)")
        alone.until_same(table)
    wait_until(lambda: not alone.state().get("joining"), "the table has joined", SECONDS)


def test_a_shard_that_waits_for_another_goes_on_waiting(
    cluster: Cluster, upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*upstreams, target)
    sources = dict(zip(("one", "two"), upstreams, strict=True))
    target.execute(f"CREATE TABLE {name}.whole (id INT PRIMARY KEY, v INT)")
    for source, server in sources.items():
        server.execute(f"CREATE TABLE {name}.part_{source} (id INT PRIMARY KEY, v INT)")
    lost = LostHome(cluster, target, name, sources)
    lost.begin()
    route = {"schema-pattern": name, "table-pattern": "part_*", "target-schema": name, "target-table": "whole"}
    more: dict[str, Any] = {"shard-mode": "pessimistic", "routes": {"r": route}}
    lost.start(lost.following({"route-rules": ["r"]}, **more))
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
    lost.lose()
    two.execute(f"INSERT INTO {name}.part_two VALUES (12, 12)")
    wait_until(lambda: target.query(f"SELECT COUNT(*) FROM {name}.whole")[0][0] == 3, "the other one goes on", SECONDS)
    assert waits()
    assert len(target.query(f"SHOW COLUMNS FROM {name}.whole")) == 2
    two.execute(f"ALTER TABLE {name}.part_two ADD COLUMN c INT", f"INSERT INTO {name}.part_two VALUES (13, 13, 13)")
    wanted = ((1, 1, None), (2, 2, 2), (11, 11, None), (12, 12, None), (13, 13, 13))
    wait_until(lambda: len(target.query(f"SHOW COLUMNS FROM {name}.whole")) == 3, "the DDL runs", SECONDS)
    wait_until(lambda: target.query(f"SELECT * FROM {name}.whole ORDER BY id") == wanted, "all rows", SECONDS)


def test_a_validator_keeps_what_it_has_found_and_goes_on(
    alone: LostHome, upstream: ThrowawayServer, target: ThrowawayServer
) -> None:
    name, cluster = alone.schema, alone.cluster
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.rows_of (id INT PRIMARY KEY, v INT)")
    alone.begin()
    often = {"v": {"mode": "full", "row-error-delay": "1s"}}
    alone.start(alone.following({"validator-config-name": "v"}, validators=often))
    # What the target makes of a row is seen by the validator alone.
    target.execute(
        f"CREATE TRIGGER {name}.wrong BEFORE INSERT ON {name}.rows_of FOR EACH ROW"
        " SET NEW.v = IF(NEW.id IN (13, 14), 0, NEW.v)"
    )

    def found(at: str) -> int:
        return len(cluster[at].said("validation", "show-error", "t", "-o", "json").json()["error"])

    upstream.execute(f"INSERT INTO {name}.rows_of VALUES (1, 1), (13, 1)")
    wait_until(lambda: found("a") == 1, "the row is found", SECONDS)
    alone.lose()
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
    lost = LostHome(cluster, target, "move", {"one": source})
    lost.begin()
    lost.start(lost.following())
    source.execute("INSERT INTO move.t VALUES (1, 1)")
    lost.until_same("t")
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
    lost.lose()
    wait_until(lambda: state("b") == "switched", "the next owner switches", SECONDS)
    assert log.read_text().split() == ["switch", "switch"]
    cluster["b"].must("cut-over", "t", "--complete")
