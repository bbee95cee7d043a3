"""`dmctl binlog` and `dmctl binlog-schema`: what is to become of single events, and which structure a table had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dm.cli import output as printer
from dm.cli.invocation import (
    AddrOption,
    OutputOption,
    SourceOption,
    TaskArgument,
    as_json,
    client_of,
    of_task,
    task_name,
)
from dm.cli.output import Format
from dm.cli.plain_values import PlainGroup
from dm.errors import DMError

binlog_app = typer.Typer(
    cls=PlainGroup,
    help="Skip or replace single events of the binlog. Made for a DDL that the target refuses.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
structure_app = typer.Typer(
    cls=PlainGroup,
    help="Show or replace the structure of a table. The task is paused; the structure is that at its checkpoint.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_SYNC = "optimistic shard mode: other sources' statements see the new structure at once, else when the task goes on"
PlaceOption = Annotated[
    str,
    typer.Option("--binlog-pos", "-b", help="where the event begins, as mysql-bin.000003:1234; else the failing one"),
]
StatementsArgument = Annotated[list[str], typer.Argument(help="DDL statements, with the schema before each table")]
DatabaseArgument = Annotated[str, typer.Argument(help="the schema, as the source names it")]
TableArgument = Annotated[str, typer.Argument(help="the table, as the source names it")]


@binlog_app.command("skip")
def skip(
    task: TaskArgument,
    binlog_pos: PlaceOption = "",
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Execute nothing for a statement; what it does to the source's table is still followed."""
    _operate("skip", task, binlog_pos, (), source, output, addr)


@binlog_app.command("replace")
def replace(
    task: TaskArgument,
    statements: StatementsArgument,
    binlog_pos: PlaceOption = "",
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Execute these statements in place of one."""
    _operate("replace", task, binlog_pos, statements, source, output, addr)


@binlog_app.command("inject")
def inject(
    task: TaskArgument,
    statements: StatementsArgument,
    binlog_pos: PlaceOption = "",
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Execute these statements before an event, of rows or another."""
    _operate("inject", task, binlog_pos, statements, source, output, addr)


@binlog_app.command("revert")
def revert(
    task: TaskArgument,
    binlog_pos: PlaceOption = "",
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Take back what was to become of an event and has not been done yet."""
    _operate("revert", task, binlog_pos, (), source, output, addr)


@binlog_app.command("list")
def list_operators(
    task: TaskArgument,
    binlog_pos: Annotated[str, typer.Option("--binlog-pos", "-b", help="only from this place on")] = "",
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Show what is to become of which events."""
    _operate("list", task, binlog_pos, (), source, output, addr)


def _operate(
    verb: str,
    task: str,
    binlog_pos: str,
    statements: Sequence[str],
    sources: list[str] | None,
    output: Format | None,
    addr: str | None,
) -> None:
    client = client_of(addr)
    body = {"sources": sources or [], "binlog_pos": binlog_pos, "sqls": list(statements)}
    answer = client.post(f"{of_task(task_name(client, task))}/binlog/{verb}", body)
    if as_json(output):
        printer.print_json(answer)
    elif verb == "list":
        printer.operators_table(answer)
    else:
        printer.stages_table(answer)
        printer.refusals(answer)
    _end(answer)


@structure_app.command("list")
def list_structure(
    task: TaskArgument,
    database: DatabaseArgument,
    table: TableArgument,
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Show the structure by which the table's rows are read."""
    _structure("list", task, {"database": database, "table": table}, source, output, addr)


@structure_app.command("update")
def update_structure(
    task: TaskArgument,
    database: DatabaseArgument,
    table: TableArgument,
    schema_file: Annotated[str | None, typer.Argument(help="a file with the CREATE TABLE statement")] = None,
    from_source: Annotated[bool, typer.Option("--from-source", help="take the one the source has now")] = False,
    from_target: Annotated[bool, typer.Option("--from-target", help="take the one the target has now")] = False,
    flush: Annotated[bool, typer.Option(help="a paused task has nothing but what is stored: always so")] = True,
    sync: Annotated[bool, typer.Option(help=_SYNC)] = True,
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Replace the structure by which the table's rows are read."""
    hint = "dmctl binlog-schema update <task> <database> <table> <file>, or --from-source, or --from-target"
    if [schema_file is not None, from_source, from_target].count(True) != 1:
        raise DMError("usage", problem="one of file, --from-source and --from-target has to be given", hint=hint)
    if not flush:
        raise DMError("usage", problem="a structure that is not stored would be lost", hint="leave out --no-flush")
    body = {"database": database, "table": table, "origin": "source" if from_source else "target", "sync": sync}
    if schema_file is not None:
        body |= {"origin": "file", "text": _text_of(schema_file)}
    _structure("update", task, body, source, output, addr)


@structure_app.command("delete")
def delete_structure(
    task: TaskArgument,
    database: DatabaseArgument,
    table: TableArgument,
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Forget the structure; it is found again when the table's next rows come."""
    _structure("delete", task, {"database": database, "table": table}, source, output, addr)


def _structure(
    verb: str,
    task: str,
    body: Mapping[str, str | bool],
    sources: list[str] | None,
    output: Format | None,
    addr: str | None,
) -> None:
    client = client_of(addr)
    answer = client.post(f"{of_task(task_name(client, task))}/binlog-schema/{verb}", {**body, "sources": sources or []})
    if as_json(output):
        printer.print_json(answer)
    else:
        printer.structures(answer) if verb == "list" else printer.stages_table(answer)
        printer.refusals(answer)
    _end(answer)


def _end(answer: Mapping[str, Any]) -> None:
    """Fail where a source was refused."""
    if not all(source["result"] for source in answer["sources"]):
        raise typer.Exit(1)


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DMError("file-unreadable", file=path) from error
