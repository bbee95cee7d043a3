"""`dmctl config`: the files that the daemon keeps, without passwords, out of it and into it; the daemon's settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from dm.cli import output as printer
from dm.cli.client import Client, Refused, read_config_file
from dm.cli.invocation import AddrOption, OutputOption, as_json, client_of, of_source, of_task, task_name
from dm.cli.output import Format
from dm.cli.plain_values import PlainGroup
from dm.errors import DMError

config_app = typer.Typer(
    cls=PlainGroup,
    help="Show, export and import files and settings. Files are of sources and tasks, settings of dm-worker.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

RELAYS_FILE = "relay_workers.json"  # DM's name: which workers pull the binlog of which sources
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")  # what dm.config takes for a task's name and a source's id
DEFAULT_DIRECTORY = "./configs"  # DM's

PathOption = Annotated[str | None, typer.Option("--path", "-p", help="write it to this file")]
DirectoryOption = Annotated[str, typer.Option("--path", "-p", help="the directory")]


@config_app.command("show")
def show(output: OutputOption = None, addr: AddrOption = None) -> None:
    """List sources and tasks with the files they were made of, and the settings of dm-worker."""
    answer = client_of(addr).get("/api/v1/config")
    if as_json(output):
        printer.print_json(answer)
        return
    rows = [(kind[:-1], one["name"], one["file"]) for kind in ("sources", "tasks") for one in answer[kind]]
    printer.table("", ("kind", "name", "file"), [*rows, *_settings(answer)])


@config_app.command("task")
def show_task(
    task: Annotated[str, typer.Argument(help="the task's name")],
    path: PathOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Show the file of a task, with passwords masked."""
    client = client_of(addr)
    _show(client, f"/api/v1/config/task/{of_task(task_name(client, task)).rpartition('/')[2]}", path, output)


@config_app.command("source")
def show_source(
    source: Annotated[str, typer.Argument(help="the source's id")],
    path: PathOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Show the file of a source, with passwords masked."""
    _show(client_of(addr), f"/api/v1/config/source/{of_source(source).rpartition('/')[2]}", path, output)


@config_app.command("worker")
def worker(
    log_level: Annotated[str | None, typer.Option("--log-level", help="debug, info, warn or error")] = None,
    log_max_size: Annotated[
        str | None, typer.Option("--log-max-size", help="size of a log file before the next one is begun, as 100M")
    ] = None,
    log_max_backups: Annotated[
        int | None, typer.Option("--log-max-backups", min=0, help="how many full log files of a process are kept")
    ] = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Show the settings of dm-worker, or change them: at once, and for its next starts."""
    named = {"log-level": log_level, "log-max-size": log_max_size, "log-max-backups": log_max_backups}
    changes = {name: str(value) for name, value in named.items() if value is not None}
    client = client_of(addr)
    where = "/api/v1/config/worker"
    answer = client.put(where, {"settings": changes}) if changes else client.get(where)
    if as_json(output):
        printer.print_json(answer)
    else:
        printer.table("", ("setting", "value"), [(name, value) for _, name, value in _settings(answer)])


@config_app.command("export")
def export(
    directory: DirectoryOption = DEFAULT_DIRECTORY, output: OutputOption = None, addr: AddrOption = None
) -> None:
    """Write the files of all sources and tasks to a new directory, in DM's layout, with passwords masked."""
    answer = client_of(addr).get("/api/v1/config")
    place = Path(directory)
    written: list[str] = []
    try:
        if place.is_dir() and any(place.iterdir()):
            raise DMError("usage", problem=f"{directory} is there and not empty", hint="name another one with --path")
        for one in (*answer["sources"], *answer["tasks"]):
            _demand_file_name(str(one["name"]))
        for kind in ("sources", "tasks"):
            (place / kind).mkdir(parents=True, exist_ok=True)
            written += [_write(place / kind / f"{one['name']}.yaml", one["cfg"]) for one in answer[kind]]
        relays = {source: ["dm-worker"] for source in answer["relays"]}
        written.append(_write(place / RELAYS_FILE, json.dumps(relays, indent=2) + "\n"))
    except OSError as error:
        raise DMError("file-unwritable", file=error.filename or directory, cause=error.strerror or "") from error
    if as_json(output):
        printer.print_json({"result": True, "msg": "", "files": written})
        return
    for file in written:
        printer.print_line(file)


def _demand_file_name(name: str) -> None:
    """Refuse what would lead out of the directory: names come from whatever answers at an address."""
    if not _FILE_NAME.fullmatch(name):
        raise DMError("bad-name-in-answer", said=name)


@config_app.command("import")
def import_files(
    directory: DirectoryOption = DEFAULT_DIRECTORY, output: OutputOption = None, addr: AddrOption = None
) -> None:
    """Add the sources and start the tasks of a directory that `config export` wrote, here or in DM."""
    place = Path(directory)
    sources, tasks = (sorted((place / kind).glob("*.yaml")) for kind in ("sources", "tasks"))
    if not sources and not tasks:
        problem = f"there are no files sources/*.yaml or tasks/*.yaml in {directory}"
        raise DMError("usage", problem=problem, hint="name the directory of an export with --path")
    client = client_of(addr)
    known = client.get("/api/v1/config")
    done: list[tuple[str, str, str]] = []
    new = [file for file in sources if not _known(known["sources"], file, "source", done)]
    if new:
        client.post("/api/v1/sources", {"files": [read_config_file(str(file)) for file in new]})
        done += [("source", file.stem, "added") for file in new]
    for source in _relays(place / RELAYS_FILE):
        client.post(f"{of_source(source)}/relay/start")
        done.append(("relay", source, "started"))
    failed = [
        file for file in tasks if not _known(known["tasks"], file, "task", done) and not _start(client, file, done)
    ]
    if as_json(output):
        steps = [{"kind": kind, "name": name, "outcome": outcome} for kind, name, outcome in done]
        printer.print_json({"result": not failed, "msg": "", "steps": steps})
    else:
        printer.table("", ("kind", "name", "outcome"), done)
    if failed:
        raise typer.Exit(1)


def _start(client: Client, file: Path, done: list[tuple[str, str, str]]) -> bool:
    """Start one task of several: the next ones are started although it can't be."""
    try:
        answer = client.post("/api/v1/tasks", {"file": read_config_file(str(file))})
    except Refused as refused:
        printer.print_error(refused.report)
        done.append(("task", file.stem, f"not started: error {refused.report['ErrCode']}"))
        return False
    printer.not_at_work(answer)
    works = all(source["result"] for source in answer["sources"])
    done.append(("task", file.stem, "started" if works else "started, but does not work"))
    return works


def _known(there: list[Mapping[str, Any]], file: Path, kind: str, done: list[tuple[str, str, str]]) -> bool:
    """Whether it is there already: an import that failed half-way can be repeated."""
    known = any(one["name"] == file.stem for one in there)
    if known:
        done.append((kind, file.stem, "is there already: left as it is"))
    return known


def _relays(file: Path) -> list[str]:
    if not file.exists():
        return []
    try:
        workers = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DMError("file-unreadable", file=str(file)) from error
    return sorted(map(str, workers)) if isinstance(workers, dict) else []


def _show(client: Client, where: str, path: str | None, output: Format | None) -> None:
    answer = client.get(where)
    if path is not None:
        try:
            _write(Path(path), answer["cfg"])
        except OSError as error:
            raise DMError("file-unwritable", file=path, cause=error.strerror or "") from error
        printer.say(f"written to {path}")
    elif as_json(output):
        printer.print_json(answer)
    else:
        printer.print_file(answer["cfg"].removesuffix("\n"))


def _write(file: Path, text: str) -> str:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
    return str(file)


def _settings(answer: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [("dm-worker", name, str(value)) for name, value in answer["worker"].items()]
