"""`dmctl flashback`: the SQL that takes back what a stretch of the relay has done; nothing is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dm.cli import output as printer
from dm.cli.errand import wait_for
from dm.cli.invocation import AddrOption, OutputOption, SourceOption, TaskArgument, as_json, client_of, task_name

Answer = dict[str, Any]


def flashback(
    task: TaskArgument,
    begin: Annotated[
        str, typer.Option("--from", help="from here on: a file and an offset (FILE:154), a GTID set, or a time")
    ],
    end: Annotated[str, typer.Option("--to", help="up to here; all that the target has when left out")] = "",
    tables: Annotated[
        list[str] | None, typer.Option("--tables", help="only this table of the target, schema.table; may be repeated")
    ] = None,
    sql: Annotated[
        str, typer.Option("--sql", help="the directory for the statements; no file there is written over")
    ] = ".",
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Write the SQL that takes back row changes, newest first. It is not executed."""
    client = client_of(addr)
    body: Answer = {
        "task": task_name(client, task), "sources": source or [], "begin": begin, "end": end, "tables": tables or [],
        "directory": str(Path(sql).absolute()),
    }  # fmt: skip
    address = f"/api/v1/flashbacks/{client.post('/api/v1/flashbacks', body)['number']}"
    answer = wait_for(client, address, "flashback", None if as_json(output) else progress)
    if as_json(output):
        printer.print_json(answer)
        return
    for line in lines(answer):
        printer.print_line(line)


def progress(answer: Answer) -> str:
    """One line on how far it is."""
    return str(answer.get("phase", "starting"))


def lines(answer: Answer) -> list[str]:
    """The result for people."""
    return [line for report in answer["report"] for line in _of_source(report)]


def _of_source(report: Answer) -> list[str]:
    place = f"from {report['from']} to {report['to']}"
    if not report["file"]:
        return [f"{report['source']}: no row changes {place}", *_ddl(report)]
    counted = f"{report['statements']} statements take back {report['transactions']} transactions"
    return [
        f"{report['source']}: {counted}, {place}",
        *(f"  {table}: {count}" for table, count in report["tables"].items()),
        *_ddl(report),
        f"  file: {report['file']}",
    ]


def _ddl(report: Answer) -> list[str]:
    found = [f"  not taken back, at {each['place']}: {each['statement']}" for each in report["ddl"]]
    return [*found, f"  not taken back: {report['ddlNotShown']} more statements"] if report["ddlNotShown"] else found
