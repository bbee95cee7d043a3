"""`dmctl update-task`: a running task gets more tables, more sources, or other settings."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dm.cli import output as printer
from dm.cli.client import read_config_file
from dm.cli.invocation import AddrOption, OutputOption, as_json, client_of, of_task, task_name

_SHOWN = 20  # tables of a source

Answer = dict[str, Any]


def update_task(
    file: Annotated[str, typer.Argument(help="the task file as it is to be; with --cancel, or the task's name")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do it without asking")] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="take added tables back, as long as they have not joined")
    ] = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Give a running task more tables, sources or settings. Says what changes, asks, does it."""
    client = client_of(addr)
    if cancel:
        name = task_name(client, file)
        answer = client.post(f"{of_task(name)}/cancel-update", {})
        if as_json(output):
            printer.print_json(answer)
        else:
            printer.print_line(f"{name}: the list of before holds again; what was loaded of the tables is removed")
        return
    body = {"file": read_config_file(file)}
    planned = client.post("/api/v1/tasks/update", {**body, "look": True})
    if not as_json(output):
        for line in lines(planned):
            printer.say(line)
    if not planned["changes"] or (as_json(output) and not yes):
        if as_json(output):
            printer.print_json(planned)
        return
    if not yes and not typer.confirm("do it?", err=True):
        raise typer.Exit(1)
    answer = client.post("/api/v1/tasks/update", {**body, "look": False})
    if as_json(output):
        printer.print_json(answer)
    else:
        printer.print_line(f"follow it with `dmctl query-status {answer['taskName']}`")


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
