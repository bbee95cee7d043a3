"""What a precheck found, in DM's words: success, warning or failure, and how to put it right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dm.unit import JSON

State = Literal["success", "warning", "failure"]

_DM_STATE = {"success": "success", "warning": "warn", "failure": "fail"}  # as DM's check-task prints them


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One item checked on one server or table."""

    item: str  # DM's name of the checking item, as `ignore-checking-items` takes it
    subject: str  # which server, or which table of which server
    state: State
    message: str = ""
    instruction: str = ""  # what fixes it, a statement wherever there is one


def of_no_task(result: CheckResult) -> CheckResult:
    """A result of a task that is not there: ways out that end with going on are of one that rests on an error."""
    words = result.instruction.replace("`dmctl resume-task` resumes", "`dmctl start-task` starts")
    return replace(result, instruction=words.replace("`dmctl resume-task`", "`dmctl start-task`"))


def summary(results: Sequence[CheckResult]) -> dict[str, JSON]:
    """DM's results and counts."""
    counted = {state: sum(result.state == state for result in results) for state in ("success", "warning", "failure")}
    listed: list[JSON] = [
        {
            "id": number,
            "name": result.item,
            "extra": result.subject,
            "state": _DM_STATE[result.state],
            "errors": []
            if result.state == "success"
            else [{"severity": _DM_STATE[result.state], "short_error": result.message}],
            "desc": result.message if result.state == "success" else "",
            "instruction": result.instruction,
        }
        for number, result in enumerate(results)
    ]
    return {
        "results": listed,
        "summary": {
            "passed": counted["failure"] == 0,
            "total": len(results),
            "successful": counted["success"],
            "failed": counted["failure"],
            "warning": counted["warning"],
        },
    }
