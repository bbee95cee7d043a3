"""Logs of the daemon and of the unit processes: one JSON object a line, on stderr, which the daemon sends to a file."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

_SECRET_WORDS = ("password", "passwd", "secret", "token")


def configure(**context: str) -> None:
    """Log to stderr with these fields in each line; so do the standard library's loggers, from WARNING up."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            mask_secrets,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,  # plain tracebacks: they show code, never values of variables
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _Patient(sys.stderr))),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(**context)
    root = logging.getLogger()
    root.handlers = [_ToStructlog()]
    root.setLevel(logging.WARNING)


def mask_secrets(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide the value of every field whose name says that it is a secret, at any depth."""
    for key, value in event.items():
        event[key] = _masked(key, value)
    return event


def _masked(key: object, value: Any) -> Any:
    if isinstance(key, str) and any(word in key.lower() for word in _SECRET_WORDS):
        return "******"
    if isinstance(value, dict):
        return {inner: _masked(inner, item) for inner, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked("", item) for item in value]
    return value


class _Patient:
    """A file that drops what it has no room for: nobody's work may end because its log can't be written."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write if there is room."""
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        """Bring out what there is room for."""
        with suppress(OSError):
            self._file.flush()


class _ToStructlog(logging.Handler):
    """Carries what libraries log into the same lines."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(library=record.name)
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info)
