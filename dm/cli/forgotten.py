"""`dmctl forgotten`: what sources and tasks that are known no more have left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from dm.cli import output as printer
from dm.cli.client import read_config_file
from dm.cli.exit_status import FAILED
from dm.cli.invocation import AddrOption, OutputOption, as_json, client_of
from dm.cli.plain_values import PlainGroup
from dm.plural import counted

forgotten_app = typer.Typer(
    cls=PlainGroup,
    help="List and remove what forgotten tasks have left.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FileOption = Annotated[
    list[str] | None,
    typer.Option("--file", "-f", help="look at this task file's target instead of those of all tasks; may be repeated"),
]


@forgotten_app.command("list")
def list_forgotten(file: FileOption = None, output: OutputOption = None, addr: AddrOption = None) -> None:
    """List relay files, work directories, and progress at targets that no source or task here is known for."""
    answer = client_of(addr).post("/api/v1/forgotten", _files(file))
    if as_json(output):
        printer.print_json(answer)
    elif answer["forgotten"]:
        rows = [(one["name"], one["where"], _content(one), one["changed"]) for one in answer["forgotten"]]
        printer.table("", ("name", "where", "content", "changed (UTC)"), rows)
    else:
        printer.print_line("nothing is left")
    for problem in answer["problems"]:
        printer.say(f"warning: {problem}")
    if answer["problems"]:
        raise typer.Exit(FAILED)


@forgotten_app.command("remove")
def remove_forgotten(
    names: Annotated[
        list[str], typer.Argument(help="as `dmctl forgotten list` has them: relay/mysql-01, progress/shop")
    ],
    file: FileOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Remove some of it. Another dm-worker may know a task that this one does not: look at what you name."""
    answer = client_of(addr).post("/api/v1/forgotten/remove", {"names": names, **_files(file)})
    if as_json(output):
        printer.print_json(answer)
        return
    for one in answer["removed"]:
        stays = f"; what stays: {one['left']}" if one["left"] else ""
        printer.print_line(f"{one['name']} is removed{stays}")


def _content(one: Mapping[str, Any]) -> str:
    if "tables" in one:
        sources = f" of {', '.join(one['sources'])}" if one["sources"] else ""
        return f"{counted(one['tables'], 'table')}{sources}"
    return f"{counted(one['files'], 'file')}, {int(one['bytes']) / (1 << 20):.1f} MB"


def _files(paths: Sequence[str] | None) -> dict[str, Any]:
    return {"files": [read_config_file(path) for path in paths or []]}
