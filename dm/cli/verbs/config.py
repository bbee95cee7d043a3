"""The text of `config`; its export and import of files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs, shows
from dm.cli.client import RequestRefused, read_config_file
from dm.cli.invocation import FAILED, OK
from dm.errors import DMError
from dm.verbs import config as declared
from dm.verbs.relays import StartRelay
from dm.verbs.sources import CreateSources
from dm.verbs.tasks import StartTask

RELAYS_FILE = "relay_workers.json"  # DM's name: which workers pull the binlog of which sources
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")  # what dm.config takes for a task's name and a source's id


@shows(declared.ShowConfig)
def show_config(_asked: declared.ShowConfig, answer: Answer) -> None:
    """Files and settings in one table."""
    rows = [(kind[:-1], one["name"], one["file"]) for kind in ("sources", "tasks") for one in answer[kind]]
    printer.table("", ("kind", "name", "file"), [*rows, *_settings(answer)])


@runs(declared.ShowTaskFile, declared.ShowSourceFile)
def show_file(asked: declared.ShownFile, caller: Caller) -> None:
    """The text, on stdout or in a file."""
    answer = caller.ask(caller.read(asked))
    if asked.file is not None:
        try:
            _write(Path(asked.file), answer["cfg"])
        except OSError as error:
            raise DMError("file-unwritable", file=asked.file, cause=error.strerror or "") from error
        printer.say(f"written to {asked.file}")
    elif caller.json:
        printer.print_json(answer)
    else:
        printer.print_file(answer["cfg"].removesuffix("\n"))


@runs(declared.ChangeWorker)
def worker(asked: declared.ChangeWorker, caller: Caller) -> None:
    """The settings as they are then."""
    answer = caller.ask(asked if asked.changes() else declared.WorkerSettings())
    if caller.json:
        printer.print_json(answer)
    else:
        printer.table("", ("setting", "value"), [(name, value) for _, name, value in _settings(answer)])


@runs(declared.ExportConfig)
def export(asked: declared.ExportConfig, caller: Caller) -> None:
    """The names of the files that were written."""
    answer = caller.ask(declared.ShowConfig())
    place = Path(asked.directory)
    written: list[str] = []
    try:
        if place.is_dir() and any(place.iterdir()):
            problem = f"{asked.directory} is there and not empty"
            raise DMError("usage", problem=problem, hint="name another one with --path")
        for one in (*answer["sources"], *answer["tasks"]):
            _demand_file_name(str(one["name"]))
        for kind in ("sources", "tasks"):
            (place / kind).mkdir(parents=True, exist_ok=True)
            written += [_write(place / kind / f"{one['name']}.yaml", one["cfg"]) for one in answer[kind]]
        relays = {source: ["dm-worker"] for source in answer["relays"]}
        written.append(_write(place / RELAYS_FILE, json.dumps(relays, indent=2) + "\n"))
    except OSError as error:
        raise DMError("file-unwritable", file=error.filename or asked.directory, cause=error.strerror or "") from error
    if caller.json:
        printer.print_json({"result": True, "msg": "", "files": written})
        return
    for file in written:
        printer.print_line(file)


def _demand_file_name(name: str) -> None:
    """Refuse what would lead out of the directory: names come from whatever answers at an address."""
    if not _FILE_NAME.fullmatch(name):
        raise DMError("bad-name-in-answer", said=name)


@runs(declared.ImportConfig)
def import_files(asked: declared.ImportConfig, caller: Caller) -> int:
    """What became of each file; tasks are started although others can't be."""
    place = Path(asked.directory)
    sources, tasks = (sorted((place / kind).glob("*.yaml")) for kind in ("sources", "tasks"))
    if not sources and not tasks:
        problem = f"there are no files sources/*.yaml or tasks/*.yaml in {asked.directory}"
        raise DMError("usage", problem=problem, hint="name the directory of an export with --path")
    known = caller.ask(declared.ShowConfig())
    done: list[tuple[str, str, str]] = []
    new = [file for file in sources if not _known(known["sources"], file, "source", done)]
    if new:
        caller.ask(CreateSources(files=tuple(read_config_file(str(file)) for file in new)))
        done += [("source", file.stem, "added") for file in new]
    for source in _relays(place / RELAYS_FILE):
        caller.ask(StartRelay(source=source))
        done.append(("relay", source, "started"))
    failed = [
        file for file in tasks if not _known(known["tasks"], file, "task", done) and not _start(caller, file, done)
    ]
    if caller.json:
        steps = [{"kind": kind, "name": name, "outcome": outcome} for kind, name, outcome in done]
        printer.print_json({"result": not failed, "msg": "", "steps": steps})
    else:
        printer.table("", ("kind", "name", "outcome"), done)
    return FAILED if failed else OK


def _start(caller: Caller, file: Path, done: list[tuple[str, str, str]]) -> bool:
    """Start one task of several: the next ones are started although it can't be."""
    try:
        answer = caller.ask(StartTask(file=read_config_file(str(file))))
    except RequestRefused as refused:
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


def _write(file: Path, text: str) -> str:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
    return str(file)


def _settings(answer: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [("dm-worker", name, str(value)) for name, value in answer["worker"].items()]
