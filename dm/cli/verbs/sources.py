"""The text of `operate-source`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs, shows
from dm.cli.client import read_config_file
from dm.cli.invocation import is_file
from dm.text import counted
from dm.verbs.declaration import Verb
from dm.verbs.sources import CreateSources, ShowSources, StopSources, UpdateSources


@runs(CreateSources, UpdateSources)
def put_sources(asked: Verb, caller: Caller) -> None:
    """Warnings on stderr in either form, then the sources."""
    answer = caller.ask(caller.read(asked))
    printer.warnings(answer)
    caller.show(answer, printer.sources_table)


@shows(ShowSources)
def show_sources(_asked: ShowSources, answer: Answer) -> None:
    """A line for each."""
    printer.sources_table(answer)


@runs(StopSources)
def stop_sources(asked: StopSources, caller: Caller) -> None:
    """What became of each source's relay files."""
    files = tuple(read_config_file(name) for name in asked.names if is_file(name))
    answer = caller.ask(asked.but(sources=tuple(name for name in asked.names if not is_file(name)), files=files))
    if caller.json:
        printer.print_json(answer)
        return
    for one in answer["sources"]:
        printer.print_line(f"source {one['source']} is forgotten{_relay(one)}")


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
