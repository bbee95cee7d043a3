"""What several members answer becomes one answer."""

from __future__ import annotations

from typing import Any

import pytest

from dm.errors import DMError
from dm.worker.joined_answers import Part, joined, of_sources, of_tasks, unreached_source, unreached_status
from dm.worker.registry import SubtaskRecord

SILENT = DMError("member-unreachable", member="b", address="b:8262", problem="timed out")


def part(member: str, *sources: str, error: DMError | None = None) -> Part:
    lines: list[Any] = [{"result": True, "msg": "", "source": source, "stage": "Paused"} for source in sources]
    answer: dict[str, Any] = {} if error else {"result": True, "msg": "", "taskName": "t", "sources": lines}
    return Part(member, sources, answer, error)


def test_lists_are_joined_and_results_must_all_be_true() -> None:
    answers: list[dict[str, Any]] = [
        {"result": True, "n": 2, "w": ["x"], "summary": {"passed": True, "total": 3}},
        {"result": True, "n": 3, "w": ["x", "y"], "summary": {"passed": False, "total": 4}},
    ]
    wanted = {"result": True, "n": 5, "w": ["x", "y"], "summary": {"passed": False, "total": 7}}
    assert joined(answers) == wanted


def test_lines_come_in_the_order_of_the_task_and_a_silent_member_has_its_own() -> None:
    answer = of_sources([part("a", "3", "1"), part("b", "2", error=SILENT)], ["1", "2", "3"], unreached_source)
    lines: Any = answer["sources"]
    assert [(line["source"], line["result"]) for line in lines] == [("1", True), ("2", False), ("3", True)]
    assert "member b at b:8262 does not answer" in lines[1]["msg"]
    assert answer["taskName"] == "t"


def test_where_no_member_has_done_its_part_the_error_is_raised() -> None:
    with pytest.raises(DMError, match="member b"):
        of_sources([part("b", "2", error=SILENT)], ["2"], unreached_source)


def test_the_status_of_a_source_whose_host_is_silent_is_what_was_stored_last() -> None:
    seen = SubtaskRecord("running", "Running", "Sync", None)
    told = "member b was heard 42 s ago"
    answer = of_sources(
        [part("b", "2", error=SILENT)], ["2"], lambda silent, source: unreached_status(silent, source, "t", seen, told)
    )
    lines: Any = answer["sources"]
    status = lines[0]
    assert status["sourceStatus"]["worker"] == "b"
    assert (status["subTaskStatus"][0]["stage"], status["subTaskStatus"][0]["unit"]) == ("Running", "Sync")
    assert status["subTaskStatus"][0]["result"]["detail"] == f"as it was stored last; {told}"
    assert "does not answer" in status["subTaskStatus"][0]["result"]["errors"][0]["Message"]


def test_a_refusal_is_no_status() -> None:
    unknown = DMError("task-unknown", task="t")
    with pytest.raises(DMError, match="no task t"):
        of_sources(
            [part("b", "2", error=unknown)], ["2"], lambda part, source: unreached_status(part, source, "t", None)
        )


def test_a_task_of_several_members_is_listed_once() -> None:
    def tasks(member: str, *lines: tuple[str, str, list[str]]) -> Part:
        told: list[Any] = [dict(zip(("taskName", "taskStatus", "sources"), line, strict=True)) for line in lines]
        return Part(member, [], {"tasks": told})

    parts = [
        tasks("a", ("t", "Running", ["1"]), ("u", "Paused", ["1"]), ("w", "Running", ["1"])),
        tasks("b", ("t", "Running", ["2"]), ("u", "Running", ["2"])),
        Part("c", ["3"], error=SILENT),
    ]
    stored = {"t": ["1", "2"], "u": ["1", "2"], "w": ["1", "3"]}
    lines: Any = of_tasks(parts, stored)["tasks"]
    assert [(line["taskName"], line["sources"]) for line in lines] == [(name, stored[name]) for name in "tuw"]
    assert [line["taskStatus"] for line in lines[:2]] == ["Running", "Paused"]
    assert "Sources 3 are not told of: c: member b at b:8262 does not answer" in lines[2]["taskStatus"]
