"""`dmctl query-status`: what tasks do."""

from __future__ import annotations

from typing import Annotated

import typer

from dm.cli import follow as following
from dm.cli import output as printer
from dm.cli.exit_status import FAILED
from dm.cli.invocation import (
    AddrOption,
    OutputOption,
    SourceOption,
    as_json,
    client_of,
    demand_text,
    of_task,
    task_name,
)
from dm.cli.status_text import in_error
from dm.errors import DMError


def query_status(
    task: Annotated[str | None, typer.Argument(help="the task's name, or its file; all tasks when left out")] = None,
    source: SourceOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="show it again and again until the task ends or rests; Ctrl-C leaves")
    ] = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Show all tasks, or one task in detail. Exit status 1 if that one rests on an error."""
    demand_text(output, follow=follow)
    client = client_of(addr)
    if task is None:
        if follow:
            raise DMError("usage", problem="--follow shows one task", hint="dmctl query-status <task> --follow")
        answer = client.get("/api/v1/tasks", source=source or [])
    else:
        address = f"{of_task(task_name(client, task))}/status"
        if follow:
            if not following.follow(lambda: client.get(address, source=source or []), over=following.ended):
                raise typer.Exit(FAILED)
            return
        answer = client.get(address, source=source or [])
    if as_json(output):
        printer.print_json(answer)
    elif task is None:
        printer.tasks_table(answer)
    else:
        printer.status_table(answer)
    if task is not None and in_error(answer):
        raise typer.Exit(FAILED)
