"""Runs `query-status`, `wait` and `logs`; the texts are in `dm.worker.status_text`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import typer

from dm.cli import follow as following
from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs
from dm.cli.follow import relay_rests, rests, subtasks, synced
from dm.cli.invocation import FAILED, OK
from dm.cli.log_files import Showing, show
from dm.verbs.status import ListTasks, Logs, QueryStatus, Wait
from dm.worker.log_lines import LEVELS, LogReader
from dm.worker.status_text import in_error, progress_lines, remarks_of


@runs(QueryStatus)
def query_status(asked: QueryStatus, caller: Caller) -> int:
    """All tasks in a line each, or one in detail."""
    caller.demand_text(follow=asked.follow)
    if not asked.task:
        answer = caller.ask(ListTasks(source=asked.source))
        caller.show(answer, printer.tasks_table)
        return OK
    asked = caller.read(asked)
    if asked.follow:
        return OK if following.follow(lambda: caller.ask(asked), over=following.ended) else FAILED
    answer = caller.ask(asked)
    caller.show(answer, printer.status_table)
    return FAILED if in_error(answer) else OK


@runs(Wait)
def wait_task(asked: Wait, caller: Caller) -> int:
    """The last status, and why the wait ended without what was waited for."""
    asked = caller.read(asked)
    one = QueryStatus(task=asked.task, source=asked.source)
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


@runs(Logs)
def logs(asked: Logs, caller: Caller) -> None:
    """The last lines of the files that the daemon names, which are read here."""
    lowest = {"warn": "warning"}.get(asked.level, asked.level)
    if lowest not in LEVELS:
        raise typer.BadParameter(f"{asked.level!r} is not one of debug, info, warn, error", param_hint="--level")
    files = caller.ask(caller.read(asked))["files"]
    readers = [LogReader(one["process"], Path(one["path"])) for one in files]
    showing = Showing(LEVELS.index(lowest), caller.json)
    show(readers, asked.lines, showing, time.sleep if asked.follow else None)


NEVER, TIMED_OUT = FAILED, 4  # `wait` has the second one besides those of every verb

_SECONDS = 0.5


def wait_for(
    ask: Callable[[], Answer],
    *,
    finished: bool,
    timeout: float | None,
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> tuple[int, Answer]:
    """Ask until a task is synced, or finished; gives the exit status and the last answer."""
    deadline = None if timeout is None else now() + timeout
    while True:
        answer = ask()
        if all(_has_come(subtask, finished=finished) for subtask in subtasks(answer)):
            return OK, answer
        if why_never(answer, finished=finished):
            return NEVER, answer
        left = _SECONDS if deadline is None else min(_SECONDS, deadline - now())
        if left <= 0:
            return TIMED_OUT, answer
        pause(left)


def why_never(answer: Answer, *, finished: bool) -> list[str]:
    """For each subtask that will not come there by itself, why."""
    return [
        f"{subtask['name']} on {source['sourceStatus']['source']}: {why}"
        for source in answer["sources"]
        for subtask in source["subTaskStatus"]
        if (why := _why_never(source, subtask, finished=finished)) and not _has_come(subtask, finished=finished)
    ]


def _why_never(source: Answer, subtask: Answer, *, finished: bool) -> str:
    if rests(subtask):
        return "it rests; nothing goes on by itself"
    if relay_rests(source, subtask):
        return "the relay that it reads rests; nothing comes by itself"
    if subtask["stage"] == "Finished":
        return "it has finished, and follows its source no more"
    if finished and subtask["unit"] == "Sync" and not subtask.get("until"):
        return "it follows its source and ends never; `start-task --until` gives it an end"
    return ""


def _has_come(subtask: Answer, *, finished: bool) -> bool:
    if finished:
        return bool(subtask["stage"] == "Finished")
    return subtask["stage"] == "Running" and synced(subtask)
