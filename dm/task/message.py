"""What the daemon and a unit host process say to each other: one JSON object a line.

Down (the host's stdin)                                 Up (the host's stdout)
{"command": "start", "run", "unit", "payload"}          {"event": "status", "run", "status"}   regularly, and at the end
{"command": "stop", "run"}                              {"event": "finished", "run"}           all work done
{"command": "refresh", "run", "request"}                  {"event": "refreshed", "run", "request"}
{"command": "ask", "run", "request", "question",        {"event": "answered", "run", "request", "answer", "report"}
             "arguments"}                               {"event": "stopped", "run"}            at rest, as asked
{"command": "interval", "seconds"}
{"command": "log", "path", "level", "max_size", "max_backups"}
end of file: stop everything, then exit                 {"event": "failed", "run", "report", "retryable", "place"}

Passwords travel in `payload`, over the pipe only: never in argv, in the environment or in a log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

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


Command = StartUnit | StopUnit | RefreshUnit | AskUnit | StatusInterval | KeepLog
Event = UnitStatus | UnitRefreshed | UnitAnswered | UnitFinished | UnitStopped | UnitFailed


def encode(message: Command | Event) -> bytes:
    """The message as one line."""
    record: dict[str, object]
    match message:
        case StartUnit(run, unit, payload):
            record = {"command": "start", "run": run, "unit": unit, "payload": payload}
        case StopUnit(run):
            record = {"command": "stop", "run": run}
        case RefreshUnit(run, request):
            record = {"command": "refresh", "run": run, "request": request}
        case AskUnit(run, request, question, arguments):
            record = {"command": "ask", "run": run, "request": request, "question": question, "arguments": arguments}
        case StatusInterval(seconds):
            record = {"command": "interval", "seconds": seconds}
        case KeepLog(path, level, max_size, max_backups):
            record = {
                "command": "log", "path": path, "level": level, "max_size": max_size, "max_backups": max_backups,
            }  # fmt: skip
        case UnitStatus(run, status, last):
            record = {"event": "status", "run": run, "status": status, "last": last}
        case UnitRefreshed(run, request):
            record = {"event": "refreshed", "run": run, "request": request}
        case UnitAnswered(run, request, answer, report):
            record = {"event": "answered", "run": run, "request": request, "answer": answer, "report": report}
        case UnitFinished(run):
            record = {"event": "finished", "run": run}
        case UnitStopped(run):
            record = {"event": "stopped", "run": run}
        case UnitFailed(run, failure, retryable, place):
            record = {"event": "failed", "run": run, "report": failure, "retryable": retryable, "place": place}
    return json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def decode_command(line: bytes) -> Command:
    """The command in a line; ValueError when it is none."""
    record = json.loads(line)
    match record.get("command"):
        case "start":
            return StartUnit(record["run"], record["unit"], record["payload"])
        case "stop":
            return StopUnit(record["run"])
        case "refresh":
            return RefreshUnit(record["run"], record["request"])
        case "ask":
            return AskUnit(record["run"], record["request"], record["question"], record["arguments"])
        case "interval":
            return StatusInterval(record["seconds"])
        case "log":
            return KeepLog(record["path"], record["level"], record["max_size"], record["max_backups"])
    raise ValueError(f"not a command: {record.get('command')!r}")


def decode_event(line: bytes) -> Event:
    """The event in a line; ValueError when it is none."""
    record = json.loads(line)
    match record.get("event"):
        case "status":
            return UnitStatus(record["run"], record["status"], record.get("last", False))
        case "refreshed":
            return UnitRefreshed(record["run"], record["request"])
        case "answered":
            report = cast("ErrorReport | None", record["report"])
            return UnitAnswered(record["run"], record["request"], record["answer"], report)
        case "finished":
            return UnitFinished(record["run"])
        case "stopped":
            return UnitStopped(record["run"])
        case "failed":
            failure = cast(ErrorReport, record["report"])
            return UnitFailed(record["run"], failure, record["retryable"], record.get("place"))
    raise ValueError(f"not an event: {record.get('event')!r}")
