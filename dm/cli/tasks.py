"""The verbs that set tasks to work and to rest: check-task, start-task, stop-task, pause-task, resume-task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

import typer

from dm.cli import follow as following
from dm.cli import output as printer
from dm.cli.client import Client, Refused, read_config_file
from dm.cli.exit_status import FAILED, PRECHECK_FAILED
from dm.cli.invocation import (
    AddrOption,
    OutputOption,
    SourceOption,
    TasksArgument,
    as_json,
    client_of,
    demand_text,
    of_task,
    task_name,
    tasks_on,
)
from dm.cli.output import Format
from dm.errors import DMError

FileArgument = Annotated[str, typer.Argument(help="the task file")]
FollowOption = Annotated[
    bool, typer.Option("--follow", help="show progress until the task is finished or has caught up; Ctrl-C leaves")
]


def check_task(
    file: FileArgument,
    start_time: Annotated[
        str | None, typer.Option("--start-time", help="say where `start-task --start-time` would begin")
    ] = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Check whether a task can run. Lists what it does not migrate, too."""
    answer = client_of(addr).post("/api/v1/tasks/check", {"file": read_config_file(file), "start_time": start_time})
    if as_json(output):
        printer.print_json(answer)
    else:
        printer.warnings(answer)
        printer.check_table(answer)
        for name, position in answer["startPositions"].items():
            printer.say(f"source {name} begins at {position}")
    if not answer["summary"]["passed"]:
        raise typer.Exit(PRECHECK_FAILED)


def start_task(
    file: FileArgument,
    source: SourceOption = None,
    remove_meta: Annotated[
        bool, typer.Option("--remove-meta", help="forget the progress of an earlier task of this name: begin anew")
    ] = False,
    start_time: Annotated[
        str | None,
        typer.Option(
            "--start-time",
            help="begin about here in the binlog, whatever checkpoint and `meta` say: '2026-11-21 10:00:00' in the "
            "source's time zone, or with a zone",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            help="apply everything up to here, then end: mysql-bin.000003:154, a GTID set, or a time as --start-time's",
        ),
    ] = None,
    follow: FollowOption = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Check a task and start it."""
    demand_text(output, follow=follow)
    body = {
        "file": read_config_file(file), "sources": source or [], "remove_meta": remove_meta, "start_time": start_time,
        "until": until,
    }  # fmt: skip
    client = client_of(addr)
    answer = client.post("/api/v1/tasks", body)
    if as_json(output):
        printer.print_json(answer)
        _demand_begun(answer, output)
        return
    printer.warnings(answer)
    for result in answer["checkResult"]["results"]:
        for error in result["errors"]:
            printer.say(f"warning: {result['name']} of {result['extra']}: {error['short_error']}")
    for name, position in answer["startPositions"].items():
        printer.say(f"source {name} begins at {position}")
    printer.stages_table(answer)
    if not follow:
        _demand_begun(answer, output)
        printer.print_line(f"follow it with `dmctl query-status {answer['taskName']}`")
    elif not following.follow(lambda: client.get(f"{of_task(answer['taskName'])}/status", source=source or [])):
        raise typer.Exit(FAILED)


def stop_task(
    task: TasksArgument = None,
    source: SourceOption = None,
    remove_meta: Annotated[
        bool, typer.Option("--remove-meta", help="remove the progress, too: the next start begins anew")
    ] = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Stop a task and forget it. Its progress stays in the target: the next start continues there."""
    if remove_meta and task is None:
        raise DMError("usage", problem="--remove-meta is for one task", hint="dmctl stop-task <task> --remove-meta")
    more = {"remove_meta": True} if remove_meta else {}
    _operate("stop", task, source, output, addr, show=printer.final_places, more=more)


def pause_task(
    task: TasksArgument = None, source: SourceOption = None, output: OutputOption = None, addr: AddrOption = None
) -> None:
    """Let a task rest until resume-task."""
    _operate("pause", task, source, output, addr)


def resume_task(
    task: TasksArgument = None,
    source: SourceOption = None,
    follow: FollowOption = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Go on after pause-task, or after an error."""
    demand_text(output, follow=follow)
    if follow and task is None:
        raise DMError("usage", problem="--follow is for one task", hint="dmctl resume-task <task> --follow")
    _operate("resume", task, source, output, addr, follow=follow)
    client = client_of(addr)
    if (
        follow
        and task is not None
        and not following.follow(lambda: client.get(f"{of_task(task_name(client, task))}/status", source=source or []))
    ):
        raise typer.Exit(FAILED)


def _operate(
    verb: str,
    task: str | None,
    sources: list[str] | None,
    chosen: Format | None,
    addr: str | None,
    show: Callable[[Mapping[str, Any]], None] = printer.stages_table,
    *,
    follow: bool = False,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    client = client_of(addr)
    if task is None:
        _operate_all(verb, client, sources or [], as_json(chosen))
        return
    name = task_name(client, task)
    answer = client.post(f"{of_task(name)}/{verb}", {"sources": sources or [], **more})
    if as_json(chosen):
        printer.print_json(answer)
    else:
        show(answer)
    if not follow:  # which tells the errors, and how it ends
        _demand_begun(answer, chosen)


def _demand_begun(answer: Mapping[str, Any], chosen: Format | None) -> None:
    """Fail where a subtask that was to work does not, and say why."""
    if not as_json(chosen):
        printer.not_at_work(answer)
    if not all(source["result"] for source in answer["sources"]):
        raise typer.Exit(FAILED)


def _operate_all(verb: str, client: Client, sources: Sequence[str], json: bool) -> None:
    """Do it to each task of the sources; one that refuses keeps none of the others from it."""
    answers: list[Mapping[str, Any]] = []
    for task, there in tasks_on(client, sources).items():
        try:
            answers.append(client.post(f"{of_task(task)}/{verb}", {"sources": there}))
        except Refused as refused:
            answers.append({**refused.answer, "taskName": task})
    done = all(one["result"] for answer in answers for one in (answer, *answer.get("sources", ())))
    if json:
        printer.print_json({"result": done, "msg": "", "tasks": answers})
    elif not answers:
        printer.print_line(f"no tasks on {', '.join(sources)}")
    for answer in () if json else answers:
        if answer["result"]:
            printer.stages_table(answer)
            printer.not_at_work(answer)
        else:
            printer.print_error(answer["error"])
    if not done:
        raise typer.Exit(FAILED)
