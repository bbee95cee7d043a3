"""Forward, back, and forward again: what came back is found before the first task applies it once more."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing

import pytest

from dm.clock import Clock
from dm.config.endpoint import Endpoint
from dm.config.references import StartPoint
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.replication_loop import reads_server
from dm.sourcelog.upstream.connection import connect
from dm.task.precheck.context import Answers, CheckResult, Context, open_server
from dm.task.precheck.way_back import READ_SECONDS, nothing_returned
from dm.task.progress import key_of
from tests.testbed.fake_clock import FakeClock
from tests.testbed.sync import endpoint_of, running_sync, subtask_for

pytestmark = pytest.mark.live


@pytest.fixture
def name(upstreams: tuple[ThrowawayServer, ThrowawayServer]) -> Iterator[str]:
    name = f"around_{secrets.token_hex(3)}"
    for server in upstreams:
        server.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (v INT)", f"CREATE TABLE {name}.u (v INT)")
    yield name
    for server in upstreams:
        server.execute(*(f"DROP DATABASE IF EXISTS {each}" for each in (name, f"meta_{name}", f"meta_{name}_back")))


class _Slow(FakeClock):
    """Between two looks all the time of a check passes."""

    def monotonic(self) -> float:
        self.now += READ_SECONDS
        return self.now


def found(subtask: SubtaskConfig, *, anew: bool = False, clock: Clock | None = None) -> CheckResult:
    with open_server(subtask.source.endpoint, "source") as source, open_server(subtask.target, "target") as target:
        [result] = nothing_returned(Context(subtask, source, target, anew), Answers("way_back", "source"), clock)
        return result


def end_of(server: ThrowawayServer) -> StartPoint:
    file, offset = server.query("SHOW BINARY LOGS")[-1][:2]
    return StartPoint(binlog_name=file, binlog_pos=offset)


@pytest.mark.parametrize("row_format", ["auto", "sql"])
@pytest.mark.ci_flavor("mariadb")
def test_what_the_way_back_has_written_is_told_from_what_applications_write(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str, row_format: str
) -> None:
    first, second = upstreams
    forward = subtask_for(first, second, name, task=name, row_format=row_format)
    assert found(forward).state == "success", "it has not begun"
    with running_sync(forward) as sync:
        sync.wait_synced()
        first.execute(f"INSERT INTO {name}.t VALUES (1)")
        sync.wait_synced()
    back = subtask_for(second, first, name, task=f"{name}_back", meta=end_of(second), row_format=row_format)
    with running_sync(back) as sync:
        sync.wait_synced()
        first.execute(f"INSERT INTO {name}.u VALUES (2)")  # by hand: the task has to take it
        assert found(forward).state == "success", "nothing has come back yet"
        second.execute(f"INSERT INTO {name}.t VALUES (3)")
        sync.wait_synced()
    result = found(forward)
    assert result.state == "failure", result
    assert f"task {name}_back brought from this target" in result.message
    assert "--remove-meta" in result.instruction
    for meta in (None, end_of(first)):
        assert found(forward.model_copy(update={"meta": meta}), anew=True).state == "success", "the way out"
    assert found(back).state == "success", "what the first task wrote lies before the place where this one is"


@pytest.mark.ci_flavor("mariadb")
def test_a_run_that_was_started_all_the_same_pauses_before_them(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str
) -> None:
    first, second = upstreams
    forward = subtask_for(first, second, name, task=name, workers=1)
    with running_sync(forward) as sync:
        sync.wait_synced()
        first.execute(f"INSERT INTO {name}.t VALUES (1)")
        sync.wait_synced()
    back = subtask_for(second, first, name, task=f"{name}_back", meta=end_of(second), workers=1)
    with running_sync(back) as sync:
        sync.wait_synced()
        first.execute(f"INSERT INTO {name}.u VALUES (2)")  # by hand: the task has to take it
        second.execute(f"INSERT INTO {name}.t VALUES (3)")
        sync.wait_synced()
    for _ in range(2):
        with pytest.raises(DMError) as raised, running_sync(forward) as sync:
            sync.wait_synced()
        assert raised.value.name == "brought-back"
        assert f"{name}.t that task {name}_back brought" in raised.value.message
    assert second.query(f"SELECT v FROM {name}.u") == ((2,),), "what precedes is applied"
    assert sorted(second.query(f"SELECT v FROM {name}.t")) == [(1,), (3,)]


@pytest.mark.ci_flavor("mariadb")
def test_a_source_account_that_may_not_read_the_progress_is_refused_by_name(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str
) -> None:
    """It was told that there is none, and rows would have come twice."""
    first, second = upstreams
    back = subtask_for(second, first, name, task=f"{name}_back", meta=end_of(second))
    with running_sync(back) as sync:
        sync.wait_synced()
    checkpoint, account = key_of(back).checkpoint, Endpoint(host=first.host, port=first.port, user=name)
    first.execute(f"CREATE USER {name}", f"GRANT SELECT ON {name}.* TO {name}")
    try:
        with closing(connect(account)) as source, open_server(endpoint_of(second), "target") as server:
            with pytest.raises(DMError) as raised:
                reads_server(source, checkpoint, server.connection, server.facts)
            assert raised.value.name == "privilege-missing"
            first.execute(f"GRANT SELECT ON {checkpoint.schema}.* TO {name}")
            assert reads_server(source, checkpoint, server.connection, server.facts)
            gone = TableName(checkpoint.schema, "gone_syncer_checkpoint")
            assert not reads_server(source, gone, server.connection, server.facts)
    finally:
        first.execute(f"DROP USER {name}")


def test_a_check_ends_when_it_has_read_for_long(upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str) -> None:
    first, second = upstreams
    forward = subtask_for(first, second, name, task=name, meta=end_of(first))
    with running_sync(subtask_for(second, first, name, task=f"{name}_back", meta=end_of(second))) as sync:
        sync.wait_synced()
        first.execute(f"INSERT INTO {name}.u VALUES (2)")
        second.execute(f"INSERT INTO {name}.t VALUES (3)")
        sync.wait_synced()
    assert found(forward).state == "failure"
    result = found(forward, clock=_Slow())
    assert result.state == "success"
    assert "more to read" in result.message
