"""`merge-order: commit-time` where the clocks of the sources differ: that is measured, said, and has its price.

All servers of a test have the clock of one machine. So one source gets another one at both places where a clock shows:
its transactions carry the later time, set for its session; and what its unit reads as the source's clock is later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.unit import JSON
from tests.live.syncer.order.test_merge_order import content, late, order_of, subtasks_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

AHEAD_SECONDS = 4
AHEAD = f"""
from dm.sourcelog.stream.source_monitor import Watermark
look = Watermark.look
Watermark.look = lambda *seen: look(*seen[:-1], seen[-1] + {AHEAD_SECONDS})
"""


def execute_ahead(server: ThrowawayServer, statement: str) -> None:
    """Execute it with the clock of a server that is ahead, as its binlog has it."""
    now = f"UNIX_TIMESTAMP(NOW(6)) + {AHEAD_SECONDS}"
    if server.flavor == "mysql":
        server.execute(f"SET original_commit_timestamp = CAST(1000000 * ({now}) AS UNSIGNED)", statement)
    else:
        server.execute(f"SET timestamp = FLOOR({now})", statement)


def ahead_of(status: Mapping[str, JSON] | None, source: str) -> float | None:
    """By how much the clock is ahead of another source's, in a unit's status."""
    assert status is not None
    order = status["mergeOrder"]
    assert isinstance(order, dict)
    found = order["clockAheadSeconds"]
    assert isinstance(found, dict)
    seconds = found.get(source)
    assert seconds is None or isinstance(seconds, int | float)
    return seconds


@pytest.fixture
def subtasks(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> list[SubtaskConfig]:
    return subtasks_of(schema(*upstreams, target), upstreams, target, order_of(hold=300))


@pytest.fixture
def name(subtasks: list[SubtaskConfig]) -> str:
    return subtasks[0].task


@pytest.fixture
def first(subtasks: list[SubtaskConfig]) -> Iterator[SyncProcess]:
    """The source whose clock is ahead."""
    process = SyncProcess(subtasks[0], patch=AHEAD)
    yield process
    process.close()


def test_clocks_that_differ_are_measured_and_said_at_the_start(
    subtasks: list[SubtaskConfig], first: SyncProcess
) -> None:
    with running_sync(subtasks[1]) as second:
        first.wait_synced()
        second.wait_synced()
        wait_until(lambda: ahead_of(second.unit.status(), "source-1") is not None, "one knows the other's clock")
        wait_until(lambda: ahead_of(first.status(), "source-2") is not None, "the other knows the one's")
        behind = ahead_of(second.unit.status(), "source-1")
        ahead = ahead_of(first.status(), "source-2")
    assert ahead is not None
    assert behind is not None
    # What is measured is as exact as a round trip is short.
    assert abs(ahead - AHEAD_SECONDS) < AHEAD_SECONDS / 2
    assert abs(behind + AHEAD_SECONDS) < AHEAD_SECONDS / 2
    first.close()
    said = [line for line in first.errors().splitlines() if "clocks of the sources, seconds apart" in line]
    assert len(said) == 1
    assert "warning" in said[0]


def test_a_row_that_moves_faster_than_the_clocks_differ_pauses(
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    subtasks: list[SubtaskConfig],
    name: str,
    first: SyncProcess,
) -> None:
    second = RunningSync(subtasks[1], None)
    execute_ahead(upstreams[0], f"INSERT INTO {name}.t VALUES (1, 1)")
    first.wait_synced()
    execute_ahead(upstreams[0], f"DELETE FROM {name}.t WHERE id = 1")
    upstreams[1].execute(f"INSERT INTO {name}.t VALUES (1, 2)")
    error = second.wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "duplicate-key"
    first.close()
    goes_on = subtasks[0].model_copy(update={"order": order_of("continue", hold=1)})
    anew = SyncProcess(goes_on, patch=AHEAD)
    try:
        wait_until(lambda: content(target, name) == set(), "the row goes, without the source that is paused")
        with running_sync(subtasks[1]) as again:
            again.wait_synced()
            assert content(target, name) == {(1, 2)}
    finally:
        anew.close()


@pytest.mark.chaos
def test_in_safe_mode_the_later_time_wins(
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    subtasks: list[SubtaskConfig],
    name: str,
) -> None:
    safe = [
        subtask.model_copy(update={"syncer": subtask.syncer.model_copy(update={"safe_mode": True})})
        for subtask in subtasks
    ]
    first = SyncProcess(safe[0], patch=AHEAD)
    try:
        with running_sync(safe[1]) as second:
            execute_ahead(upstreams[0], f"INSERT INTO {name}.t VALUES (1, 1)")
            first.wait_synced()
            execute_ahead(upstreams[0], f"DELETE FROM {name}.t WHERE id = 1")
            upstreams[1].execute(f"INSERT INTO {name}.t VALUES (1, 2)")
            second.wait_synced()
            first.wait_synced()
            assert late(second) == 0
        assert content(target, name) == set(), "the DELETE has the later time"
        assert content(upstreams[1], name) == {(1, 2)}
    finally:
        first.close()
