"""The text of the verbs that set tasks to work and to rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dm.cli import follow as following
from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs, shows
from dm.cli.client import RequestRefused
from dm.cli.invocation import FAILED, OK, PRECHECK_FAILED
from dm.errors import DMError
from dm.verbs import tasks as declared
from dm.verbs.status import ListTasks, QueryStatus


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
    printer.check_warnings(answer["checkResult"])
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
    for task in caller.ask(ListTasks(source=asked.sources))["tasks"]:
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
    asked = QueryStatus(task=task, source=sources)
    return OK if following.follow(lambda: caller.ask(asked)) else FAILED
