"""`dmctl reload-table`: a table of a running task is emptied and loaded again, beside the others."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dm.cli import output as printer
from dm.cli.invocation import AddrOption, OutputOption, TaskArgument, as_json, client_of, of_task, task_name
from dm.errors import DMError


def reload_table(
    task: TaskArgument,
    database: Annotated[str, typer.Argument(help="the table's schema at the source")] = "",
    table: Annotated[str, typer.Argument(help="the table at the source")] = "",
    source: Annotated[
        str | None, typer.Option("--source", "-s", help="the source, where several have such a table")
    ] = None,
    recreate: Annotated[
        bool, typer.Option("--recreate", help="drop the target's table and make it again, as the source has it")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="take a reload back, as long as the target's table has its rows")
    ] = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Empty a table and load it again while its task runs. The task's other tables go on."""
    if cancel == bool(database and table):
        problem = "--cancel is of all that is being reloaded" if cancel else "no table is named"
        hint = "dmctl reload-table <task> <schema> <table>, or dmctl reload-table <task> --cancel"
        raise DMError("usage", problem=problem, hint=hint)
    client = client_of(addr)
    body: dict[str, Any] = {
        "database": database, "table": table, "source": source, "recreate": recreate, "cancel": cancel,
    }  # fmt: skip
    name = task_name(client, task)
    answer = client.post(f"{of_task(name)}/reload-table", body)
    if as_json(output):
        printer.print_json(answer)
    elif cancel:
        printer.print_line(f"{', '.join(answer['tables'])}: goes on with the rows that it has")
    else:
        printer.print_line(
            f"{', '.join(answer['tables'])} of source {answer['source']}: {answer['target']} is loaded again"
        )
        printer.print_line(f"follow it with `dmctl query-status {name}`")
