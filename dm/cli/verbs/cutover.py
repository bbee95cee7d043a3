"""The text of `cut-over`: findings, a question, then each state as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer

from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs
from dm.cli.invocation import FAILED, OK
from dm.text import counted
from dm.verbs.cutover import AbortCutOver, BeginCutOver, CheckCutOver, CompleteCutOver, CutOverStatus, CutOverTask

_SECONDS: Final = 0.5
_MEANING: Final = {
    "none": "no cut-over was begun",
    "comparing": "what can be done while applications write is being done",
    "fencing": "the sources are being closed to writes",
    "fenced": "the sources take no writes",
    "drained": "the target has everything that the sources have",
    "proved": "ready for the switch",
    "way-back": "the task of the way back begins",
    "switching": "the switch has begun, so the sources stay closed",
    "switched": "applications belong to the target now",
    "complete": "the task is stopped, the cut-over is over",
    "aborting": "the sources are being opened again",
    "aborted": "the sources take writes as before, the task runs",
}

_RETURNED: Final = {
    "way-back": "the first task goes on",
    "switched": "applications belong to the first source again",
    "complete": "the task is stopped, the first task goes on",
}


@runs(CutOverTask)
def cut_over(asked: CutOverTask, caller: Caller) -> int:
    """One of its four questions, or the cut-over itself."""
    asked = caller.read(asked)
    hook = str(Path(asked.hook).absolute()) if asked.hook else ""
    if asked.status:
        return _told(caller.ask(CutOverStatus(task=asked.task)), caller)
    if asked.abort:
        return _told(caller.ask(AbortCutOver(task=asked.task, hook=hook)), caller, OK)
    if asked.complete:
        return _told(caller.ask(CompleteCutOver(task=asked.task)), caller)
    known = caller.ask(CutOverStatus(task=asked.task))
    ways = {"way_back": not asked.no_way_back, "back": asked.back}
    if known["state"] != "switching" or asked.dry_run:
        checked = caller.ask(
            CheckCutOver(
                task=asked.task,
                prove=asked.prove,
                max_lag=asked.max_lag,
                hook=hook,
                waive=asked.waive,
                acts_twice=asked.acts_twice,
                definers=asked.definers,
                **ways,
            )
        )
        if asked.dry_run:
            caller.show(checked, lambda answer: _print([*file_lines(answer), *finding_lines(answer)]))
            return OK if checked["ready"] else FAILED
        if not caller.json:
            for line in finding_lines(checked):
                printer.say(line)
    if not asked.yes and (caller.json or not typer.confirm(_question(asked), err=True)):
        return FAILED
    begun = caller.ask(
        BeginCutOver(
            task=asked.task,
            prove=asked.prove,
            max_lag=asked.max_lag,
            timeout=asked.timeout,
            hook=hook,
            waive=asked.waive,
            acts_twice=asked.acts_twice,
            definers=asked.definers,
            **ways,
        )
    )
    return _told(_follow(asked.task, begun, caller), caller)


def _question(asked: CutOverTask) -> str:
    return f"stop the writes at the {'target' if asked.back else 'sources'} now?"


def _follow(task: str, answer: Answer, caller: Caller, wait: Callable[[float], None] = time.sleep) -> Answer:
    """Tell each state until nobody drives it any more; Ctrl-C leaves it to the daemon."""
    state, asked = "", CutOverStatus(task=task)
    try:
        while answer["driven"]:
            if not caller.json and answer["state"] != state:
                state = answer["state"]
                printer.say(f"{answer['task']}: {state}: {_meaning(answer['cutOver'], state)}")
            wait(_SECONDS)
            answer = caller.ask(asked)
    except KeyboardInterrupt:
        printer.say(f"the cut-over goes on; `dmctl cut-over {answer['task']} --abort` undoes it before the switch")
    return answer


def _told(answer: Answer, caller: Caller, aborted: int = FAILED) -> int:
    """The last word, with the exit status."""
    caller.show(answer, lambda answer: _print(state_lines(answer)))
    if answer["state"] == "aborted":
        return aborted
    return FAILED if answer["state"] in ("switching", "aborting") and not answer["driven"] else OK


def file_lines(answer: Answer) -> list[str]:
    """The files of the way back."""
    return [line for one in answer["files"] for line in (f"# {one['name']}", *one["cfg"].splitlines(), "")]


def finding_lines(answer: Answer) -> list[str]:
    """What is in the way, each with what mends it."""
    found = []
    for each in answer["findings"]:
        found.append(f"{each['where']}: {each['says']}{'' if each['stops'] else ' (does not stop a cut-over)'}")
        found += [f"  {each['mend']}"] if each["mend"] else []
    if answer["ready"]:
        return [*found, f"{answer['task']}: ready for a cut-over"]
    return [*found, f"{answer['task']}: not ready for a cut-over"]


def _meaning(row: dict[str, Any], state: str) -> str:
    way_back = row.get("way_back")
    returned = way_back is not None and way_back["kept"] and not way_back["source"]
    return _RETURNED.get(state, _MEANING[state]) if returned else _MEANING[state]


def state_lines(answer: Answer) -> list[str]:
    """The state for people."""
    task, state, row = answer["task"], answer["state"], answer["cutOver"]
    lines = [f"{task}: {state}: {_meaning(row, state)}"]
    if row.get("why"):
        lines.append(f"  aborted because: {row['why']}")
    if row.get("failed"):
        lines.append(f"  it rests: {row['failed']}")
    elif answer["problem"] and state not in ("aborted", "complete", "switched"):
        lines.append(f"  {answer['problem']}")
    lines += [f"  {name}: its binlog ends at {place}" for name, place in row.get("ends", {}).items()]
    if row.get("proof"):
        lines.append(f"  {_proof(row['proof'])}")
    lines += _way_back(row, state)
    if row.get("target_end") and state in ("switching", "switched", "complete"):
        lines.append(f"  target: its binlog ends at {row['target_end']}")
    times = row.get("times", {})
    if "switched" in times:
        lines.append(f"  without writes for {times['switched'] - times['fencing']:.1f} s")
    return lines + [f"  {line}" for line in answer["left"]]


def _way_back(row: dict[str, Any], state: str) -> list[str]:
    way_back = row.get("way_back")
    if not way_back or state not in ("switching", "switched"):
        return []
    lines = [f"  way back: task {way_back['task']} runs"]
    if row["others"]:
        lines.append(f"  target: {counted(row['others'], 'transaction')} of others came to it since the fence")
    return lines


def _proof(proof: dict[str, Any]) -> str:
    rows = sum(int(number) for number in proof["rows"].values())
    told, rests = f"equal: {counted(len(proof['rows']), 'table')}, {counted(rows, 'row')}", proof.get("restsOn")
    if not rests:
        return told
    at = datetime.fromtimestamp(min(each["at"] for each in rests.values()), tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{told}; of {counted(len(rests), 'table')} only rows written since all were equal at {at} UTC"


def _print(lines: list[str]) -> None:
    for line in lines:
        printer.print_line(line)
