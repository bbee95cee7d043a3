"""What the daemon and a unit host process say to each other: one JSON object a line.

Down (the host's stdin)                                 Up (the host's stdout)
{"command": "start", "run", "unit", "payload"}          {"event": "status", "run", "status"}   regularly, and at the end
{"command": "stop", "run"}                              {"event": "finished", "run"}           all work done
{"command": "refresh", "run", "request"}                  {"event": "refreshed", "run", "request"}
{"command": "ask", "run", "request", "question",        {"event": "answered", "run", "request", "answer", "report"}
             "arguments"}                               {"event": "stopped", "run"}            at rest, as asked
{"command": "prepare", "unit"}                          {"event": "prepared", "unit"}
{"command": "interval", "seconds"}
{"command": "log", "path", "level", "max_size", "max_backups"}
end of file: stop everything, then exit                 {"event": "failed", "run", "report", "retryable", "place"}

Passwords travel in `payload`, over the pipe only: never in argv, in the environment or in a log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, TypeVar

from dm.errors import ErrorReport
from dm.task.log import Level
from dm.unit import JSON, UnitName


@dataclass(frozen=True, slots=True)
class StartUnit:
    """Run a unit in a thread of its own."""

    run: int
    unit: UnitName
    payload: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class PrepareUnit:
    """Load what a unit needs, for a run that is yet to be started; with its payload, do what it can do before."""

    unit: UnitName
    payload: Mapping[str, JSON] | None = None


@dataclass(frozen=True, slots=True)
class StopUnit:
    """Bring a run to rest."""

    run: int


@dataclass(frozen=True, slots=True)
class RefreshUnit:
    """Report a run's status as of now, what it says of the source included; answered even if it can't."""

    run: int
    request: int


@dataclass(frozen=True, slots=True)
class AskUnit:
    """Have a run do something beside its work and say what came of it."""

    run: int
    request: int
    question: str
    arguments: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class StatusInterval:
    """Report every run's status this often."""

    seconds: float


@dataclass(frozen=True, slots=True)
class KeepLog:
    """Log from this level up, and rotate the file."""

    path: str
    level: Level
    max_size: int
    max_backups: int


@dataclass(frozen=True, slots=True)
class UnitPrepared:
    """What the unit needs is loaded."""

    unit: UnitName


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """What a unit says of itself."""

    run: int
    status: Mapping[str, JSON]
    last: bool = False  # what became of the run follows


@dataclass(frozen=True, slots=True)
class UnitRefreshed:
    """The status reported last is as of the request."""

    run: int
    request: int


@dataclass(frozen=True, slots=True)
class UnitAnswered:
    """What came of a question: an answer, or the report of an error."""

    run: int
    request: int
    answer: JSON
    report: ErrorReport | None = None


@dataclass(frozen=True, slots=True)
class UnitFinished:
    """The unit did all its work."""

    run: int


@dataclass(frozen=True, slots=True)
class UnitStopped:
    """The unit came to rest because it was asked to."""

    run: int


@dataclass(frozen=True, slots=True)
class UnitFailed:
    """The unit can't go on; `place` names the event of the binlog that it could not pass."""

    run: int
    report: ErrorReport
    retryable: bool
    place: Mapping[str, str | int | bool] | None = None


Command = StartUnit | PrepareUnit | StopUnit | RefreshUnit | AskUnit | StatusInterval | KeepLog
Event = UnitPrepared | UnitStatus | UnitRefreshed | UnitAnswered | UnitFinished | UnitStopped | UnitFailed
M = TypeVar("M")


_COMMANDS: Final[Mapping[str, type[Command]]] = {
    "start": StartUnit, "stop": StopUnit, "refresh": RefreshUnit, "ask": AskUnit, "interval": StatusInterval,
    "log": KeepLog, "prepare": PrepareUnit,
}  # fmt: skip
_EVENTS: Final[Mapping[str, type[Event]]] = {
    "status": UnitStatus, "refreshed": UnitRefreshed, "answered": UnitAnswered, "finished": UnitFinished,
    "stopped": UnitStopped, "failed": UnitFailed, "prepared": UnitPrepared,
}  # fmt: skip
_HEADS: Final = {
    made: {kind: name} for kind, known in (("command", _COMMANDS), ("event", _EVENTS)) for name, made in known.items()
}


def encode(message: Command | Event) -> bytes:
    """The message as one line."""
    record = {**_HEADS[type(message)], **{each.name: getattr(message, each.name) for each in fields(message)}}
    return json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def decode_command(line: bytes) -> Command:
    """The command in a line; ValueError when it is none."""
    return _decoded(line, "command", _COMMANDS)


def decode_event(line: bytes) -> Event:
    """The event in a line; ValueError when it is none."""
    return _decoded(line, "event", _EVENTS)


def _decoded(line: bytes, kind: str, known: Mapping[str, type[M]]) -> M:
    record = json.loads(line)
    try:
        return known[record.pop(kind)](**record)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"a line is no {kind}: {error!r}") from error
