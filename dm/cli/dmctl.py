"""`dmctl`: DM's verbs on the command line, and a shell with the same verbs when none is given.

Exit status: 0 done, 1 failed, 2 bad usage or configuration, 3 the precheck failed, 4 `wait` gave up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from dm.cli import follow as following
from dm.cli import output as printer
from dm.cli.binlog import binlog_app, structure_app
from dm.cli.client import Client, Refused, read_config_file
from dm.cli.completion import be_ready, completion
from dm.cli.config_verbs import config_app
from dm.cli.diff import diff
from dm.cli.encrypt import encrypt
from dm.cli.flashback import flashback
from dm.cli.invocation import (
    AddrOption,
    OutputOption,
    RpcTimeoutOption,
    SourceOption,
    TasksArgument,
    as_json,
    client_of,
    of_task,
    settings,
    task_name,
    tasks_on,
)
from dm.cli.logs import logs
from dm.cli.older_verbs import Verbs
from dm.cli.output import Format
from dm.cli.relay import pause_relay, purge_relay, resume_relay, start_relay, stop_relay
from dm.cli.reload_table import reload_table
from dm.cli.replay import replay
from dm.cli.shard_ddl_lock import locks_app
from dm.cli.shell import Shell
from dm.cli.sources import sources_app
from dm.cli.status_text import in_error
from dm.cli.update_task import update_task
from dm.cli.validation import validation_app
from dm.cli.wait import wait_task
from dm.errors import DMError, ErrorReport

OK, FAILED, BAD_USAGE, PRECHECK_FAILED = 0, 1, 2, 3
_PRECHECK_CODES = (26005, 26007)

app = typer.Typer(
    name="dmctl",
    cls=Verbs,
    help="Controls dm: sources are upstream servers, tasks migrate from sources into a target.",
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(sources_app, name="operate-source")
app.add_typer(binlog_app, name="binlog")
app.add_typer(structure_app, name="binlog-schema")
app.add_typer(locks_app, name="shard-ddl-lock")
app.command("encrypt")(encrypt)
app.command("diff")(diff)
app.command("flashback")(flashback)
app.command("reload-table")(reload_table)
app.command("replay")(replay)
app.command("update-task")(update_task)
app.add_typer(config_app, name="config")
app.add_typer(validation_app, name="validation")

app.command("start-relay")(start_relay)
app.command("stop-relay")(stop_relay)
app.command("pause-relay")(pause_relay)
app.command("resume-relay")(resume_relay)
app.command("purge-relay")(purge_relay)

FileArgument = Annotated[str, typer.Argument(help="the task file")]
FollowOption = Annotated[
    bool, typer.Option("--follow", help="show progress until the task is finished or has caught up; Ctrl-C leaves")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        from dm.worker.version import installed_version  # what looks it up is imported for no other verb

        printer.print_line(f"dmctl {installed_version()}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="print the version")
]


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    output: OutputOption = None,
    addr: AddrOption = None,
    rpc_timeout: RpcTimeoutOption = None,
    version: VersionOption = False,
) -> None:
    """Without a verb: an interactive shell."""
    settings.output, settings.addr = output or settings.output, addr or settings.addr
    settings.seconds = rpc_timeout or settings.seconds
    if context.invoked_subcommand is None:
        raise typer.Exit(Shell(execute, sorted(_verbs()), sys.stdin.isatty()).run())


@app.command("check-task")
def check_task(
    file: FileArgument,
    start_time: Annotated[
        str | None, typer.Option("--start-time", help="say where `start-task --start-time` would begin")
    ] = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Check whether a task can run. Lists what it does not migrate, too."""
    answer = client_of(addr).post("/api/v1/tasks/check", {"file": read_config_file(file), "start_time": start_time})
    if as_json(output):
        printer.print_json(answer)
    else:
        printer.warnings(answer)
        printer.check_table(answer)
        for name, position in answer["startPositions"].items():
            printer.say(f"source {name} begins at {position}")
    if not answer["summary"]["passed"]:
        raise typer.Exit(PRECHECK_FAILED)


@app.command("start-task")
def start_task(
    file: FileArgument,
    source: SourceOption = None,
    remove_meta: Annotated[
        bool, typer.Option("--remove-meta", help="forget the progress of an earlier task of this name: begin anew")
    ] = False,
    start_time: Annotated[
        str | None,
        typer.Option(
            "--start-time",
            help="begin about here in the binlog, whatever checkpoint and `meta` say: '2026-11-21 10:00:00' in the "
            "source's time zone, or with a zone",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            help="apply everything up to here, then end: mysql-bin.000003:154, a GTID set, or a time as --start-time's",
        ),
    ] = None,
    follow: FollowOption = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Check a task and start it."""
    _demand_text(output, follow=follow)
    body = {
        "file": read_config_file(file), "sources": source or [], "remove_meta": remove_meta, "start_time": start_time,
        "until": until,
    }  # fmt: skip
    client = client_of(addr)
    answer = client.post("/api/v1/tasks", body)
    if as_json(output):
        printer.print_json(answer)
        _demand_begun(answer, output)
        return
    printer.warnings(answer)
    for result in answer["checkResult"]["results"]:
        for error in result["errors"]:
            printer.say(f"warning: {result['name']} of {result['extra']}: {error['short_error']}")
    for name, position in answer["startPositions"].items():
        printer.say(f"source {name} begins at {position}")
    printer.stages_table(answer)
    if not follow:
        _demand_begun(answer, output)
        printer.print_line(f"follow it with `dmctl query-status {answer['taskName']}`")
    elif not following.follow(lambda: client.get(f"{of_task(answer['taskName'])}/status", source=source or [])):
        raise typer.Exit(FAILED)


@app.command("stop-task")
def stop_task(
    task: TasksArgument = None, source: SourceOption = None, output: OutputOption = None, addr: AddrOption = None
) -> None:
    """Stop a task and forget it. Its progress stays in the target: the next start continues there."""
    _operate("stop", task, source, output, addr, show=printer.final_places)


@app.command("pause-task")
def pause_task(
    task: TasksArgument = None, source: SourceOption = None, output: OutputOption = None, addr: AddrOption = None
) -> None:
    """Let a task rest until resume-task."""
    _operate("pause", task, source, output, addr)


@app.command("resume-task")
def resume_task(
    task: TasksArgument = None,
    source: SourceOption = None,
    follow: FollowOption = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Go on after pause-task, or after an error."""
    _demand_text(output, follow=follow)
    if follow and task is None:
        raise DMError("usage", problem="--follow is for one task", hint="dmctl resume-task <task> --follow")
    _operate("resume", task, source, output, addr, follow=follow)
    client = client_of(addr)
    if (
        follow
        and task is not None
        and not following.follow(lambda: client.get(f"{of_task(task_name(client, task))}/status", source=source or []))
    ):
        raise typer.Exit(FAILED)


@app.command("query-status")
def query_status(
    task: Annotated[str | None, typer.Argument(help="the task's name, or its file; all tasks when left out")] = None,
    source: SourceOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="show it again and again until the task ends or rests; Ctrl-C leaves")
    ] = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Show all tasks, or one task in detail. Exit status 1 if that one rests on an error."""
    _demand_text(output, follow=follow)
    client = client_of(addr)
    if task is None:
        if follow:
            raise DMError("usage", problem="--follow shows one task", hint="dmctl query-status <task> --follow")
        answer = client.get("/api/v1/tasks", source=source or [])
    else:
        address = f"{of_task(task_name(client, task))}/status"
        if follow:
            if not following.follow(lambda: client.get(address, source=source or []), over=following.ended):
                raise typer.Exit(FAILED)
            return
        answer = client.get(address, source=source or [])
    if as_json(output):
        printer.print_json(answer)
    elif task is None:
        printer.tasks_table(answer)
    else:
        printer.status_table(answer)
    if task is not None and in_error(answer):
        raise typer.Exit(FAILED)


app.command("wait")(wait_task)


@app.command("shutdown")
def shutdown(output: OutputOption = None, addr: AddrOption = None) -> None:
    """End the daemon; its tasks go on when it is started again."""
    client = client_of(addr)
    if not client.running():
        printer.say("no dm-worker runs")
        return
    answer = client.post("/api/v1/daemon/shutdown")
    if as_json(output):
        printer.print_json(answer)
    else:
        printer.print_line(f"dm-worker (pid {answer['pid']}) ends")


@app.command(
    "demo",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def demo(context: typer.Context) -> None:
    """Show dm at work on throw-away servers. Load, sync, a kill, a comparison."""
    raise typer.Exit(import_module("dm.cli.demo").main(context.args))


app.command("logs")(logs)
app.command("completion")(completion)


def _verbs() -> list[str]:
    groups = [group.name for group in app.registered_groups if isinstance(group.name, str)]
    return [command.name or "" for command in app.registered_commands] + groups


def _demand_text(chosen: Format | None, *, follow: bool) -> None:
    if follow and as_json(chosen):
        raise DMError("usage", problem="--follow has no JSON form", hint="poll `dmctl query-status <task> -o json`")


def _operate(
    verb: str,
    task: str | None,
    sources: list[str] | None,
    chosen: Format | None,
    addr: str | None,
    show: Callable[[Mapping[str, Any]], None] = printer.stages_table,
    *,
    follow: bool = False,
) -> None:
    client = client_of(addr)
    if task is None:
        _operate_all(verb, client, sources or [], as_json(chosen))
        return
    name = task_name(client, task)
    answer = client.post(f"{of_task(name)}/{verb}", {"sources": sources or []})
    if as_json(chosen):
        printer.print_json(answer)
    else:
        show(answer)
    if not follow:  # which tells the errors, and how it ends
        _demand_begun(answer, chosen)


def _demand_begun(answer: Mapping[str, Any], chosen: Format | None) -> None:
    """Fail where a subtask that was to work does not, and say why."""
    if not as_json(chosen):
        printer.not_at_work(answer)
    if not all(source["result"] for source in answer["sources"]):
        raise typer.Exit(FAILED)


def _operate_all(verb: str, client: Client, sources: Sequence[str], json: bool) -> None:
    """Do it to each task of the sources; one that refuses keeps none of the others from it."""
    answers: list[Mapping[str, Any]] = []
    for task, there in tasks_on(client, sources).items():
        try:
            answers.append(client.post(f"{of_task(task)}/{verb}", {"sources": there}))
        except Refused as refused:
            answers.append({**refused.answer, "taskName": task})
    done = all(one["result"] for answer in answers for one in (answer, *answer.get("sources", ())))
    if json:
        printer.print_json({"result": done, "msg": "", "tasks": answers})
    elif not answers:
        printer.print_line(f"no tasks on {', '.join(sources)}")
    for answer in () if json else answers:
        if answer["result"]:
            printer.stages_table(answer)
            printer.not_at_work(answer)
        else:
            printer.print_error(answer["error"])
    if not done:
        raise typer.Exit(FAILED)


def _exit_status(report: ErrorReport) -> int:
    if report["ErrCode"] in _PRECHECK_CODES:
        return PRECHECK_FAILED
    return BAD_USAGE if report["ErrClass"] == "config" else FAILED


def execute(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit status. Errors are said, never thrown."""
    wants_json = bool({"json", "--output=json", "-ojson"} & {*arguments}) or settings.output is Format.json
    be_ready()
    try:
        app(list(arguments), prog_name="dmctl")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else OK
    except Refused as refused:
        if wants_json:
            printer.print_json(refused.answer)
        if "checkResult" in refused.answer and not wants_json:
            printer.failed_checks(refused.report, refused.answer["checkResult"])
        else:
            printer.print_error(refused.report)
        return _exit_status(refused.report)
    except DMError as error:
        if wants_json:
            printer.print_json({"result": False, "msg": str(error), "error": error.report()})
        printer.print_error(error.report())
        return _exit_status(error.report())
    return OK


def main() -> None:
    """The console script."""
    sys.exit(execute(sys.argv[1:]))


if __name__ == "__main__":
    main()
