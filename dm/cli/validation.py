"""`dmctl validation`: rows that were applied are looked at, and those that are wrong are shown."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import typer

from dm.cli import output as printer
from dm.cli.invocation import (
    AddrOption,
    OutputOption,
    SourceOption,
    TaskArgument,
    as_json,
    client_of,
    of_task,
    task_name,
)
from dm.cli.plain_values import PlainGroup
from dm.cli.validation_text import validation_errors, validators
from dm.errors import DMError
from dm.plural import counted


class Mode(Enum):
    """What is compared."""

    full = "full"
    fast = "fast"


class TableStage(Enum):
    """Which tables are shown."""

    running = "running"
    stopped = "stopped"


class Errors(Enum):
    """Which errors are shown."""

    all = "all"
    ignored = "ignored"
    unprocessed = "unprocessed"


validation_app = typer.Typer(
    cls=PlainGroup,
    help="Validate applied rows, and show those that are wrong.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AllTaskOption = Annotated[bool, typer.Option("--all-task", help="the validators of all tasks")]
OneTaskArgument = Annotated[str | None, typer.Argument(help="the task's name, or its file")]
AllOption = Annotated[bool, typer.Option("--all", help="all errors of the task")]
NumberArgument = Annotated[int | None, typer.Argument(help="the error's id, as show-error has it")]


def _either(task: str | None, *, all_task: bool) -> None:
    if (task is None) is not all_task:
        raise DMError("usage", problem="either a task or --all-task is to be given", hint="name a task")


@validation_app.command("start")
def start(
    task: OneTaskArgument = None,
    all_task: AllTaskOption = False,
    mode: Annotated[
        Mode | None, typer.Option("--mode", help="full (default): all values; fast: whether the row is there")
    ] = None,
    start_time: Annotated[
        str | None, typer.Option("--start-time", help="begin at this time in the binlog, as 2021-10-21T00:01:00")
    ] = None,
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Begin to validate, or go on where it was stopped."""
    _either(task, all_task=all_task)
    client = client_of(addr)
    body: dict[str, Any] = {
        "task": task_name(client, task) if task else "", "sources": source or [],
        "mode": None if mode is None else mode.value, "start_time": start_time,
    }  # fmt: skip
    answer = client.post("/api/v1/validations/start", body)
    if as_json(output):
        printer.print_json(answer)
        return
    for warning in answer["warnings"]:
        printer.say(f"Warning: {warning}")
    printer.print_line(f"{body['task'] or 'all tasks'}: validating")


@validation_app.command("stop")
def stop(
    task: OneTaskArgument = None,
    all_task: AllTaskOption = False,
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Validate no more for now."""
    _either(task, all_task=all_task)
    client = client_of(addr)
    name = task_name(client, task) if task else ""
    answer = client.post("/api/v1/validations/stop", {"task": name, "sources": source or []})
    _done(answer, output, f"{name or 'all tasks'}: validated no more")


@validation_app.command("status")
def status(
    task: TaskArgument,
    table_stage: Annotated[
        TableStage | None, typer.Option("--table-stage", help="only tables in this stage: running or stopped")
    ] = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Show how far it is, and what is not validated."""
    client = client_of(addr)
    stage = {} if table_stage is None else {"table_stage": table_stage.value}
    answer = client.get(f"{of_task(task_name(client, task))}/validation", **stage)
    if as_json(output):
        printer.print_json(answer)
    else:
        validators(answer)


@validation_app.command("show-error")
def show_error(
    task: TaskArgument,
    error: Annotated[
        Errors, typer.Option("--error", help="which errors: all, ignored or unprocessed")
    ] = Errors.unprocessed,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Show rows that are wrong, and how to mend them."""
    client = client_of(addr)
    answer = client.get(f"{of_task(task_name(client, task))}/validation/errors", state=error.value)
    if as_json(output):
        printer.print_json(answer)
    else:
        validation_errors(answer)


@validation_app.command("ignore-error")
def ignore_error(
    task: TaskArgument,
    number: NumberArgument = None,
    every: AllOption = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Count an error as ignored."""
    _change("ignore", task, number, output, addr, every=every)


@validation_app.command("resolve-error")
def resolve_error(
    task: TaskArgument,
    number: NumberArgument = None,
    every: AllOption = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Count an error as resolved: the row was mended."""
    _change("resolve", task, number, output, addr, every=every)


@validation_app.command("clear-error")
def clear_error(
    task: TaskArgument,
    number: NumberArgument = None,
    every: AllOption = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Forget an error."""
    _change("clear", task, number, output, addr, every=every)


@validation_app.command("update")
def update(
    task: TaskArgument,
    cutover_binlog_pos: Annotated[
        str, typer.Option("--cutover-binlog-pos", help="a place as '(mysql-bin.000001, 5989)'")
    ] = "",
    cutover_binlog_gtid: Annotated[str, typer.Option("--cutover-binlog-gtid", help="a GTID set")] = "",
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Say where business moves to the target."""
    if cutover_binlog_pos and cutover_binlog_gtid:
        raise DMError("usage", problem="a place and a GTID set are given", hint="give one of them")
    client = client_of(addr)
    name = task_name(client, task)
    body = {
        "sources": source or [], "cutover_binlog_pos": cutover_binlog_pos, "cutover_binlog_gtid": cutover_binlog_gtid,
    }  # fmt: skip
    answer = client.post(f"{of_task(name)}/validation/update", body)
    place = cutover_binlog_pos or cutover_binlog_gtid
    _done(answer, output, f"{name}: validated up to {place}" if place else f"{name}: there is no cutover")


def _change(
    operation: str, task: str, number: int | None, output: printer.Format | None, addr: str | None, *, every: bool
) -> None:
    if (number is None) is not every:
        raise DMError("usage", problem="either an error's id or --all is to be given", hint="show-error has the ids")
    client = client_of(addr)
    name = task_name(client, task)
    answer = client.post(f"{of_task(name)}/validation/errors/{operation}", {"number": number})
    words = {"ignore": "ignored", "resolve": "resolved", "clear": "forgotten"}[operation]
    changed = answer["changed"]
    _done(answer, output, f"{name}: {counted(changed, 'error')} {'is' if changed == 1 else 'are'} {words}")


def _done(answer: dict[str, Any], output: printer.Format | None, words: str) -> None:
    if as_json(output):
        printer.print_json(answer)
    else:
        printer.print_line(words)
