"""The source is reset while it is dumped, or after the dump: what was read has no place in the new history."""

from __future__ import annotations

import pytest

from dm import faults
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.live.upstream.test_reset import place, reset
from tests.spark.conftest import LoadFactory
from tests.testbed.fixtures import ServerFactory
from tests.testbed.purge import purge_binlogs
from tests.testbed.sync import RunningSync

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(300)]

TABLES = ("CREATE TABLE keyless (v INT)", "INSERT INTO keyless VALUES (1)", "CREATE TABLE keyed (id INT PRIMARY KEY)")


@pytest.mark.parametrize(
    ("flavor", "gtid", "consistency"),
    [
        ("mysql", False, "none"),
        ("mariadb", True, "flush"),
        pytest.param("mysql", False, "flush", marks=pytest.mark.chaos),
        pytest.param("mariadb", True, "none", marks=pytest.mark.chaos),
    ],
)
def test_a_reset_after_the_dump_is_found_by_the_syncer(
    server: ServerFactory, target: ThrowawayServer, full_load: LoadFactory, flavor: Flavor, gtid: bool, consistency: str
) -> None:
    upstream = server(flavor, gtid=gtid)
    load = full_load(upstream, target, *TABLES, consistency=consistency)
    load.dump()
    before = place(upstream)
    upstream.execute(f"DROP DATABASE `{load.schema}`")
    reset(upstream)
    upstream.execute(f"CREATE DATABASE `{load.schema}`", f"USE `{load.schema}`", *TABLES)
    while place(upstream) < before:
        upstream.execute(f"INSERT INTO `{load.schema}`.keyless VALUES (2)")
    load.load()
    upstream.execute(f"INSERT INTO `{load.schema}`.keyless VALUES (3)")

    error = RunningSync(load.subtask(), None).wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.retryable) == ("source-reset", False), str(error)


@pytest.mark.parametrize("consistency", ["none", pytest.param("flush", marks=pytest.mark.chaos)])
@pytest.mark.parametrize("flavor", ["mysql"])
def test_a_reset_during_the_dump_ends_it_and_the_next_run_begins_anew(
    server: ServerFactory,
    target: ThrowawayServer,
    full_load: LoadFactory,
    monkeypatch: pytest.MonkeyPatch,
    consistency: str,
) -> None:
    upstream = server("mysql", gtid=False)
    load = full_load(upstream, target, *TABLES, consistency=consistency)

    def strike(point: str) -> None:
        if point == "dumper.before_p1":
            reset(upstream)

    with monkeypatch.context() as patch:
        patch.setattr(faults, "hit", strike)
        with pytest.raises(DMError) as caught:
            load.dump()
    assert caught.value.name == "source-reset"
    plan = load.dump()
    assert plan.finished
    assert plan.birth is not None
    assert plan.birth.is_of(plan.p0)


@pytest.mark.parametrize("flavor", ["mysql"])
def test_a_reset_to_fewer_files_during_the_dump_is_one(
    server: ServerFactory, target: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = server("mysql", gtid=False)
    load = full_load(upstream, target, *TABLES)
    upstream.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")

    def strike(point: str) -> None:
        if point == "dumper.before_p1":
            reset(upstream)

    monkeypatch.setattr(faults, "hit", strike)
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "source-reset"
    assert "its last one is" in caught.value.message


@pytest.mark.parametrize("flavor", ["mysql"])
def test_files_that_are_purged_during_the_dump_are_no_reset(
    server: ServerFactory, target: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = server("mysql", gtid=False)
    load = full_load(upstream, target, *TABLES)

    def strike(point: str) -> None:
        if point == "dumper.before_p1":
            upstream.execute("FLUSH BINARY LOGS")
            purge_binlogs(upstream)

    monkeypatch.setattr(faults, "hit", strike)
    assert load.dump().finished
