"""The answers of the verbs, in DM's JSON.

Every answer has `result` and `msg`. A verb that can't be done answers with `result: false`, the error's text as `msg`,
and its report as `error`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

Record = dict[str, Any]  # an object that DM's documentation tells: a status, a result of a check, an error


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """An object of an answer: its keys with their types; `may` are left out at times, `more` are its unit's."""

    name: str
    keys: dict[str, Any]
    may: dict[str, Any] = field(default_factory=dict)
    more: bool = False


def _answer(name: str, *, may: dict[str, Any] | None = None, more: bool = False, **keys: Any) -> AnswerShape:
    return AnswerShape(name, {"result": bool, "msg": str, **keys}, may or {}, more)


def _line(name: str, *, may: dict[str, Any] | None = None, more: bool = False, **keys: Any) -> AnswerShape:
    """What became of one source."""
    return _answer(name, may=may, more=more, source=str, **keys)


_SUBTASK: Final = _line(
    "SubtaskLine",
    stage=str,
    may={
        "detail": str, "error": Record, "operators": list[Record],
        # after `stop-task`: where it stopped, and where the target's binlog ends
        "placeProblem": str, "syncerBinlog": str, "syncerBinlogGtid": str, "appliedUpTo": str, "target": str,
        "targetBinlog": str, "targetBinlogGtid": str, "progressRemoved": bool,
    },
)  # fmt: skip
_RELAY_OF_STOPPED: Final = {
    "removedFiles": int, "removedBytes": str, "left": str, "problem": str, "keptFiles": int, "keptBytes": str
}  # fmt: skip
_TASK: Final = AnswerShape("TaskLine", {"taskName": str, "taskStatus": str, "sources": list[str]})
_PURGED: Final = _line(
    "PurgedLine", removedFiles=list[str], removedBytes=str, removedDirectories=list[str], keptBack=str
)
_LEFT: Final = AnswerShape(
    "LeftLine",
    {"name": str, "where": str, "changed": str},
    may={"files": int, "bytes": str, "tables": int, "sources": list[str]},
)

DONE: Final = _answer("Done")
DAEMON: Final = _answer("DaemonTold", version=str, pid=int, processes=dict[str, int])
ENDING: Final = _answer("DaemonEnds", pid=int)
ENCRYPTED: Final = _answer("Encrypted", cipherText=str)
TASK_NAME: Final = _answer("TaskNamed", taskName=str)
CHECKED: Final = _answer(
    "Checked", results=list[Record], summary=dict[str, bool | int], warnings=list[str], startPositions=dict[str, str]
)
OPERATED: Final = _answer("Operated", taskName=str, sources=[_SUBTASK])
STARTED: Final = _answer(
    "Started", taskName=str, sources=[_SUBTASK], checkResult=Record, warnings=list[str], startPositions=dict[str, str]
)
TASKS: Final = _answer("TasksListed", tasks=[_TASK])
# The sources have DM's sourceStatus and subTaskStatus.
STATUS: Final = _answer("StatusTold", sources=list[Record], may={"cutOver": Record})
LOG_FILES: Final = _answer("LogFiles", files=list[dict[str, str]])
BEGUN: Final = _answer("RunBegun", number=int, task=str)
DIFF_BEGUN: Final = _answer("DiffBegun", number=int, task=str, behind=dict[str, str])
CUT_OVER_CHECKED: Final = _answer(
    "CutOverChecked", task=str, ready=bool, findings=list[Record], files=list[dict[str, str]]
)
CUT_OVER: Final = _answer("CutOverTold", task=str, state=str, driven=bool, problem=str, cutOver=Record, left=list[str])
RUN: Final = _answer("RunTold", may={"task": str, "ended": bool}, more=True)
PLANNED: Final = _answer(
    "Planned",
    taskName=str,
    newSources=list[str],
    keys=list[str],
    tables=dict[str, list[str]],
    filledTables=list[str],
    changes=bool,
)
UPDATE_CANCELED: Final = _answer("UpdateCanceled", taskName=str, sources=list[str])
RELOADED: Final = _answer("Reloaded", task=str, tables=list[str], may={"source": str, "target": str})
SOURCES: Final = _answer("SourcesTold", sources=[_line("SourceLine", more=True)], may={"warnings": list[str]})
STOPPED: Final = _answer("SourcesStopped", sources=[_line("StoppedLine", relayDirectory=str, may=_RELAY_OF_STOPPED)])
PURGED: Final = _answer("Purged", sources=[_PURGED])
FORGOTTEN: Final = _answer("ForgottenListed", forgotten=[_LEFT], problems=list[str])
FORGOTTEN_REMOVED: Final = _answer("ForgottenRemoved", removed=list[dict[str, str]])
OBJECTS: Final = _answer(
    "ObjectsTold", taskName=str, objects=list[Record], remarks=list[str], files=list[str], tried=int
)
TOKEN: Final = _answer("TokenCreated", bearer=str, token=str)
TOKENS: Final = _answer("TokensListed", tokens=list[dict[str, str]])
LOCKS: Final = _answer("LocksTold", locks=list[Record])
CONFIG: Final = _answer(
    "ConfigTold",
    sources=list[dict[str, str]],
    tasks=list[dict[str, str]],
    relays=list[str],
    worker=dict[str, str],
)
FILE: Final = _answer("FileTold", cfg=str)
SETTINGS: Final = _answer("SettingsTold", worker=dict[str, str])
WARNED: Final = _answer("ValidationStarted", warnings=list[str])
VALIDATION: Final = _answer("ValidationTold", validators=list[Record], tableStatuses=list[dict[str, str]])
ERRORS: Final = _answer("ErrorsTold", error=list[dict[str, str]])
ERRORS_CHANGED: Final = _answer("ErrorsChanged", changed=int)
