"""A task whose source rests holds few sessions at the target, and threads; both come back with a backlog."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.progress.lane_rows import CONTROL, LaneClaim, raise_epoch, transaction, worker_lane
from dm.progress.tables import SubtaskKey, create_tables
from dm.syncer.apply import apply_lane, target_sessions
from dm.syncer.apply.target_sessions import ResumedSession, TargetSessions
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of, running_sync, subtask_for, wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

WORKERS = 8
LANE = worker_lane(3)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_lane, "REST_SECONDS", 0.1)


@pytest.fixture
def followed(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> SubtaskConfig:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    return subtask_for(upstream, target, name, task=name, workers=WORKERS, batch=1)


def workers() -> int:
    return sum(each.name.startswith("lane-worker") for each in threading.enumerate())


def holders(target: ThrowawayServer, subtask: SubtaskConfig) -> list[int]:
    """For each worker whether a session holds its lane."""
    key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)
    names = [key.lock_name(f"worker-{number:02d}") for number in range(WORKERS)]
    found = target.query(f"SELECT {', '.join(f'IS_USED_LOCK({name!r})' for name in names)}")[0]
    return [number for number, held in enumerate(found) if held is not None]


def resting(target: ThrowawayServer, subtask: SubtaskConfig) -> Callable[[], bool]:
    return lambda: holders(target, subtask) == [0] and workers() == 1


@pytest.mark.ci_flavor("mysql")
def test_workers_are_closed_at_rest_and_come_back(
    upstream: ThrowawayServer, target: ThrowawayServer, followed: SubtaskConfig
) -> None:
    name = followed.task
    with running_sync(followed) as sync:
        sync.wait_synced()
        wait_until(resting(target, followed), "one worker")
        for run in range(3):  # each transaction goes to a lane of its own while the first ones are held up
            blocked = target.connect(autocommit=False)
            with blocked, blocked.cursor() as cursor:
                cursor.execute(f"LOCK TABLES {name}.t READ")
                for number in range(6 * WORKERS):
                    upstream.execute(f"REPLACE INTO {name}.t VALUES ({number}, {run})", "COMMIT")
                wait_until(lambda: len(holders(target, followed)) > 2, "sessions of more workers")
                assert workers() > 2
            sync.wait_synced()
            assert target.query(f"SELECT COUNT(*), MIN(v) FROM {name}.t") == ((6 * WORKERS, run),)
            wait_until(resting(target, followed), "one worker again")


def backlog(upstream: ThrowawayServer, target: ThrowawayServer, name: str, until: Callable[[], bool]) -> None:
    """Rows that wait at the target, so that they need more workers than one."""
    blocked = target.connect(autocommit=False)
    with blocked, blocked.cursor() as cursor:
        cursor.execute(f"LOCK TABLES {name}.t READ")
        for number in range(3 * WORKERS):
            upstream.execute(f"INSERT INTO {name}.t VALUES ({number}, 0)", "COMMIT")
        wait_until(until, "what the backlog leads to")


def test_a_session_at_another_server_ends_the_run(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    followed: SubtaskConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An address leads elsewhere when the session comes back: nothing is written there."""
    name = followed.task
    sync = running_sync(followed)
    sync.wait_synced()
    wait_until(resting(target, followed), "one worker")
    with monkeypatch.context() as patch:
        patch.setattr(target_sessions, "_server_of", lambda _: ("elsewhere",))
        backlog(upstream, target, name, lambda: sync.error is not None)
    with pytest.raises(DMError, match="the address leads to another server"), sync:
        pass
    with running_sync(followed) as again:
        again.wait_synced()
    assert target.query(f"SELECT COUNT(*) FROM {name}.t") == ((3 * WORKERS,),)


@pytest.fixture
def at_rest(
    target: ThrowawayServer, schema: SchemaFactory
) -> Iterator[tuple[TargetConnection, LaneClaim, ResumedSession]]:
    """A session beside, a run's claim of a lane, and that lane's session, closed."""
    sessions = TargetSessions(endpoint_of(target))
    key = SubtaskKey(schema(target), "task", "source-1")
    with closing(TargetConnection(endpoint_of(target))) as beside, closing(sessions):
        create_tables(beside, key)
        epoch, _ = raise_epoch(beside, key, [CONTROL, LANE])
        claim = LaneClaim(key, LANE, epoch)
        resumed = ResumedSession(sessions, claim)
        assert resumed.close(sessions.open(LANE))
        yield beside, claim, resumed


@pytest.mark.parametrize("newer", [True, False], ids=["a newer run", "a session"])
def test_a_lane_that_another_session_holds_is_not_opened(
    at_rest: tuple[TargetConnection, LaneClaim, ResumedSession], newer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, claim, resumed = at_rest
    monkeypatch.setattr(target_sessions, "_LOCK_SECONDS", 0)
    if newer:
        raise_epoch(beside, claim.key, [CONTROL, LANE])
    assert session_lock.take(beside, claim.key.lock_name(LANE), 0)
    with pytest.raises(DMError) as caught:
        resumed.open()
    assert caught.value.name == ("fenced" if newer else "connection-lost")


def test_a_lane_that_rests_in_a_newer_run_too_is_opened_and_commits_nothing(
    at_rest: tuple[TargetConnection, LaneClaim, ResumedSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, claim, resumed = at_rest
    monkeypatch.setattr(target_sessions, "_LOCK_SECONDS", 120)  # a server may take its time to end a session
    with transaction(mine := resumed.open()):
        claim.advance(mine, None)
    assert not session_lock.take(beside, claim.key.lock_name(LANE), 0), "it holds its lane"
    assert resumed.close(mine)
    raise_epoch(beside, claim.key, [CONTROL, LANE])
    again = resumed.open()
    with pytest.raises(DMError) as caught, transaction(again):
        claim.advance(again, None)
    assert caught.value.name == "fenced"
