"""What one kind of error is: the fields DM prints, and whether trying again can help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

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
    "openapi",
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
    of_tables: bool = False  # it concerns certain tables: with `on-error: table` these leave the stream for it
    values: tuple[str, ...] = ()  # the details that are values of rows: dm/errors/without_values.py


# Workarounds that several errors share.

# The progress is removed, so the target must already have everything before the new position.
START_LATER: Final = (
    "`dmctl stop-task`, bring the target up to date by hand, and `dmctl start-task --remove-meta` with a `meta` after"
    " this event"
)

LOAD_AGAIN: Final = (
    "load again (`dmctl stop-task`, empty the target's tables, `dmctl start-task --remove-meta` with `task-mode: all`)"
)

# For statements only: rows are never skipped or replaced.
OTHERWISE: Final = "`dmctl binlog skip` skips the statement, `dmctl binlog replace` executes others instead"

# Rules are read when a task starts; the progress is kept.
WITH_NEW_FILE: Final = "`dmctl stop-task` and `dmctl start-task` with the changed file continue from here"
