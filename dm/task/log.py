"""Logs of the daemon and of the unit processes: one JSON object a line, on stderr, which the daemon sends to a file."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Final, TextIO, cast

import structlog

from dm.config.masking import SECRET_WORDS
from dm.errors import DMError
from dm.task.log_file import DEFAULTS, LogFile, LogSettings

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
            structlog.processors.format_exc_info,  # plain tracebacks: they show code, never values of variables
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


class _ToStructlog(logging.Handler):
    """Carries what libraries log into the same lines."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(library=record.name)
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info)
