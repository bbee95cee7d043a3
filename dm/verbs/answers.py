"""The answers of the verbs, in DM's JSON: annotated attributes are keys; one with a default may be left out.

Every answer has `result` and `msg`. A verb that can't be done answers with `result: false`, the error's text as `msg`,
and its report as `error`.
"""

from __future__ import annotations

from typing import Any

from dm.verbs.declaration import Done, Shape

Record = dict[str, Any]  # an object of DM's, told in DM's documentation: a status, a result of a check, an error


class DaemonTold(Done):
    """The daemon, and the process ids of its unit hosts by name."""

    version: str
    pid: int
    processes: dict[str, int]


class DaemonEnds(Done):
    """A daemon that was asked to end."""

    pid: int


class Encrypted(Done):
    """A password as files may hold it."""

    cipherText: str


class TaskNamed(Done):
    """The name in a task file."""

    taskName: str


class Checked(Done):
    """Results of checks, and where a task would begin, by source."""

    results: list[Record]
    summary: dict[str, bool | int]
    warnings: list[str]
    startPositions: dict[str, str]


class Line(Shape):
    """What became of one source."""

    result: bool
    msg: str
    source: str


class SubtaskLine(Line):
    """What became of one subtask; after `stop-task` also where it and the target are."""

    stage: str
    detail: str = ""
    error: Record | None = None
    operators: list[Record] = []
    placeProblem: str = ""
    syncerBinlog: str = ""
    syncerBinlogGtid: str = ""
    appliedUpTo: str = ""
    target: str = ""
    targetBinlog: str = ""
    targetBinlogGtid: str = ""
    progressRemoved: bool = False


class Operated(Done):
    """A task's subtasks."""

    taskName: str
    sources: list[SubtaskLine]


class Started(Operated):
    """The same, with what was checked before, and where they begin."""

    checkResult: Record
    warnings: list[str]
    startPositions: dict[str, str]


class TaskLine(Shape):
    """One of all tasks."""

    taskName: str
    taskStatus: str
    sources: list[str]


class TasksListed(Done):
    """All tasks."""

    tasks: list[TaskLine]


class StatusTold(Done):
    """DM's sourceStatus and subTaskStatus of each source."""

    sources: list[Record]


class LogFiles(Done):
    """Files by the processes that write them."""

    files: list[dict[str, str]]


class Begun(Done):
    """The number of a run, by which one asks how far it is."""

    number: int
    task: str


class DiffBegun(Begun):
    """The same, with subtasks that have not applied all that their sources have."""

    behind: dict[str, str]


class RunTold(Done, more=True):
    """How far a run is; what else it tells is its unit's."""

    task: str = ""
    ended: bool = True


class Planned(Done):
    """What a file changes of a running task."""

    taskName: str
    newSources: list[str]
    keys: list[str]
    tables: dict[str, list[str]]
    filledTables: list[str]
    changes: bool


class UpdateCanceled(Done):
    """The sources whose added tables were taken back."""

    taskName: str
    sources: list[str]


class Reloaded(Done):
    """Tables that are loaded again, or go on as they were."""

    task: str
    tables: list[str]
    source: str = ""
    target: str = ""


class SourceLine(Line, more=True):
    """A source as it is known: server, relay, tasks."""


class SourcesTold(Done):
    """Sources, and warnings about their files."""

    sources: list[SourceLine]
    warnings: list[str] = []


class RelayRemoved(Line):
    """A source that is forgotten, and what became of its relay files."""

    relayDirectory: str
    removedFiles: int = 0
    removedBytes: str = "0"
    left: str = ""
    problem: str = ""
    keptFiles: int = 0
    keptBytes: str = "0"


class SourcesStopped(Done):
    """Sources that are forgotten."""

    sources: list[RelayRemoved]


class PurgedLine(Line):
    """Which relay files were removed, and why others stay."""

    removedFiles: list[str]
    removedBytes: str
    removedDirectories: list[str]
    keptBack: str


class Purged(Done):
    """The relay that was purged."""

    sources: list[PurgedLine]


class LeftLine(Shape):
    """Something that is left, in files or in tables."""

    name: str
    where: str
    changed: str
    files: int = 0
    bytes: str = "0"
    tables: int = 0
    sources: list[str] = []


class ForgottenListed(Done):
    """What is left, and which targets could not be asked."""

    forgotten: list[LeftLine]
    problems: list[str]


class ForgottenRemoved(Done):
    """What was removed, and what stays of each."""

    removed: list[dict[str, str]]


class LocksTold(Done):
    """DM's locks."""

    locks: list[Record]


class ConfigTold(Done):
    """All files without passwords, whose relays were started, and settings."""

    sources: list[dict[str, str]]
    tasks: list[dict[str, str]]
    relays: list[str]
    worker: dict[str, str]


class FileTold(Done):
    """A file without passwords."""

    cfg: str


class SettingsTold(Done):
    """The settings of dm-worker."""

    worker: dict[str, str]


class ValidationStarted(Done):
    """Warnings about where validators begin."""

    warnings: list[str]


class ValidationTold(Done):
    """Validators and tables, as DM has them."""

    validators: list[Record]
    tableStatuses: list[dict[str, str]]


class ErrorsTold(Done):
    """Rows that are wrong, as DM has them."""

    error: list[dict[str, str]]


class ErrorsChanged(Done):
    """How many."""

    changed: int
