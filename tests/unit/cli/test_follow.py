"""`--follow` shows what a task does until there is nothing left to wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dm.cli.follow import ended, follow, settled
from dm.worker.status_text import progress_lines

TABLE = {
    "table": "shop.orders",
    "finishedRows": "50",
    "estimateTotalRows": "200",
    "finishedBytes": "1048576",
    "bps": "0",
    "etaSeconds": None,
    "progress": "25.00 %",
}
DUMP = {
    "finishedRows": 100,
    "estimateTotalRows": 400,
    "finishedBytes": 3145728,
    "bps": "1048576",
    "etaSeconds": "3723",
    "phase": "reading rows",
    "progress": "25.00 %",
    "tables": [TABLE],
}


def answer(stage: str = "Running", unit: str = "Dump", result: Any = None, **parts: Any) -> dict[str, Any]:
    subtask = {"name": "shop", "stage": stage, "unit": unit, "result": result, **parts}
    return {"sources": [{"sourceStatus": {"source": "one", "relayStatus": None}, "subTaskStatus": [subtask]}]}


def sync_answer(rows: str, *, lag: float | None, rate: str, position: str, synced: bool = False) -> dict[str, Any]:
    sync = {"totalRows": rows, "secondsBehindMaster": lag, "recentRps": rate, "syncerBinlog": position}
    return answer(unit="Sync", sync=sync | {"synced": synced})


def test_totals_and_tables_are_told_and_no_time_before_there_is_one() -> None:
    assert progress_lines(answer(dump=DUMP)) == [
        "shop on one: Running Dump 25.00 %, 100 of about 400 rows, 3.0 MB, 1.0 MB/s, 1:02:03 left (reading rows)",
        "  shop.orders: 25.00 %, 50 of about 200 rows, 1.0 MB",
    ]


def test_it_ends_when_the_task_has_caught_up(capsys: pytest.CaptureFixture[str]) -> None:
    states: Iterator[dict[str, Any]] = iter(
        [
            answer(dump=DUMP),
            answer(dump=DUMP),
            sync_answer("5", lag=7, rate="3", position="(b.1, 4)"),
            sync_answer("5", lag=8, rate="2", position="(b.1, 4)"),
            sync_answer("5", lag=None, rate="0", position="(b.1, 9)"),
            sync_answer("9", lag=0, rate="4", position="(b.1, 9)", synced=True),
        ]
    )
    clock = iter(("10:00:00", "10:00:01", "10:00:03", "10:00:04"))
    assert follow(lambda: next(states), lambda _: None, clock=lambda: next(clock))
    assert capsys.readouterr().out.splitlines() == [
        "10:00:00 shop on one: Running Dump 25.00 %, 100 of about 400 rows, 3.0 MB, 1.0 MB/s, 1:02:03 left"
        " (reading rows)",
        "10:00:01 shop on one: Running Sync, 5 rows, 3 rows/s, 7 s behind, at (b.1, 4)",
        "10:00:03 shop on one: Running Sync, 5 rows, 0 rows/s, lag unknown, at (b.1, 9)",
        "10:00:04 shop on one: Running Sync, 9 rows, 4 rows/s, 0 s behind, at (b.1, 9)",
    ]


def test_it_goes_on_while_auto_resume_will_try_again_and_fails_when_it_will_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = {"ErrCode": 32004, "Message": "could not lock", "RawCause": "", "Workaround": ""}
    tries = {"isCanceled": False, "errors": [error], "detail": "auto-resume tries again in 3 s"}
    again = tries | {"detail": "auto-resume tries again in 2 s"}
    gave_up = {"isCanceled": False, "errors": [error], "detail": ""}
    assert not settled(answer("Paused", result=tries))
    states = iter([answer("Paused", result=each) for each in (tries, again, gave_up)])
    said_before_the_end: list[int] = []

    def wait(_seconds: float) -> None:
        said_before_the_end.append(capsys.readouterr().out.count("error 32004: could not lock"))

    assert not follow(lambda: next(states), wait)
    assert said_before_the_end == [1, 0]
    assert capsys.readouterr().out.count("error 32004: could not lock") == 1


def test_what_a_dump_waits_for_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    waits = DUMP | {"waiting": "spark://host:7077 has no free executor"}
    states = iter([answer(dump=waits), answer(dump=waits), answer("Finished", dump=DUMP)])
    assert follow(lambda: next(states), lambda _: None)
    assert capsys.readouterr().out.count(" shop on one: waits: spark://host:7077 has no free executor\n") == 1


def with_relay(state: dict[str, Any], stage: str, code: int = 30034, detail: str = "") -> dict[str, Any]:
    """Of a task at work that reads a relay in this stage, with an error."""
    (source,) = state["sources"]
    error = {"ErrCode": code, "Message": "the source is another", "RawCause": "", "Workaround": "begin anew"}
    source["sourceStatus"]["relayStatus"] = {
        "stage": stage,
        "result": {"isCanceled": False, "errors": [error], "detail": detail},
    }
    source["subTaskStatus"][0]["relayRests"] = stage == "Paused"
    return state


def test_a_relay_that_rests_on_an_error_ends_it_and_one_that_tries_again_is_told_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waits = {"isCanceled": False, "errors": [], "detail": "waits for the relay of source one to receive"}
    tries = with_relay(answer(result=waits), "Running", 10003, "it tries again by itself")
    states = iter([tries, tries, with_relay(answer(result=waits), "Paused")])
    assert not follow(lambda: next(states), lambda _: None, clock=lambda: "now")
    said = capsys.readouterr().out
    assert said.count("now shop on one: waits for the relay of source one to receive\n") == 1
    assert said.count("now relay of one: error 10003: the source is another\n") == 1
    assert "\nrelay of one: error 30034: the source is another\n  workaround: begin anew\n" in said
    assert not settled(with_relay(answer(), "Paused", detail="auto-resume tries again in 3 s"))
    assert ended(with_relay(answer(), "Paused"))


def test_leaving_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    def leave(_seconds: float) -> None:
        raise KeyboardInterrupt

    assert follow(lambda: answer(dump=DUMP), leave)
    assert capsys.readouterr().out.endswith("the task goes on\n")


def test_where_lines_stay_the_passing_of_time_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    def after(seconds: int) -> dict[str, Any]:
        times = {"totalElapsedSeconds": str(seconds), "totalEtaSeconds": str(900 - seconds), "totalEtaAssumed": False}
        return answer(dump=DUMP | times | {"bps": str(seconds << 20)})

    states = iter([after(1), after(2), after(3), answer("Finished", "Dump")])
    assert follow(lambda: next(states), lambda _: None)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" shop")[2] for line in lines if "Running" in line] == [
        " on one: Running Dump 25.00 %, 100 of about 400 rows, 3.0 MB, 1.0 MB/s, 0:00:01 so far,"
        " about 0:14:59 left (reading rows)"
    ]


def test_who_watches_a_task_watches_it_beyond_the_moment_when_it_has_caught_up() -> None:
    synced = answer(unit="Sync", sync={"totalRows": "5", "synced": True, "secondsBehindMaster": 0})
    states = iter([synced, synced, answer("Paused", "Sync", {"isCanceled": True, "errors": [], "detail": ""})])
    assert not follow(lambda: next(states), lambda _: None, over=ended)
    assert next(states, None) is None


@pytest.mark.parametrize(("rows", "told"), [("0", "0 rows"), ("1", "1 row"), ("2", "2 rows")])
def test_one_row_is_no_plural(rows: str, told: str) -> None:
    assert progress_lines(answer(unit="Sync", sync={"totalRows": rows})) == [f"shop on one: Running Sync, {told}"]
