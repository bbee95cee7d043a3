"""`dmctl forgotten`: what sources and tasks that are known no more have left, and removing it.

Three places can have something: directories of relays, work directories of tasks, and the progress tables of targets.
What is forgotten is found by comparing them with what this daemon knows. Another daemon may know what this one does
not: so nothing goes but by its name, tables only while no run of their task is open, and files only by the names that
dm gives. What is left stays and is told.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from dm.config import SourceConfig, TaskConfig
from dm.dumpfiles.dump_files import remove_files
from dm.dumpfiles.storage import LocalStorage
from dm.errors import DMError
from dm.relay.purge import relay_size, remove_relay
from dm.sourcelog.relaylog.layout import INDEX_NAME
from dm.task.forgotten import Place
from dm.task.payload import dump_directory
from dm.unit import JSON
from dm.verbs.declaration import ConfigFile
from dm.verbs.forgotten import ListForgotten, RemoveForgotten
from dm.worker.supervisor import Supervisor
from dm.worker.verb_work import Answer, VerbWork, does


@dataclass(frozen=True, slots=True)
class _Known:
    """What this daemon knows, as of one moment. Paths are resolved: one directory may have several."""

    relays: frozenset[Path]  # the directories of its sources
    relay_roots: tuple[Path, ...]  # its own first
    unread: frozenset[str]  # sources whose files can't be understood any more: nothing tells where their relays are
    tasks: frozenset[str]
    dumps: frozenset[Path]  # where its tasks have their dump files, or read those of others
    places: tuple[Place, ...]  # where its tasks have their progress


class ForgottenVerbs(VerbWork):
    """Lists and removes."""

    @does(ListForgotten)
    def listed(self, asked: ListForgotten) -> Answer:
        """Also what is at the targets of these task files; a target that can't be asked is said beside."""
        known = self._loop.call(self._known)
        lines: list[JSON] = [*_relays(known), *self._work(known)]
        problems: list[JSON] = []
        for place in self._places(known, asked.files):
            try:
                lines += self._progress(place, known)
            except DMError as error:
                problems.append(f"{place.name}: {error.message}" + (f": {error.cause}" if error.cause else ""))
        return {"forgotten": lines, "problems": problems}

    @does(RemoveForgotten)
    def remove(self, asked: RemoveForgotten) -> Answer:
        """All that is named or nothing, as far as names go; each line says what stays."""
        tasks = {task for name in asked.names for task in _tasks_of(name.partition("/")[2])}
        with self._exclusion.tasks(*tasks), self._exclusion.sources:
            for name in asked.names:
                kind, _, directory = name.partition("/")
                for task in {"work": _tasks_of(directory), "progress": {directory}}.get(kind, ()):
                    self._errands.demand_none(task)
            return self._remove_named(asked)

    def _remove_named(self, asked: RemoveForgotten) -> Answer:
        known = self._loop.call(self._known)
        there: dict[str, list[tuple[str, Path | Place]]] = {}
        for line in (*_relays(known), *self._work(known)):
            there.setdefault(str(line["name"]), []).append((str(line["where"]), Path(str(line["where"]))))
        if any(name.startswith("progress/") for name in asked.names):
            for place in self._places(known, asked.files):
                for line in self._progress(place, known):
                    there.setdefault(str(line["name"]), []).append((place.name, place))
        chosen: dict[str, Path | Place] = {}
        for name in asked.names:
            found = there.get(name, [])
            if len(found) != 1:
                where = ", ".join(where for where, _ in found)
                kind = "forgotten-ambiguous" if found else "forgotten-unknown"
                raise DMError(kind, what=name, where=where, there=", ".join(sorted(there)) or "nothing")
            chosen[name] = found[0][1]
        lines: list[JSON] = [{"name": name, "left": self._remove(name, what)} for name, what in chosen.items()]
        return {"removed": lines}

    def forget(self, config: TaskConfig, lines: Sequence[dict[str, JSON]]) -> None:
        """`stop-task --remove-meta`, after the stop; what can't be removed is said in the lines of the sources.

        With a task's last subtask its tables go, unless they have progress of other sources, and its work directory.
        Of a source on which the task has been started again meanwhile nothing goes.
        """
        with self._exclusion.tasks(config.name):
            self._forget(config, lines)

    def _forget(self, config: TaskConfig, lines: Sequence[dict[str, JSON]]) -> None:
        work = self._supervisor.home.work / config.name
        sources = self._loop.call(self._supervisor.source_configs)
        again = {source for task, source in self._supervisor.registry.subtasks() if task == config.name}
        last = not again
        for line in lines:
            try:
                self._errands.demand_none(config.name)
                _demand_gone(config.name, str(line["source"]), again)
                self._servers.forget_progress(config.subtask(str(line["source"]), sources), work)
                if last and line is lines[-1] and all(other["result"] for other in lines):
                    self._remove_tables(config)
                    remove_work(work)
            except DMError as error:
                line |= {"result": False, "msg": error.message, "error": cast("JSON", error.report())}
            else:
                line["progressRemoved"] = True

    def _remove_tables(self, config: TaskConfig) -> None:
        """Another daemon may have a task of this name, with other sources."""
        place = Place(config)
        stored = (task for task in self._servers.stored.listed(place) if task.task == config.name)
        if all(source in config.source_ids for task in stored for source in task.sources):
            self._servers.stored.remove(place, config.name)

    def _remove(self, name: str, what: Path | Place) -> str:
        """Remove one; gives what stays."""
        kind, _, task = name.partition("/")
        if isinstance(what, Place):
            return ", ".join(self._servers.stored.remove(what, task))
        return remove_relay(what).left if kind == "relay" else remove_work(what)

    def _known(self) -> _Known:
        supervisor = self._supervisor
        read = {name for name, source in supervisor.sources.items() if isinstance(source.config, SourceConfig)}
        relays = {supervisor.relay_directory(name).resolve() for name in read}
        own = (supervisor.home.directory / "relay").resolve()
        configs = [task.config for task in supervisor.tasks.values() if isinstance(task.config, TaskConfig)]
        return _Known(
            frozenset(relays),
            (own, *sorted({relay.parent for relay in relays} - {own})),
            frozenset(supervisor.sources) - read,
            frozenset(task for task, _ in supervisor.registry.subtasks()) | frozenset(supervisor.tasks),
            frozenset(_dumps(supervisor, configs)),
            tuple(map(Place, configs)),
        )

    def _work(self, known: _Known) -> Iterator[dict[str, JSON]]:
        """The work and dump directories of tasks that are not there; a dump's ends with a dot and its task's name."""
        for path in _directories(self._supervisor.home.work.resolve()):
            tasks = _tasks_of(path.name)
            used = any(dump.is_relative_to(path) for dump in known.dumps)
            if not used and not tasks & known.tasks and not any(map(self._errands.busy, tasks)):
                sizes = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
                yield {
                    "name": f"work/{path.name}", "where": str(path), "files": len(sizes), "bytes": str(sum(sizes)),
                    "changed": _changed(path),
                }  # fmt: skip

    def _places(self, known: _Known, files: Sequence[ConfigFile]) -> list[Place]:
        """Of these files, else of the tasks that are known; each target and schema once."""
        places = [Place(self._read.task(file, None)[0]) for file in files] or known.places
        return list({place.name: place for place in places}.values())

    def _progress(self, place: Place, known: _Known) -> list[dict[str, JSON]]:
        tasks = {task.lower() for task in known.tasks}  # a server may fold the names of tables
        return [
            {
                "name": f"progress/{stored.task}", "where": place.name, "sources": [*stored.sources],
                "tables": len(stored.tables), "changed": stored.updated,
            }
            for stored in self._servers.stored.listed(place)
            if stored.task.lower() not in tasks
        ]  # fmt: skip


def _demand_gone(task: str, source: str, again: Collection[str]) -> None:
    """Raise DMError where the task has been started again."""
    if source in again:
        raise DMError("task-exists", task=task, sources=source)


def _tasks_of(directory: str) -> set[str]:
    """The tasks that a work or dump directory of this name may belong to."""
    words = directory.split(".")  # a task's name may have dots, too
    return {".".join(words[at:]) for at in range(len(words))}


def _dumps(supervisor: Supervisor, configs: Sequence[TaskConfig]) -> Iterator[Path]:
    sources = supervisor.source_configs()
    for config in configs:
        for source in supervisor.tasks[config.name].jobs.keys() & sources.keys():
            yield dump_directory(config.subtask(source, sources), supervisor.home.work / config.name).resolve()


def _relays(known: _Known) -> Iterator[dict[str, JSON]]:
    """The directories of relays that belong to no source."""
    for root in known.relay_roots:
        for path in _directories(root):
            ours = root == known.relay_roots[0] or (path / INDEX_NAME).is_file()
            if path not in known.relays and path.name not in known.unread and ours:
                files, size = relay_size(path)
                yield {
                    "name": f"relay/{path.name}", "where": str(path), "files": files, "bytes": str(size),
                    "changed": _changed(path),
                }  # fmt: skip


def _directories(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink()) if root.is_dir() else []


def _changed(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M:%S")


def remove_work(path: Path) -> str:
    """Remove what a task has written into its work or dump directory; gives what stays. Raises DMError."""
    try:
        for place in (path, *_directories(path)):
            if not place.name.startswith("."):
                remove_files(LocalStorage(place))
        for hidden in (each for each in _directories(path) if each.name.startswith(".")):
            shutil.rmtree(hidden)  # by what a task's processes call theirs, which a person's dump does not
        for place in (*_directories(path), path):
            if place.is_dir() and not os.listdir(place):
                place.rmdir()
        return ", ".join(sorted(os.listdir(path))) if path.exists() else ""
    except OSError as error:
        raise DMError("home-unusable", home=path, cause=f"{error.strerror or error}: {error.filename}") from error
