"""What the verbs of `dmctl` share: options, the daemon that is meant, the addresses of tasks and sources."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from dm.cli import output as printer
from dm.cli.client import ANSWER_SECONDS, Client, Refused, read_config_file
from dm.cli.output import Format
from dm.errors import DMError


def duration(text: str) -> float:
    """Seconds of a duration in Go's notation, as DM's options have it."""
    from dm.config.scalar import go_duration  # a quarter of a second of imports, for those who give the option

    seconds = go_duration(text)
    if not seconds or seconds < 0:
        raise typer.BadParameter(f"{text!r} is not a duration such as 30s, 10m or 1h30m")
    return seconds


def _task_names(incomplete: str) -> Sequence[str]:
    """Tasks whose names begin so, for a shell's completion; a daemon is not started for that."""
    try:
        client = client_of(None)
        known = client.get("/api/v1/tasks")["tasks"] if client.running() else []
    except (
        DMError,
        Refused,
    ):  # the shell then offers files; a message would stand in the middle of the line being typed
        return []
    return [str(task["taskName"]) for task in known if str(task["taskName"]).startswith(incomplete)]


OutputOption = Annotated[Format | None, typer.Option("--output", "-o", help="table (default) or json, in DM's form")]
AddrOption = Annotated[
    str | None, typer.Option("--addr", help="host:port of a dm-worker; else DM_ADDR; else this user's own daemon")
]
SourceOption = Annotated[list[str] | None, typer.Option("--source", "-s", help="only this source; may be repeated")]
TaskArgument = Annotated[str, typer.Argument(help="the task's name, or its file", autocompletion=_task_names)]
TasksArgument = Annotated[
    str | None,
    typer.Argument(help="the task's name, or its file; with -s alone, all tasks of these", autocompletion=_task_names),
]
RpcTimeoutOption = Annotated[
    float | None,
    typer.Option("--rpc-timeout", parser=duration, metavar="DURATION", help="how long to wait for an answer  [10m]"),
]


@dataclass
class Settings:
    """Options that stand before the verb; those behind it win."""

    output: Format | None = None
    addr: str | None = None
    seconds: float = ANSWER_SECONDS


settings = Settings()


def client_of(addr: str | None) -> Client:
    """The daemon that is meant."""
    return Client(addr or settings.addr or os.environ.get("DM_ADDR") or None, os.environ, printer.say, settings.seconds)


def as_json(chosen: Format | None) -> bool:
    """Whether the answer is to be printed as it comes."""
    return (chosen or settings.output) is Format.json


def demand_text(chosen: Format | None, *, follow: bool) -> None:
    """Refuse to follow in JSON."""
    if follow and as_json(chosen):
        raise DMError("usage", problem="--follow has no JSON form", hint="poll `dmctl query-status <task> -o json`")


def is_file(name: str) -> bool:
    """Whether a file was named in place of a task or source."""
    return name.endswith((".yaml", ".yml")) or "/" in name or Path(name).is_file()


def task_name(client: Client, task: str) -> str:
    """The name itself, or the one in the file."""
    if not is_file(task):
        return task
    return str(client.post("/api/v1/task-name", read_config_file(task))["taskName"])


def tasks_on(client: Client, sources: Sequence[str]) -> dict[str, list[str]]:
    """All tasks of these sources, and on which of them each one is."""
    if not sources:
        raise DMError("usage", problem="neither a task nor a source is named", hint="name a task, or a source with -s")
    tasks = client.get("/api/v1/tasks", source=sources)["tasks"]
    return {str(task["taskName"]): [source for source in task["sources"] if source in sources] for task in tasks}


def of_task(name: str) -> str:
    """The address of a task."""
    if not _is_segment(name):
        raise DMError("task-unknown", task=name)
    return f"/api/v1/tasks/{quote(name, safe='')}"


def of_source(name: str) -> str:
    """The address of a source."""
    if not _is_segment(name):
        raise DMError("source-unknown", source=name)
    return f"/api/v1/sources/{quote(name, safe='')}"


def _is_segment(name: str) -> bool:
    """Whether this can be one part of an address; what can't be one (`..`) is no name of anything either."""
    return name not in ("", ".", "..") and "/" not in name
