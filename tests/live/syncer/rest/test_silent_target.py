"""What a syncer says while a server of its is gone, frozen or busy with a DDL, and its source has nothing to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for, wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


@pytest.fixture
def own_server(server: ServerFactory, flavor: Flavor) -> Iterator[ThrowawayServer]:
    """One that may be killed."""
    own = server(flavor)
    yield own
    own.thaw()


def synced_with(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> tuple[RunningSync, ThrowawayServer]:
    name = schema(upstream)
    for each in (upstream, target):
        each.execute(f"CREATE DATABASE IF NOT EXISTS {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    sync = RunningSync(subtask_for(upstream, target, name, task=name), None)
    sync.wait_synced()
    return sync, target


def test_a_dead_target_ends_the_run_though_nothing_is_to_be_written(
    upstream: ThrowawayServer, own_server: ThrowawayServer, schema: SchemaFactory
) -> None:
    sync, target = synced_with(upstream, own_server, schema)
    target.kill()
    sync.unit.refresh(5)
    assert sync.unit.status()["synced"] is False
    error = sync.wait_ended()
    assert isinstance(error, DMError)
    assert error.retryable


def test_with_a_frozen_target_nobody_is_synced_and_lag_counts_on(
    upstream: ThrowawayServer, own_server: ThrowawayServer, schema: SchemaFactory
) -> None:
    sync, target = synced_with(upstream, own_server, schema)
    target.freeze()
    sync.unit.refresh(1)
    first = sync.unit.status()
    assert (first["synced"], first["sourceAnswers"], first["targetAnswers"]) == (False, True, False)
    wait_until(lambda: "has not answered" in str(sync.unit.status()["waiting"]), "it is said")
    said = float(str(first["secondsBehindMaster"]))
    wait_until(lambda: float(str(sync.unit.status()["secondsBehindMaster"])) > said + 1, "lag counts on")
    target.thaw()
    sync.wait_synced()
    sync.stop()
    assert sync.error is None


def test_a_frozen_source_leaves_the_target_time_to_answer(
    own_server: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(own_server, target)
    with running_sync(subtask_for(own_server, target, name, task=name)) as sync:
        sync.wait_synced()
        own_server.freeze()
        sync.unit.refresh(1)
        status = sync.unit.status()
        own_server.thaw()
        assert (status["synced"], status["sourceAnswers"], status["targetAnswers"]) == (False, False, True)
        sync.wait_synced()


def test_a_ddl_that_the_target_works_on_is_named_with_its_age(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for each in (upstream, target):
        each.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        reader = target.connect()
        with reader.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"SELECT * FROM {name}.t")  # its metadata lock holds the ALTER
            upstream.execute(f"ALTER TABLE {name}.t ADD COLUMN v INT")
            wait_until(lambda: bool(sync.unit.status()["blockingDDLs"]), "the ALTER runs")
            wait_until(lambda: int(str(sync.unit.status()["blockingDDLSeconds"] or 0)) >= 1, "it gets older")
            status = sync.unit.status()
            assert "ADD COLUMN v INT" in str(status["blockingDDLs"])
            assert status["synced"] is False
            cursor.execute("COMMIT")
        reader.close()
        status = sync.wait_synced()
        assert (status["blockingDDLs"], status["blockingDDLSeconds"]) == ([], None)
