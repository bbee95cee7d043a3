"""What the verbs of `dmctl` share: options, the daemon that is meant, the addresses of tasks and sources."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from dm.cli import output as printer
from dm.cli.client import Client, read_config_file
from dm.cli.output import Format
from dm.errors import DMError

OutputOption = Annotated[Format | None, typer.Option("--output", "-o", help="table (default) or json, in DM's form")]
AddrOption = Annotated[
    str | None, typer.Option("--addr", help="host:port of a dm-worker; else DM_ADDR; else this user's own daemon")
]
SourceOption = Annotated[list[str] | None, typer.Option("--source", "-s", help="only this source; may be repeated")]
TaskArgument = Annotated[str, typer.Argument(help="the task's name, or its file")]


@dataclass
class Settings:
    """Options that stand before the verb; those behind it win."""

    output: Format | None = None
    addr: str | None = None


settings = Settings()


def client_of(addr: str | None) -> Client:
    """The daemon that is meant."""
    return Client(addr or settings.addr or os.environ.get("DM_ADDR") or None, os.environ, printer.say)


def as_json(chosen: Format | None) -> bool:
    """Whether the answer is to be printed as it comes."""
    return (chosen or settings.output) is Format.json


def is_file(name: str) -> bool:
    """Whether a file was named in place of a task or source."""
    return name.endswith((".yaml", ".yml")) or "/" in name or Path(name).is_file()


def task_name(client: Client, task: str) -> str:
    """The name itself, or the one in the file."""
    if not is_file(task):
        return task
    return str(client.post("/api/v1/task-name", read_config_file(task))["taskName"])


def of_task(name: str) -> str:
    """The address of a task."""
    return f"/api/v1/tasks/{_segment(name, DMError('task-unknown', task=name))}"


def of_source(name: str) -> str:
    """The address of a source."""
    return f"/api/v1/sources/{_segment(name, DMError('source-unknown', source=name))}"


def _segment(name: str, unknown: DMError) -> str:
    """The name as one part of an address; what can't be one (`..`) is no name of anything either."""
    if name in ("", ".", "..") or "/" in name:
        raise unknown
    return quote(name, safe="")
