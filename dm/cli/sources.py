"""`dmctl operate-source`: the servers that tasks migrate from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from dm.cli import output as printer
from dm.cli.client import read_config_file
from dm.cli.invocation import AddrOption, OutputOption, as_json, client_of, is_file
from dm.cli.output import Format
from dm.cli.plain_values import PlainGroup
from dm.plural import counted

sources_app = typer.Typer(
    cls=PlainGroup, help="Add, update, stop and show sources.", no_args_is_help=True, rich_markup_mode=None
)

FilesArgument = Annotated[list[str], typer.Argument(help="source files")]


@sources_app.command("create")
def create_sources(files: FilesArgument, output: OutputOption = None, addr: AddrOption = None) -> None:
    """Add the sources of these files: all or none."""
    answer = client_of(addr).post("/api/v1/sources", _files(files))
    printer.warnings(answer)
    print_sources(answer, output)


@sources_app.command("update")
def update_sources(files: FilesArgument, output: OutputOption = None, addr: AddrOption = None) -> None:
    """Replace the files of sources that no running task uses."""
    answer = client_of(addr).put("/api/v1/sources", _files(files))
    printer.warnings(answer)
    print_sources(answer, output)


@sources_app.command("stop")
def stop_sources(
    names: Annotated[list[str], typer.Argument(help="source ids, or their files")],
    keep_relay: Annotated[
        bool,
        typer.Option("--keep-relay", help="leave the relay files: a source may have purged what they hold"),
    ] = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Forget sources that no task uses, and remove their relay files."""
    client = client_of(addr)
    files = [name for name in names if is_file(name)]
    ids = [name for name in names if name not in files]
    answers = []
    if files:
        answers.append(client.post("/api/v1/sources/stop-by-file", {**_files(files), "keep_relay": keep_relay}))
    if ids:
        answers.append(client.post("/api/v1/sources/stop", {"sources": ids, "keep_relay": keep_relay}))
    answer = {**answers[0], "sources": [one for answer in answers for one in answer["sources"]]}
    if as_json(output):
        print_sources(answer, output)
        return
    for one in answer["sources"]:
        printer.print_line(f"source {one['source']} is forgotten{_relay(one)}")


@sources_app.command("show")
def show_sources(
    names: Annotated[list[str] | None, typer.Argument(help="source ids")] = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """List sources with their servers, relays and tasks."""
    print_sources(client_of(addr).get("/api/v1/sources", source=names or []), output)


def print_sources(answer: Mapping[str, Any], chosen: Format | None) -> None:
    """Sources as an answer has them."""
    if as_json(chosen):
        printer.print_json(answer)
    else:
        printer.sources_table(answer)


def _relay(source: Mapping[str, Any]) -> str:
    """What became of its relay files."""
    where = source["relayDirectory"]
    if "keptFiles" in source:
        size = int(source["keptBytes"]) / (1 << 20)
        return f"; its relay stays in {where}: {counted(source['keptFiles'], 'file')}, {size:.1f} MB"
    if source["problem"]:
        return f"; its relay stays in {where}: {source['problem']}"
    size = int(source["removedBytes"]) / (1 << 20)
    gone = f"; its relay is removed: {counted(source['removedFiles'], 'file')}, {size:.1f} MB"
    left = f"; in {where} stays what no relay has made: {source['left']}" if source["left"] else ""
    return (gone if source["removedFiles"] else "") + left


def _files(paths: Sequence[str]) -> dict[str, Any]:
    return {"files": [read_config_file(path) for path in paths]}
