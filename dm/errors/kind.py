"""What one kind of error is: the fields DM prints, and whether trying again can help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scope = Literal["not-set", "upstream", "downstream", "internal"]
Level = Literal["low", "medium", "high"]
ErrorClass = Literal[
    "database",
    "functional",
    "config",
    "binlog-op",
    "checkpoint",
    "task-check",
    "relay-event-lib",
    "relay-unit",
    "dump-unit",
    "load-unit",
    "sync-unit",
    "validator",
    "dm-master",
    "dm-worker",
    "schema-tracker",
    "scheduler",
    "dmctl",
]


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One entry of the catalogue; message and workaround are `str.format` templates over the error's details."""

    name: str  # stable, lower-case words joined by dashes; how the code raises it
    code: int  # DM's code where DM has one, else a free number of DM's class range from 900 up (36900, 30900, ...)
    error_class: ErrorClass
    scope: Scope
    level: Level
    message: str
    workaround: str
    retryable: bool = False  # whether auto-resume may try again without a person
