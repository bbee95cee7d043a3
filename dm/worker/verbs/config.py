"""The verbs of `dmctl config`: the files that the daemon keeps, as they were given, without passwords; its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn, cast, get_args

from dm.config.load import masked
from dm.config.scalar import byte_size
from dm.errors import DMError
from dm.task.log import DEFAULTS, Level, LogSettings, keep
from dm.text import is_decimal
from dm.unit import JSON
from dm.verbs import config as declared
from dm.verbs.declaration import ConfigFile
from dm.worker.history.history import DEFAULT_BYTES, LEAST_BYTES
from dm.worker.verb_work import Answer, VerbWork, does

LOWEST_SIZE = 1 << 16  # of a log file: a stack fits
_HISTORY: Final = "history-max-size"


class ConfigVerbs(VerbWork):
    """Show, export, and the settings of the daemon."""

    def take_up(self) -> None:
        """Log as a person has wished before."""
        self._use(self._supervisor.registry.settings())

    @does(declared.ShowTaskFile)
    def task(self, asked: declared.ShowTaskFile) -> Answer:
        """As it was given, without passwords."""
        registry = self._supervisor.registry
        if all(task != asked.task for task, _ in registry.subtasks()):
            raise DMError("task-unknown", task=asked.task)
        return _answer(registry.tasks()[asked.task])

    @does(declared.ShowSourceFile)
    def source(self, asked: declared.ShowSourceFile) -> Answer:
        """As it was given, without passwords."""
        return _answer(self._loop.call(lambda: self._supervisor.source(asked.source).file))

    @does(declared.ShowConfig)
    def everything(self, _asked: declared.ShowConfig) -> Answer:
        """All files, and whose relays a person has started."""

        registry = self._supervisor.registry
        known, running = registry.sources(), {task for task, _ in registry.subtasks()}
        sources = {name: record.file for name, record in sorted(known.items())}
        tasks = {name: file for name, file in sorted(registry.tasks().items()) if name in running}
        relays = sorted(name for name, record in known.items() if record.relay_asked)
        return {
            "sources": _listed(sources), "tasks": _listed(tasks), "relays": [*relays],
            "worker": self._worker(),
        }  # fmt: skip

    @does(declared.WorkerSettings)
    def worker(self, _asked: declared.WorkerSettings) -> Answer:
        """The settings of this daemon."""
        return {"worker": self._worker()}

    @does(declared.ChangeWorker)
    def change_worker(self, asked: declared.ChangeWorker) -> Answer:
        """The settings as they are then; raises DMError for a value that is none."""
        self.change(asked.changes())
        return self.worker(declared.WorkerSettings())

    def change(self, changes: Mapping[str, str]) -> None:
        """Change settings, for now and for the next starts; raises DMError for a value that is none."""
        registry = self._supervisor.registry
        settings = {**registry.settings(), **changes}
        _settings_of(settings), _history_bytes(settings)
        self._loop.call(lambda: registry.put_settings(changes))
        self._use(settings)

    def _worker(self) -> JSON:
        settings = self._supervisor.registry.settings()
        home: dict[str, JSON] = {"home": str(self._supervisor.home.directory), "log-file": str(self._log)}
        return {**home, **_named(_settings_of(settings)), _HISTORY: _size_text(_history_bytes(settings))}

    @property
    def _log(self) -> Path:
        return self._supervisor.home.daemon_log

    def _use(self, named: Mapping[str, str]) -> None:
        settings = _settings_of(named)
        keep(self._log, settings)
        self._loop.call(lambda: self._supervisor.hosts.keep_logs(settings))
        self._means.history.bound(_history_bytes(named))


def _settings_of(named: Mapping[str, str]) -> LogSettings:
    """The settings by their names as they are stored; raises DMError."""
    settings = DEFAULTS
    for name, text in named.items():
        if name == "log-level":
            if text not in get_args(Level):
                _refuse(name, text, f"one of {', '.join(get_args(Level))}")
            settings = replace(settings, level=cast(Level, text))
        elif name == "log-max-size":
            size = byte_size(text)
            if size is None or size < LOWEST_SIZE:
                _refuse(name, text, f"a size such as 100M, at least {LOWEST_SIZE >> 10}K")
            settings = replace(settings, max_size=size or 0)
        elif name == "log-max-backups":
            if not is_decimal(text) or len(text) > 4:
                _refuse(name, text, "how many full files are kept, 0 to 9999")
            settings = replace(settings, max_backups=int(text))
    return settings


def _history_bytes(named: Mapping[str, str]) -> int:
    """The bound of the timeline and the curves; raises DMError."""
    text = named.get(_HISTORY)
    size = DEFAULT_BYTES if text is None else byte_size(text)
    if size is None or size < LEAST_BYTES:
        _refuse(_HISTORY, text or "", f"a size such as 16M, at least {LEAST_BYTES >> 20}M")
    return size


def _refuse(name: str, text: str, wanted: str) -> NoReturn:
    raise DMError("usage", problem=f"--{name}: {text!r} is not possible", hint=f"give {wanted}")


def _named(settings: LogSettings) -> dict[str, JSON]:
    size = _size_text(settings.max_size)
    return {"log-level": settings.level, "log-max-size": size, "log-max-backups": str(settings.max_backups)}


def _size_text(size: int) -> str:
    return f"{size >> 20}M" if size % (1 << 20) == 0 else f"{size >> 10}K" if size % (1 << 10) == 0 else str(size)


def _answer(file: ConfigFile) -> Answer:
    return {"cfg": masked(file.text)}


def _listed(files: Mapping[str, ConfigFile]) -> list[JSON]:
    return [
        {"name": name, "file": file.name, "cfg": masked(file.text, Path(file.directory))}
        for name, file in files.items()
    ]
