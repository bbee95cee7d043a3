"""The text of the verbs of tasks, `query-status`, `wait` and `logs`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from dm.cli import follow as following
from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs, shows
from dm.cli.client import RequestRefused
from dm.cli.exit_status import FAILED, OK, PRECHECK_FAILED
from dm.cli.log_files import LEVELS, LogReader, Showing, show
from dm.cli.status_text import in_error, progress_lines, remarks_of
from dm.cli.wait import NEVER, TIMED_OUT, wait_for, why_never
from dm.errors import DMError
from dm.verbs import tasks as declared


@shows(declared.CheckTask, status=lambda answer: OK if answer["summary"]["passed"] else PRECHECK_FAILED)
def check_task(_asked: declared.CheckTask, answer: Answer) -> None:
    """Warnings and begin on stderr, findings as a table."""
    printer.warnings(answer)
    printer.check_table(answer)
    _begins(answer)


@runs(declared.StartTask)
def start_task(asked: declared.StartTask, caller: Caller) -> int:
    """What is to be known of the start; then, on demand, what the task does."""
    caller.demand_text(follow=asked.follow)
    asked = caller.read(asked)
    answer = caller.ask(asked)
    if caller.json:
        printer.print_json(answer)
        return _begun(answer, caller)
    printer.warnings(answer)
    for result in answer["checkResult"]["results"]:
        for error in result["errors"]:
            printer.say(f"warning: {result['name']} of {result['extra']}: {error['short_error']}")
    _begins(answer)
    printer.stages_table(answer)
    if asked.follow:
        return _follow(answer["taskName"], asked.sources, caller)
    if status := _begun(answer, caller):
        return status
    printer.print_line(f"follow it with `dmctl query-status {answer['taskName']}`")
    return OK


@runs(declared.StopTask, declared.PauseTask, declared.ResumeTask)
def operate(asked: declared.OperatedTask, caller: Caller) -> int:
    """One task, or all of some sources."""
    follow = isinstance(asked, declared.ResumeTask) and asked.follow
    caller.demand_text(follow=follow)
    if not asked.task:
        return _operate_all(asked, caller)
    asked = caller.read(asked)
    answer = caller.ask(asked)
    if caller.json:
        printer.print_json(answer)
    elif isinstance(asked, declared.StopTask):
        printer.final_places(answer)
    else:
        printer.stages_table(answer)
    if follow:  # it tells the errors, and how it ends
        return _follow(asked.task, asked.sources, caller)
    return _begun(answer, caller)


def _operate_all(asked: declared.OperatedTask, caller: Caller) -> int:
    """Do it to each task of the sources; one that refuses keeps none of the others from it."""
    if not asked.sources:
        raise DMError("usage", problem="neither a task nor a source is named", hint="name a task, or a source with -s")
    answers: list[Mapping[str, Any]] = []
    for task in caller.ask(declared.ListTasks(source=asked.sources))["tasks"]:
        there = tuple(source for source in task["sources"] if source in asked.sources)
        try:
            answers.append(caller.ask(asked.but(task=str(task["taskName"]), sources=there)))
        except RequestRefused as refused:
            answers.append({**refused.answer, "taskName": task["taskName"]})
    done = all(one["result"] for answer in answers for one in (answer, *answer.get("sources", ())))
    if caller.json:
        printer.print_json({"result": done, "msg": "", "tasks": answers})
    elif not answers:
        printer.print_line(f"no tasks on {', '.join(asked.sources)}")
    for answer in () if caller.json else answers:
        if answer["result"]:
            printer.stages_table(answer)
            printer.not_at_work(answer)
        else:
            printer.print_error(answer["error"])
    return OK if done else FAILED


def _begins(answer: Answer) -> None:
    for name, position in answer["startPositions"].items():
        printer.say(f"source {name} begins at {position}")


def _begun(answer: Answer, caller: Caller) -> int:
    """Whether each subtask that was to work does; says why one does not."""
    if not caller.json:
        printer.not_at_work(answer)
    return OK if all(source["result"] for source in answer["sources"]) else FAILED


def _follow(task: str, sources: tuple[str, ...], caller: Caller) -> int:
    asked = declared.QueryStatus(task=task, source=sources)
    return OK if following.follow(lambda: caller.ask(asked)) else FAILED


@runs(declared.QueryStatus)
def query_status(asked: declared.QueryStatus, caller: Caller) -> int:
    """All tasks in a line each, or one in detail."""
    caller.demand_text(follow=asked.follow)
    if not asked.task:
        answer = caller.ask(declared.ListTasks(source=asked.source))
        caller.show(answer, printer.tasks_table)
        return OK
    asked = caller.read(asked)
    if asked.follow:
        return OK if following.follow(lambda: caller.ask(asked), over=following.ended) else FAILED
    answer = caller.ask(asked)
    caller.show(answer, printer.status_table)
    return FAILED if in_error(answer) else OK


@runs(declared.Wait)
def wait_task(asked: declared.Wait, caller: Caller) -> int:
    """The last status, and why the wait ended without what was waited for."""
    asked = caller.read(asked)
    one = declared.QueryStatus(task=asked.task, source=asked.source)
    status, answer = wait_for(lambda: caller.ask(one), finished=asked.finished, timeout=asked.timeout)
    if caller.json:
        printer.print_json(answer)
        return status
    never = why_never(answer, finished=asked.finished) if status == NEVER else []
    for line in [*progress_lines(answer, tables=False), *remarks_of(answer), *never]:
        printer.print_line(line)
    if status == TIMED_OUT:
        goal = "finished" if asked.finished else "synced"
        printer.say(f"the time is over: not {goal} within {asked.timeout:g} s")
    return status


@runs(declared.Logs)
def logs(asked: declared.Logs, caller: Caller) -> None:
    """The last lines of the files that the daemon names, which are read here."""
    lowest = {"warn": "warning"}.get(asked.level, asked.level)
    if lowest not in LEVELS:
        raise typer.BadParameter(f"{asked.level!r} is not one of debug, info, warn, error", param_hint="--level")
    files = caller.ask(caller.read(asked))["files"]
    readers = [LogReader(one["process"], Path(one["path"])) for one in files]
    showing = Showing(LEVELS.index(lowest), caller.json)
    show(readers, asked.lines, showing, time.sleep if asked.follow else None)
