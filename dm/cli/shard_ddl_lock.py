"""`dmctl shard-ddl-lock`: which shards wait for which, and a person's decision not to wait."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dm.cli import output as printer
from dm.cli.invocation import AddrOption, OutputOption, SourceOption, TasksArgument, as_json, client_of, task_name
from dm.cli.plain_values import PlainGroup
from dm.errors import DMError

if TYPE_CHECKING:
    from typer._click import Context


class Locks(PlainGroup):
    """In DM the verb alone, or with a task, is the list."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """`shard-ddl-lock shop` is `shard-ddl-lock list shop`."""
        if "--help" not in args and not any(word in self.commands for word in args):
            args = ["list", *args]
        return super().parse_args(ctx, args)


class Action(Enum):
    """What is to become of a DDL."""

    exec = "exec"
    skip = "skip"


locks_app = typer.Typer(
    cls=Locks,
    help="Show which shards wait at a DDL, and waive one.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


@locks_app.command("list")
def list_locks(task: TasksArgument = None, output: OutputOption = None, addr: AddrOption = None) -> None:
    """Show the DDLs that are not executed yet, who came first, and who is missing."""
    client = client_of(addr)
    answer = client.get("/api/v1/shard-ddl-locks", **({"task": task_name(client, task)} if task else {}))
    if as_json(output):
        printer.print_json(answer)
    else:
        printer.locks_table(answer)


@locks_app.command("unlock")
def unlock(
    lock: Annotated[str, typer.Argument(help="the lock's ID, as `shard-ddl-lock list` shows it")],
    source: SourceOption = None,
    action: Annotated[
        Action, typer.Option("--action", "-a", help="execute the DDL once all others are there, or leave it out")
    ] = Action.exec,
    database: Annotated[str, typer.Option("--database", "-d", help="only this table's schema at the source")] = "",
    table: Annotated[str, typer.Option("--table", "-t", help="only this table of the source")] = "",
    owner: Annotated[str, typer.Option("--owner", "-o", help="no effect: whoever comes last executes the DDL")] = "",
    force_remove: Annotated[
        bool,
        typer.Option(
            "--force-remove",
            "-f",
            help="with --source: give up its shards, or the one table, with the rows that wait there",
        ),
    ] = False,
    output: Annotated[printer.Format | None, typer.Option("--output", help="table (default) or json")] = None,
    addr: AddrOption = None,
) -> None:
    """Wait no more for the shards that are missing at a DDL; what they have is still merged when they come."""
    if bool(database) != bool(table):
        raise DMError("usage", problem="--database and --table go together", hint="name both, or none")
    del owner
    body: dict[str, Any] = {
        "lock": lock, "sources": source or [], "action": action.value, "database": database, "table": table,
        "force_remove": force_remove,
    }  # fmt: skip
    answer = client_of(addr).post("/api/v1/shard-ddl-locks/unlock", body)
    if as_json(output):
        printer.print_json(answer)
    else:
        printer.print_line(answer["msg"] or f"{lock}: nobody is waited for")
