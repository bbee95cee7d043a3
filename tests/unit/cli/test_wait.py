"""`dmctl wait` returns when the task is there, when it will never be, or when the time is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dm.cli.verbs.status import NEVER, TIMED_OUT, wait_for, why_never
from tests.testbed.fake_clock import FakeClock

PAUSED: dict[str, Any] = {"isCanceled": True, "errors": [], "detail": ""}
RETRIES: dict[str, Any] = {"isCanceled": False, "errors": [{}], "detail": "auto-resume tries again in 3 s"}


def answer(*subtasks: dict[str, Any]) -> dict[str, Any]:
    return {
        "sources": [
            {"sourceStatus": {"source": f"s{number}", "relayStatus": None}, "subTaskStatus": [subtask]}
            for number, subtask in enumerate(subtasks)
        ]
    }


def subtask(stage: str = "Running", unit: str = "Sync", *, synced: bool = False, **more: Any) -> dict[str, Any]:
    parts = {"sync": {"synced": synced}} if unit == "Sync" else {}
    return {"name": "t", "stage": stage, "unit": unit, "result": None, **parts, **more}


def waited(states: Iterator[dict[str, Any]], *, finished: bool, timeout: float | None = None) -> tuple[int, float]:
    clock = FakeClock(0.0)

    def pause(seconds: float) -> None:
        clock.now += seconds

    status, _ = wait_for(lambda: next(states), finished=finished, timeout=timeout, now=clock.monotonic, pause=pause)
    return status, clock.now


def test_all_sources_have_to_be_synced_at_the_same_time() -> None:
    yes, no = subtask(synced=True), subtask()
    states = iter([answer(yes, no), answer(no, yes), answer(subtask(unit="Load"), yes), answer(yes, yes)])
    assert waited(states, finished=False)[0] == 0
    assert next(states, None) is None


def test_a_pause_by_a_person_or_an_error_for_good_ends_the_wait_and_a_retry_does_not() -> None:
    states = iter([answer(subtask("Paused", result=RETRIES)), answer(subtask("Paused", result=PAUSED))])
    assert waited(states, finished=False)[0] == NEVER
    assert next(states, None) is None


@pytest.mark.parametrize("result", [PAUSED, {"isCanceled": False, "errors": [{}], "detail": ""}])
def test_a_relay_that_rests_for_good_ends_the_wait_of_a_task_that_reads_it(result: dict[str, Any]) -> None:
    def with_relay(stage: str, result: dict[str, Any]) -> dict[str, Any]:
        state = answer(subtask(relayRests=stage == "Paused"))
        state["sources"][0]["sourceStatus"]["relayStatus"] = {"stage": stage, "result": result}
        return state

    last = with_relay("Paused", result)
    states = iter([with_relay("Running", RETRIES), with_relay("Paused", RETRIES), last])
    assert waited(states, finished=False)[0] == NEVER
    assert next(states, None) is None
    assert why_never(last, finished=False) == ["t on s0: the relay that it reads rests; nothing comes by itself"]


def test_what_can_never_come_is_not_waited_for() -> None:
    assert waited(iter([answer(subtask("Finished", "Load"))]), finished=False)[0] == NEVER
    assert waited(iter([answer(subtask())]), finished=True)[0] == NEVER
    assert why_never(answer(subtask()), finished=True) == [
        "t on s0: it follows its source and ends never; `start-task --until` gives it an end"
    ]


def test_a_task_that_has_an_end_is_waited_for() -> None:
    states = iter([answer(subtask(unit="Dump")), answer(subtask(until="x")), answer(subtask("Finished", until="x"))])
    assert waited(states, finished=True)[0] == 0


@pytest.mark.parametrize("timeout", [0.0, 0.2, 3.0])
def test_the_time_is_over_when_it_is_over(timeout: float) -> None:
    def for_ever() -> Iterator[dict[str, Any]]:
        while True:
            yield answer(subtask())

    status, passed = waited(for_ever(), finished=False, timeout=timeout)
    assert status == TIMED_OUT
    assert passed == pytest.approx(timeout)
