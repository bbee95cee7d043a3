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
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

import structlog
from starlette.requests import Request
from starlette.types import Scope

from dm.clock import Clock, SystemClock
from dm.verbs.declaration import READS, Verb
from dm.worker.access import requester_of

LARGEST: Final = 16 << 20  # bytes of a file before the next one is begun
KEPT: Final = 9  # full files beside the current one
_NUMBER: Final = "dm.audit"  # in a request's scope: the number of its lines


class _AuditFile(RotatingFileHandler):
    """Lines of JSON; what can't be written is said in the daemon's log."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  the library's name
        """Say it."""
        structlog.get_logger().exception("a line of the audit log is missing", line=record.getMessage())


class AuditLog:
    """Writes the lines; from any thread."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._numbers = itertools.count(1)
        self._file = _AuditFile(path, maxBytes=LARGEST, backupCount=KEPT, encoding="utf-8", delay=True)

    def asked(self, request: Request, verb: type[Verb]) -> None:
        """Write who asks for what, unless it only reads."""
        if verb.permission is READS:
            return
        scope = request.scope
        scope[_NUMBER] = number = next(self._numbers)
        requester = requester_of(scope)
        client = scope.get("client")
        self._write(
            number,
            who=None if requester is None else requester.name,
            address=None if not client else str(client[0]),
            verb=verb.name or verb.__name__,
            request=f"{scope['method']} {scope['path']}",
        )

    def answered(self, scope: Scope, status: int, code: int | None) -> None:
        """Write what the answer was, where the question is written."""
        number = scope.get(_NUMBER)
        if isinstance(number, int):
            self._write(number, status=status, code=code)

    def _write(self, number: int, **fields: str | int | None) -> None:
        moment = datetime.fromtimestamp(self._clock.time(), UTC).isoformat(timespec="milliseconds")
        told = {name: value for name, value in fields.items() if value is not None}
        line = json.dumps({"timestamp": moment, "number": number, **told}, ensure_ascii=True)
        self._file.handle(logging.makeLogRecord({"msg": line, "level": logging.INFO}))
