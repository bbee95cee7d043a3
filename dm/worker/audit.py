"""The audit log: who changed what, when, and what the answer was.

Every request that operates or changes something has two lines in `$DM_HOME/log/audit.log`: when it is asked, and when
it is answered. So a change whose daemon was killed meanwhile has the first line. A request that only reads has none,
whatever the answer; the file says what was changed and not what was looked at. Bodies are not in it: a task file may
hold a password.

A line that can't be written (a full disk) stops no verb. A person on call must be able to pause a task then. The
daemon's log says that the line is missing.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

import structlog
from starlette.requests import Request
from starlette.types import Scope

from dm.clock import Clock, SystemClock
from dm.verbs.declaration import READS, Permission
from dm.worker.access import requester_of

LARGEST: Final = 16 << 20  # bytes of a file before the next one is begun
KEPT: Final = 9  # full files beside the current one
_QUESTION: Final = "dm.audit"  # in a request's scope: what was asked
# Parts of an address, of our API and of DM's OpenAPI.
_NAMED: Final = {"task": "task", "source": "source", "task_name": "task", "source_name": "source"}

Told = Callable[[str, str, int, int | None, Mapping[str, str]], None]
"""Takes who, verb, status, code of the error, and the task or source that the request names."""


@dataclass(frozen=True, slots=True)
class _Question:
    number: int  # of both lines
    who: str
    verb: str
    named: Mapping[str, str]


class _AuditFile(RotatingFileHandler):
    """Lines of JSON; what can't be written is said in the daemon's log."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  the library's name
        """Say it."""
        structlog.get_logger().exception("a line of the audit log is missing", line=record.getMessage())


class AuditLog:
    """Writes the lines; from any thread."""

    def __init__(self, path: Path, clock: Clock | None = None, told: Told = lambda *_: None) -> None:
        self._clock = clock or SystemClock()
        self._told = told
        self._numbers = itertools.count(1)
        self._file = _AuditFile(path, maxBytes=LARGEST, backupCount=KEPT, encoding="utf-8", delay=True)

    def asked(self, request: Request, verb: str, permission: Permission) -> None:
        """Write who asks for what, unless it only reads."""
        if permission is READS:
            return
        scope = request.scope
        requester = requester_of(scope)
        who = None if requester is None else requester.name
        named = {_NAMED[name]: str(value) for name, value in request.path_params.items() if name in _NAMED}
        question = _Question(next(self._numbers), who or "nobody", verb, named)
        scope[_QUESTION] = question
        client = scope.get("client")
        self._write(
            question.number,
            who=who,
            address=None if not client else str(client[0]),
            verb=question.verb,
            request=f"{scope['method']} {scope['path']}",
        )

    def answered(self, scope: Scope, status: int, code: int | None) -> None:
        """Write what the answer was, where the question is written."""
        question = scope.get(_QUESTION)
        if isinstance(question, _Question):
            self._write(question.number, status=status, code=code)
            self._told(question.who, question.verb, status, code, question.named)

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def _write(self, number: int, **fields: str | int | None) -> None:
        moment = datetime.fromtimestamp(self._clock.time(), UTC).isoformat(timespec="milliseconds")
        told = {name: value for name, value in fields.items() if value is not None}
        line = json.dumps({"timestamp": moment, "number": number, **told}, ensure_ascii=True)
        self._file.handle(logging.makeLogRecord({"msg": line, "level": logging.INFO}))
