"""The verbs of relays: start-relay, stop-relay, pause-relay, resume-relay, purge-relay."""

from __future__ import annotations

from typing import Annotated

import typer

from dm.cli import output as printer
from dm.cli.exit_status import FAILED
from dm.cli.invocation import AddrOption, OutputOption, SourceOption, as_json, client_of, of_source
from dm.cli.output import Format
from dm.cli.sources import print_sources
from dm.errors import DMError


def start_relay(source: SourceOption = None, output: OutputOption = None, addr: AddrOption = None) -> None:
    """Pull the sources' binlog into relay files from now on."""
    _relay("start", source, output, addr)


def stop_relay(source: SourceOption = None, output: OutputOption = None, addr: AddrOption = None) -> None:
    """Pull no more; files stay."""
    _relay("stop", source, output, addr)


def pause_relay(source: SourceOption = None, output: OutputOption = None, addr: AddrOption = None) -> None:
    """Let the relay rest until resume-relay."""
    _relay("pause", source, output, addr)


def resume_relay(source: SourceOption = None, output: OutputOption = None, addr: AddrOption = None) -> None:
    """Go on pulling after pause-relay, or after an error."""
    _relay("resume", source, output, addr)


def purge_relay(
    filename: Annotated[
        str | None, typer.Option("--filename", "-f", help="the relay files before this one go, as mysql-bin.000006")
    ] = None,
    sub_dir: Annotated[
        str, typer.Option("--sub-dir", help="the sub-directory the file is in; the newest when left out")
    ] = "",
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Remove relay files that no task needs any more."""
    if not source or len(source) > 1 or not filename:
        problem = "the file is of one source" if source and len(source) > 1 else "source or file is not named"
        raise DMError("usage", problem=problem, hint="dmctl purge-relay -s <source> --filename mysql-bin.000006")
    body = {"filename": filename, "sub_dir": sub_dir}
    answer = client_of(addr).post(f"{of_source(source[0])}/relay/purge", body)
    if as_json(output):
        printer.print_json(answer)
    else:
        printer.purged(answer)


def _relay(verb: str, sources: list[str] | None, chosen: Format | None, addr: str | None) -> None:
    if not sources:
        raise DMError("usage", problem="no source is named", hint=f"dmctl {verb}-relay -s <source>")
    client = client_of(addr)
    client.get("/api/v1/sources", source=sources)  # all of them or none: an unknown one is said before anything is done
    answers = [client.post(f"{of_source(source)}/relay/{verb}") for source in sources]
    lines = [one for answer in answers for one in answer["sources"]]
    print_sources({**answers[0], "sources": lines}, chosen)
    if not all(line["result"] for line in lines):  # what was to work rests on an error, which the lines tell
        raise typer.Exit(FAILED)
