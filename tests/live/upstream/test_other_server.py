"""Another server takes the source's place: behind the same address, at a second address, with less than was read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dm.config.endpoint import Endpoint
from dm.config.load import read_task
from dm.config.source import SourceConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.sourcelog.upstream import lineage
from dm.task.precheck.context import CheckResult
from dm.task.precheck.run import prechecks
from dm.unit import JSON
from tests.live.upstream.group import (
    SCHEMA,
    TABLES,
    Following,
    Load,
    endpoint_at,
    executed,
    replicate,
    source_at,
    subtask_of,
    wait_caught_up,
)
from tests.testbed.figures import record
from tests.testbed.fixtures import ServerFactory
from tests.testbed.proxy import FaultProxy
from tests.testbed.replication_words import replicating

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

Pair = tuple[ThrowawayServer, ThrowawayServer]
WAYS = pytest.mark.parametrize("relay", [True, pytest.param(False, marks=pytest.mark.chaos)], ids=["relay", "no relay"])


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often whether the first address is back."""
    monkeypatch.setattr(lineage, "PROBE_SECONDS", 0.5)


@pytest.fixture
def group(server: ServerFactory, emptied: ThrowawayServer) -> Pair:
    """A server with the tables, and a replica of it."""
    return grouped(server, emptied)


def grouped(server: ServerFactory, target: ThrowawayServer, **options: bool) -> Pair:
    first, second = (server(target.flavor, **options) for _ in range(2))
    replicate(first, second, fresh=True)
    first.execute(*TABLES)
    wait_caught_up(first, second)
    return first, second


def equal(upstream: ThrowawayServer, target: ThrowawayServer) -> None:
    report = compare(pair_tables([upstream], [SCHEMA]), target)
    assert report.identical, str(report)


def promote(first: ThrowawayServer, second: ThrowawayServer) -> None:
    """A planned switch: nothing is written any more, and the other server has everything."""
    first.execute("SET GLOBAL read_only = ON")
    wait_caught_up(first, second)
    second.execute(replicating("STOP", second))


@WAYS
@pytest.mark.ci_flavor("mysql")
def test_a_primary_is_switched_under_load_behind_one_address(
    group: Pair, emptied: ThrowawayServer, relay: bool, tmp_path: Path
) -> None:
    switched(group, emptied, tmp_path if relay else None)


@WAYS
@pytest.mark.chaos
@pytest.mark.parametrize("flavor", ["mariadb"])
def test_a_primary_is_switched_that_does_not_keep_its_numbers_in_order(
    server: ServerFactory, emptied: ThrowawayServer, relay: bool, tmp_path: Path
) -> None:
    first, second = pair = grouped(server, emptied, gtid_strict_mode=False)
    switched(pair, emptied, tmp_path if relay else None, before_end=lambda: out_of_order(second))
    assert first.query("SELECT @@gtid_strict_mode") == ((0,),)


def out_of_order(server: ThrowawayServer) -> None:
    """A transaction with a lower number of another server after the newest ones."""
    server.execute(
        "SET SESSION server_id = 77",
        "SET SESSION gtid_seq_no = 3",
        f"INSERT INTO {SCHEMA}.keyless VALUES (-1, 'out of order')",
    )


def switched(
    group: Pair, target: ThrowawayServer, relay_directory: Path | None, before_end: Callable[[], None] | None = None
) -> None:
    first, second = group
    load = Load()
    with FaultProxy(first.host, first.port) as way:
        source = source_at(endpoint_at(first, way.port))
        subtask = subtask_of(source, first, target, f"switched{int(relay_directory is not None)}")
        with Following(subtask, target, relay_directory) as following:
            with load.running(first):
                following.wait_seen(first)
            promote(first, second)
            way.lead_to(second.host, second.port)
            with load.running(second):
                following.wait_seen(second)
            if before_end is not None:
                before_end()
            following.wait_applied(second)
    equal(second, target)
    figures: dict[str, JSON] = {"transactions": load.transactions, "runs_ended_with": ", ".join(following.errors)}
    record(f"upstream.switch.{first.flavor}.{'relay' if relay_directory else 'remote'}", figures)


@WAYS
@pytest.mark.ci_flavor("mysql")
def test_a_standby_is_followed_while_the_first_address_is_down(
    group: Pair, emptied: ThrowawayServer, relay: bool, tmp_path: Path
) -> None:
    first, second = group
    load = Load()
    source = source_at(endpoint_at(first), endpoint_at(second))
    subtask = subtask_of(source, first, emptied, f"standby{int(relay)}")
    with Following(subtask, emptied, tmp_path if relay else None) as following:
        with load.running(first):
            following.wait_seen(first)
        assert not following.reads_standby()
        promote(first, second)
        first.kill()
        following.wait_read_at(second)
        assert following.reads_standby()
        with load.running(second):
            following.wait_seen(second)
        first.start()
        replicate(second, first, fresh=False)
        following.wait_read_at(first)
        with load.running(second):
            following.wait_seen(second)
        following.wait_applied(second)
        assert not following.reads_standby()
    wait_caught_up(second, first)
    equal(first, emptied)
    figures: dict[str, JSON] = {"transactions": load.transactions, "runs_ended_with": ", ".join(following.errors)}
    record(f"upstream.standby.{first.flavor}.{'relay' if relay else 'remote'}", figures)


@WAYS
@pytest.mark.chaos
def test_a_standby_that_lacks_something_is_not_followed(
    group: Pair, emptied: ThrowawayServer, relay: bool, tmp_path: Path
) -> None:
    first, second = group
    source = source_at(endpoint_at(first), endpoint_at(second))
    subtask = subtask_of(source, first, emptied, f"behind{int(relay)}")
    with Following(subtask, emptied, tmp_path if relay else None) as following:
        following.wait_applied(first)
        wait_caught_up(first, second)
        second.execute(replicating("STOP", second))
        following.wait_applied(first)
        first.kill()
        following.wait_until(lambda: "can't take over: it lacks" in following.says, "the standby to be refused")
        assert "read so far" in following.says
        first.start()
        following.wait_applied(first)
    equal(first, emptied)


@pytest.mark.ci_flavor("mysql")
def test_a_server_that_lacks_what_was_applied_pauses_the_task(
    group: Pair, emptied: ThrowawayServer, tmp_path: Path
) -> None:
    """With both GTID sets, whoever notices: the relay, the reader of a task without one, a start."""
    first, second = group
    subtask = subtask_of(source_at(endpoint_at(first)), first, emptied, "ahead")
    with Following(subtask, emptied, tmp_path) as following:
        following.wait_applied(first)
        wait_caught_up(first, second)
        second.execute(replicating("STOP", second))
        following.wait_applied(first)
    second.execute(f"INSERT INTO {SCHEMA}.keyed VALUES (-1, 'of its own')")
    moved = subtask.model_copy(update={"source": source_at(endpoint_at(second))})
    for relay_directory in (tmp_path, None):
        with pytest.raises(DMError) as raised, Following(moved, emptied, relay_directory) as following:
            following.wait_applied(second)
        assert raised.value.name == "source-gtid-diverged", raised.value
        assert "read so far: " in raised.value.message
        assert f"127.0.0.1:{second.port} has: " in raised.value.message
        assert raised.value.workaround
        assert not raised.value.retryable
    assert emptied.query(f"SELECT COUNT(*) FROM {SCHEMA}.keyed WHERE id = -1") == ((0,),)


@pytest.mark.chaos
def test_check_task_looks_at_the_standby(group: Pair, emptied: ThrowawayServer) -> None:
    first, second = group

    def found(standby: Endpoint) -> CheckResult:
        text = (
            f"name: t\ntask-mode: incremental\nmeta-schema: meta_check\ntarget-database: {{host: 127.0.0.1, port:"
            f" {emptied.port}, password: '{emptied.password}'}}\nmysql-instances: [{{source-id: one, meta:"
            f" {{binlog-gtid: '{executed(first)}'}}, block-allow-list: b}}]\n"
            f"block-allow-list: {{b: {{do-dbs: [{SCHEMA}]}}}}\n"
        )
        task = read_task(text, {"one": source_at(endpoint_at(first), standby)})
        results = [result for result in prechecks(task, ["one"]) if "standby" in result.subject]
        assert {result.item for result in results} >= {"binlog_format", "replication_privilege"} or len(results) == 1
        (result,) = [result for result in results if result.item in ("standby", "connection")]
        return result

    assert found(endpoint_at(second)).state == "success"
    second.execute(replicating("STOP", second))
    first.execute(f"INSERT INTO {SCHEMA}.keyless VALUES (7, 'late')")
    lagging = found(endpoint_at(second))
    assert (lagging.state, "can't take over" in lagging.message) == ("warning", True)
    second.execute(f"INSERT INTO {SCHEMA}.keyless VALUES (8, 'own')", f"INSERT INTO {SCHEMA}.keyless VALUES (9, 'own')")
    alone = found(endpoint_at(second))
    assert (alone.state, "transactions that the source lacks" in alone.message) == ("failure", True)
    assert found(endpoint_at(first)).message == "the standby is the source itself"
    second.kill()
    assert found(endpoint_at(second)).item == "connection"


@pytest.mark.chaos
def test_a_task_can_start_while_only_the_standby_is_there(group: Pair, emptied: ThrowawayServer) -> None:
    first, second = group
    source = source_at(endpoint_at(first), endpoint_at(second))
    subtask = subtask_of(source, first, emptied, "start")
    first.kill()
    with Following(subtask, emptied, None) as following:
        following.wait_seen(second)
        assert following.reads_standby()


def test_a_standby_is_not_taken_without_gtids() -> None:
    endpoint = Endpoint(host="a")
    source = SourceConfig(source_id="s", endpoint=endpoint, standby=Endpoint(host="b"), enable_gtid=False)
    assert [issue.kind for issue in source.check()] == ["config-standby-without-gtid"]
