"""A source that was rebuilt without GTIDs is used again under its name, by the verbs that a person tries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.cli.newcomer import Newcomer
from tests.testbed.fixtures import ServerFactory
from tests.testbed.park import ServerPark

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos]


@pytest.fixture
def person(server: ServerFactory, park: ServerPark, tmp_path: Path) -> Iterator[Newcomer]:
    one = Newcomer(server("mysql", gtid=False), park.shared("mariadb", "target"), tmp_path)
    with one.daemon:
        yield one
        one.close()


def rebuilt(person: Newcomer, server: ThrowawayServer) -> None:
    """The source's file leads to another server with the same tables and other rows."""
    person.upstream = server
    server.execute(
        f"CREATE DATABASE {person.schema}",
        f"CREATE TABLE {person.schema}.orders (id INT PRIMARY KEY, v VARCHAR(20))",
        f"INSERT INTO {person.schema}.orders VALUES (1, 'rebuilt'), (3, 'three')",
    )
    person.file("source.yaml", person.source_text("here", person.good_source_user()))


def synced(person: Newcomer, task: str) -> None:
    person.daemon.must("wait", task, "--synced", "--timeout", "100")
    rows = person.upstream.query(f"SELECT id, v FROM {person.schema}.orders ORDER BY id")
    assert person.target.query(f"SELECT id, v FROM {person.schema}.orders ORDER BY id") == rows


def test_a_rebuilt_source_is_loaded_again(person: Newcomer, server: ServerFactory) -> None:
    must, user = person.daemon.must, person.good_target_user()
    person.file("source.yaml", person.source_text("here", person.good_source_user()))
    for task in ("orders", "again"):
        person.file(f"{task}.yaml", person.task_text(task, "here", user, mode="all"))
    must("operate-source", "create", "source.yaml")
    must("start-task", "orders.yaml")
    synced(person, "orders")

    must("pause-task", "orders")
    rebuilt(person, server("mysql", gtid=False))
    must("operate-source", "update", "source.yaml")
    stuck = person.daemon.dmctl("resume-relay", "-s", "here")
    if "its stage is Running" in stuck.err:  # it has yet to notice
        stuck = person.daemon.dmctl("start-relay", "-s", "here")
    assert (stuck.status, "error 30034" in stuck.out) == (1, True), str(stuck)
    assert "--remove-meta" in stuck.out

    must("stop-task", "orders")
    person.target.execute(f"TRUNCATE {person.schema}.orders")
    must("start-task", "orders.yaml", "--remove-meta")
    synced(person, "orders")

    must("stop-task", "orders", "--remove-meta")
    rebuilt(person, server("mysql", gtid=False))
    must("operate-source", "update", "source.yaml")
    person.target.execute(f"TRUNCATE {person.schema}.orders")
    must("start-task", "again.yaml")
    synced(person, "again")
    person.upstream.execute(f"INSERT INTO {person.schema}.orders VALUES (4, 'later')")
    synced(person, "again")

    must("stop-task", "again")
    rebuilt(person, server("mysql", gtid=False))
    assert "its relay is removed" in must("operate-source", "stop", "here").out
    must("operate-source", "create", "source.yaml")
    refused = person.daemon.dmctl("start-task", "again.yaml")
    assert refused.status != 0, f"its checkpoint is of another server: {refused}"
    must("stop-task", "again")
    assert "progress/again" in must("forgotten", "list", "--file", "again.yaml").out
    must("forgotten", "remove", "progress/again", "--file", "again.yaml")
    person.target.execute(f"TRUNCATE {person.schema}.orders")
    must("start-task", "again.yaml")
    synced(person, "again")
