"""The text of the verbs of tasks, `query-status`, `wait` and `logs`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from dm.cli import follow as following
from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs, shows
from dm.cli.client import RequestRefused, read_config_file
from dm.cli.follow import relay_rests, rests
from dm.cli.invocation import FAILED, OK, PRECHECK_FAILED
from dm.cli.log_files import LEVELS, LogReader, Showing, show
from dm.cli.status_text import in_error, progress_lines, remarks_of
from dm.errors import DMError
from dm.text import counted
from dm.verbs import tasks as declared
from dm.verbs.tasks import CancelUpdate, ListForgotten, ListLocks, ReloadTable, RemoveForgotten, Unlock, UpdateTask

# The text of `shard-ddl-lock`.


@shows(ListLocks)
def list_locks(_asked: ListLocks, answer: Answer) -> None:
    """Each lock, and below it the shards that are waited for and those that wait."""
    if not answer["locks"]:
        printer.print_line(str(answer["msg"]))
    for lock in answer["locks"]:
        printer.print_line(f"{lock['ID']}, owner {lock['owner']}, since {lock['since']}: {'; '.join(lock['DDLs'])}")
        for source in lock["sourcesMissing"]:
            printer.print_line(f"  missing: source {source}, which has not run yet")
        for shard in sorted(lock["shards"], key=lambda one: bool(one["arrived"])):
            standing = "arrived" if shard["arrived"] else "not waited for" if shard["waived"] else "missing"
            since = f" since {shard['since']}" if shard["arrived"] else ""
            printer.print_line(f"  {standing}{since}: {shard['source']} {shard['table']}")


@shows(Unlock)
def unlock(asked: Unlock, answer: Answer) -> None:
    """What the daemon says, or that it is done."""
    printer.print_line(answer["msg"] or f"{asked.lock}: nobody is waited for")


# The text of `update-task` and `reload-table`.

_SHOWN: Final = 20  # tables of a source


@runs(UpdateTask)
def update_task(asked: UpdateTask, caller: Caller) -> int:
    """Say what changes, ask, do it; in JSON nothing is asked, so --yes is needed."""
    if asked.cancel:
        cancel = caller.read(CancelUpdate(task=asked.task))
        answer = caller.ask(cancel)
        if caller.json:
            printer.print_json(answer)
        else:
            words = "the list of before holds again; what was loaded of the tables is removed"
            printer.print_line(f"{cancel.task}: {words}")
        return OK
    asked = asked.but(file=read_config_file(asked.task))
    planned = caller.ask(asked.but(look=True))
    if not caller.json:
        for line in lines(planned):
            printer.say(line)
    if not planned["changes"] or (caller.json and not asked.yes):
        if caller.json:
            printer.print_json(planned)
        return OK
    if not asked.yes and not typer.confirm("do it?", err=True):
        return FAILED
    answer = caller.ask(asked.but(look=False))
    if caller.json:
        printer.print_json(answer)
    else:
        printer.print_line(f"follow it with `dmctl query-status {answer['taskName']}`")
    return OK


def lines(planned: Answer) -> list[str]:
    """What a file changes, for people."""
    name = planned["taskName"]
    if not planned["changes"]:
        return [f"{name}: the file changes nothing"]
    found = [f"{name}: source {source} is added: it is loaded and followed" for source in planned["newSources"]]
    for source, tables in planned["tables"].items():
        what = f"are loaded beside the others, and join: {_some(tables)}" if tables else "come when the source has them"
        found.append(f"{name}: tables that the list of source {source} gets {what}")
    if planned["filledTables"]:
        found.append(
            f"{name}: tables that the load fills have rows already, which stay beside the source's or in their place:"
            f" {_some(planned['filledTables'])}. If they do not belong there, TRUNCATE TABLE .. (at the target) first"
        )
    if planned["keys"]:
        found.append(f"{name}: other settings: {', '.join(planned['keys'])}")
    return found or [f"{name}: the file says the same in other words"]


def _some(tables: list[str]) -> str:
    return ", ".join(tables[:_SHOWN]) + (f" and {len(tables) - _SHOWN} more" if len(tables) > _SHOWN else "")


@shows(ReloadTable)
def reload_table(asked: ReloadTable, answer: Answer) -> None:
    """Which tables go on, or are loaded."""
    tables = ", ".join(answer["tables"])
    if asked.cancel:
        printer.print_line(f"{tables}: goes on with the rows that it has")
    else:
        printer.print_line(f"{tables} of source {answer['source']}: {answer['target']} is loaded again")
        printer.print_line(f"follow it with `dmctl query-status {asked.task}`")


# The text of `forgotten`.


@runs(ListForgotten)
def list_forgotten(asked: ListForgotten, caller: Caller) -> int:
    """A line for each; which targets could not be asked is said on stderr in either form."""
    answer = caller.ask(caller.read(asked))
    if caller.json:
        printer.print_json(answer)
    elif answer["forgotten"]:
        rows = [(one["name"], one["where"], _content(one), one["changed"]) for one in answer["forgotten"]]
        printer.table("", ("name", "where", "content", "changed (UTC)"), rows)
    else:
        printer.print_line("nothing is left")
    for problem in answer["problems"]:
        printer.say(f"warning: {problem}")
    return FAILED if answer["problems"] else OK


@shows(RemoveForgotten)
def remove_forgotten(_asked: RemoveForgotten, answer: Answer) -> None:
    """What is removed, and what stays of it."""
    for one in answer["removed"]:
        stays = f"; what stays: {one['left']}" if one["left"] else ""
        printer.print_line(f"{one['name']} is removed{stays}")


def _content(one: Mapping[str, Any]) -> str:
    if "tables" in one:
        sources = f" of {', '.join(one['sources'])}" if one["sources"] else ""
        return f"{counted(one['tables'], 'table')}{sources}"
    return f"{counted(one['files'], 'file')}, {int(one['bytes']) / (1 << 20):.1f} MB"


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


# `wait`: return when a task is synced, or finished; for scripts that go on then.

NEVER, TIMED_OUT = 1, 4  # exit statuses besides those of every verb

_SECONDS = 0.5


def wait_for(
    ask: Callable[[], Answer],
    *,
    finished: bool,
    timeout: float | None,
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> tuple[int, Answer]:
    """The exit status, and the last answer."""
    deadline = None if timeout is None else now() + timeout
    while True:
        answer = ask()
        if all(_has_come(subtask, finished=finished) for subtask in _subtasks(answer)):
            return 0, answer
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
    return subtask["stage"] == "Running" and (subtask.get("sync") or {}).get("synced") is True


def _subtasks(answer: Answer) -> Iterator[Any]:
    for source in answer["sources"]:
        yield from source["subTaskStatus"]
