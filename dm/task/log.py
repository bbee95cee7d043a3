"""Logs of the daemon and of the unit processes: one JSON object a line, on stderr, which the daemon sends to a file."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TextIO, cast

import structlog

from dm.config.load import SECRET_WORDS
from dm.errors import DMError
from dm.errors.without_values import told, traced, words_without_values

Level = Literal["debug", "info", "warn", "error"]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, and how much of it is kept."""

    level: Level = "info"
    max_size: int = 100 << 20  # bytes of a file before the next one is begun
    max_backups: int = 5  # full files beside the current one


DEFAULTS: Final = LogSettings()


class LogFile:
    """A stream for log lines that drops what it has no room for: nobody's work may end because of its log.

    A process writes its log to stderr, which its parent has redirected to a file; libraries below print there, too. So
    the process itself rotates: it renames the file and points its descriptors to a new one, and no line is lost. A
    child that has inherited the descriptors, such as Spark's JVM, continues in the renamed file. If stderr is not a
    file (a terminal, a service manager's pipe), nothing is rotated.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._path: Path | None = None
        self._settings = DEFAULTS

    def keep(self, path: Path, settings: LogSettings) -> None:
        """Rotate this file, where the stream writes to it."""
        self._path, self._settings = path, settings

    def write(self, text: str) -> None:
        """Write if there is room."""
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Bring out what there is room for, and begin a new file after a full one."""
        with suppress(OSError):
            self._stream.flush()
            if self._path is not None and self._full(self._path):
                self._rotate(self._path)

    def _full(self, path: Path) -> bool:
        ours = os.fstat(self._stream.fileno())
        return ours.st_size >= self._settings.max_size and os.path.samestat(ours, path.stat())

    def _rotate(self, path: Path) -> None:
        kept = self._settings.max_backups
        full = path.stat()
        ours = [number for number in (1, self._stream.fileno()) if _leads_to(number, full)]
        for number in range(kept, 1, -1):
            with suppress(FileNotFoundError):
                backup(path, number - 1).replace(backup(path, number))
        if kept:
            path.replace(backup(path, 1))
        else:
            path.unlink()
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for number in ours:
            os.dup2(descriptor, number)
        os.close(descriptor)


def _leads_to(descriptor: int, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file)
    except OSError:  # it is closed
        return False


def backup(path: Path, number: int) -> Path:
    """The name of a full file; 1 is the newest."""
    return path.with_name(f"{path.name}.{number}")


_NUMBERS: Final = {"debug": 10, "info": 20, "warn": 30, "warning": 30, "error": 40, "critical": 50}


class _Threshold:
    """The level below which nothing is logged.

    It is asked for each line, not built into the loggers: those that units hold are to obey a change as well.
    """

    level = DEFAULTS.level

    def __call__(self, _logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if _NUMBERS[event.get("level", method)] < _NUMBERS[self.level]:
            raise structlog.DropEvent
        return event


_threshold = _Threshold()
_file = LogFile(sys.stderr)


def configure(**context: str) -> None:
    """Log to stderr with these fields in each line; so do the standard library's loggers, from WARNING up."""
    global _file
    _file = LogFile(sys.stderr)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _threshold,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            mask_secrets,
            _without_stack_of_retries,
            structlog.processors.StackInfoRenderer(),
            _without_values,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _file)),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(**context)
    root = logging.getLogger()
    root.handlers = [_ToStructlog()]
    root.setLevel(logging.WARNING)
    threading.excepthook = _log_uncaught


def keep(path: Path, settings: LogSettings) -> None:
    """Log from this level up, and rotate the file as the settings say where stderr is that file."""
    _threshold.level = settings.level
    _file.keep(path, settings)


def _without_stack_of_retries(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """An error that heals by itself is told in a line; its stack frightens, and is kept for who debugs."""
    error = event.get("exc_info")
    if isinstance(error, DMError) and error.retryable and _threshold.level != "debug":
        del event["exc_info"]
    return event


def mask_secrets(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide the value of every field whose name says that it is a secret, at any depth."""
    for key, value in event.items():
        event[key] = _masked(key, value)
    return event


def _masked(key: object, value: Any) -> Any:
    if isinstance(key, str) and any(word in key.lower() for word in SECRET_WORDS):
        return "******"
    if isinstance(value, dict):
        return {inner: _masked(inner, item) for inner, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked("", item) for item in value]
    return value


def _without_values(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Errors are told without values of rows, and tracebacks show code, never values of variables."""
    shown = event.pop("exc_info", None)
    error = sys.exc_info()[1] if shown is True else shown[1] if isinstance(shown, tuple) else shown
    for key, value in event.items():
        if isinstance(value, BaseException):
            event[key] = told(value)
    if isinstance(error, BaseException):
        event["exception"] = traced(error)
    return event


def _log_uncaught(ended: threading.ExceptHookArgs) -> None:
    """What ends a thread is told in the log's form, and not as Python prints it."""
    thread = ended.thread.name if ended.thread is not None else ""
    structlog.get_logger().error("a thread ended", thread=thread, exc_info=ended.exc_value)


class _ToStructlog(logging.Handler):
    """Carries what libraries log into the same lines."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(library=record.name)
        log.log(record.levelno, words_without_values(record.getMessage()), exc_info=record.exc_info)
