"""A replay never passes over a hole: not in what the relay has of the source, nor in the relay's own files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.sourcelog.relaylog.checked_file import reported
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.spark.session import SparkProvider
from tests.live.relay.relaying import end_of
from tests.spark.replaying import Scene, run
from tests.testbed.anonymous_source import AnonymousSource
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import running_sync, wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark]


def rows_of(scene: Scene) -> set[int]:
    return {int(row[0]) for row in scene.target.query(f"SELECT id FROM {scene.there}.t")}


def pauses_there(scene: Scene) -> None:
    with scene.relayed(), running_sync(scene.subtask, scene.relay, scene.work) as sync:
        error = sync.wait_ended()
        sync.error = None
    assert isinstance(error, DMError)
    assert error.name == "relay-gap", error


@pytest.mark.parametrize("mode", ["OFF", pytest.param("OFF_PERMISSIVE", marks=pytest.mark.chaos)])
def test_what_a_source_without_gtids_has_purged_is_not_passed_over(
    mode: str,
    server: ServerFactory,
    mysql: ThrowawayServer,
    schema: SchemaFactory,
    spark: SparkProvider,
    tmp_path: Path,
) -> None:
    source = AnonymousSource(server("mysql"), mysql, schema, mode)
    name = schema(source.server)
    scene = Scene(source.server, mysql, name, tmp_path)
    with scene.session() as cursor:
        with scene.following():
            run(cursor, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        source.forget_gtids()
        with scene.following():
            run(cursor, "INSERT INTO t VALUES (2)")
        with scene.relayed():
            run(cursor, "INSERT INTO t VALUES (20)")
    source.make_hole(name)
    with scene.relayed():  # nothing holds it: it goes on after the gap
        pass
    with pytest.raises(DMError) as raised:
        scene.replay(spark, until=scene.place)
    assert raised.value.name == "relay-gap"
    scene.replay(spark)
    assert scene.checkpoint().position.gtid_set.anonymous
    source.have_gtids_again()
    source.insert(name, 6)
    with scene.relayed():
        pass
    with pytest.raises(DMError) as raised:
        scene.replay(spark)
    assert raised.value.name == "replay-nothing"
    pauses_there(scene)
    assert rows_of(scene) == {1, 2, 20}


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("spoilt", ["lost", "cut", "cut, and its index is lost"])
def test_what_the_relay_has_lost_in_between_is_not_passed_over(
    spoilt: str, upstream: ThrowawayServer, scene: Scene, spark: SparkProvider
) -> None:
    with scene.session() as cursor:
        with scene.following():
            run(cursor, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        with scene.relayed():
            run(cursor, "INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3)")
            name, whole = end_of(upstream)
            run(cursor, "INSERT INTO t VALUES (4)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (5)")
        sub = RelayDirectory(scene.relay).last()
        assert sub is not None
        if spoilt == "lost":
            sub.file(name).unlink()
        else:
            os.truncate(sub.file(name), whole)
        if spoilt != "cut":
            sub.idx(name).unlink()
        with pytest.raises(DMError) as raised:
            scene.replay(spark)
        assert raised.value.name == "relay-file-corrupt"
        assert rows_of(scene) == {1}
        with scene.relayed():
            wait_until(lambda: not reported(sub), "the relay has fetched it again")
        assert scene.replay(spark)["changes"] == 4
    assert rows_of(scene) == {1, 2, 3, 4, 5}
