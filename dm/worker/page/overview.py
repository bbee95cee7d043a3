"""What the page shows of everything: a sentence for each subtask, those in trouble first.

It asks no server and no unit: it shows what the units have said by themselves, at most five seconds ago. A unit that
has been silent for longer is shown as one that can't be asked (dm/worker/query_status.py has the rules).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dm.clock import Clock
from dm.tools.cutover.machine import HOLDS_TASK
from dm.unit import JSON
from dm.worker.history.history import History
from dm.worker.page.curve_drawing import catches_up_at, near_time
from dm.worker.query_status import as_heard, task_status
from dm.worker.status_text import load_lines, progress_cells
from dm.worker.supervisor import Supervisor

BEHIND_SECONDS: Final = 10.0  # a lag that is worth a look

# How a subtask fares, the worst first.
_RANKS: Final = ("error", "waiting", "paused", "behind", "loading", "fine", "over")


@dataclass(frozen=True, slots=True)
class SubtaskSummary:
    """What is said of one subtask."""

    task: str
    source: str
    stage: str
    unit: str
    state: str  # one of _RANKS
    sentence: str
    cause: str = ""
    advice: str = ""  # of the error
    command: str = ""  # the next command
    lag: str = ""
    rate: str = ""
    caught_up: str = ""
    code: int = 0


def task_answer(supervisor: Supervisor, task: str) -> dict[str, JSON]:
    """The answer of `query-status` from what the units have said; on the loop's thread. Raises DMError."""
    requests = {job.source: as_heard(job) for job in supervisor.jobs(task, ())}
    return task_status(supervisor, task, [], {source: one for source, one in requests.items() if one is not None})


class Sentences:
    """Says of a subtask what matters most."""

    def __init__(self, history: History, clock: Clock, cut_overs: Mapping[str, Mapping[str, JSON]]) -> None:
        self._history = history
        self._now = clock.time()
        self._cut_overs = cut_overs

    def lines(self, seen: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[SubtaskSummary]:
        """Of all subtasks, those in trouble first."""
        found = [self.line(source, subtask) for source, subtask in seen]
        return sorted(found, key=lambda line: (_RANKS.index(line.state), line.task, line.source))

    def line(self, source: Mapping[str, Any], subtask: Mapping[str, Any]) -> SubtaskSummary:
        """Of one subtask."""
        line = self._rests(source, subtask) or self._works(source, subtask)
        _, _, rate, lag, _ = progress_cells(subtask)
        return SubtaskSummary(
            task=subtask["name"], source=source["source"], stage=subtask["stage"], unit=subtask["unit"],
            lag="" if lag == "-" else lag, rate="" if rate == "-" else rate,
            caught_up=self._caught_up(source["source"], subtask), **line,
        )  # fmt: skip

    def _rests(self, source: Mapping[str, Any], subtask: Mapping[str, Any]) -> dict[str, Any] | None:
        """Where the subtask, or the relay that it reads, rests."""
        name, result = subtask["name"], subtask["result"] or {}
        resume = f"dmctl resume-task {name}"
        errors = result.get("errors") or []
        if subtask["stage"] == "Paused" and errors:
            waits = result.get("detail") and not result.get("isCanceled")
            told = _error(errors[0], resume)
            return {**told, "state": "waiting", "command": "", "advice": result["detail"]} if waits else told
        relay = source["relayStatus"]
        if subtask.get("relayRests"):
            again = f"dmctl resume-relay -s {source['source']}"
            wrong = (relay["result"] or {}).get("errors") or []
            rests = {"state": "error", "sentence": "The relay that it reads is paused.", "command": again}
            return _error(wrong[0], again) if wrong else rests
        if subtask["stage"] in ("Paused", "Pausing"):
            if (self._cut_overs.get(name) or {}).get("state") in HOLDS_TASK:
                status = f"dmctl cut-over {name} --status"
                return {"state": "paused", "sentence": "Rests for its cut-over.", "command": status}
            return {"state": "paused", "sentence": "Paused by a person.", "command": resume}
        if subtask["stage"] in ("Finished", "Stopped", "Stopping"):
            detail = result.get("detail")
            return {"state": "over", "sentence": f"{subtask['stage']}{f': {detail}' if detail else ''}."}
        return None

    def _works(self, source: Mapping[str, Any], subtask: Mapping[str, Any]) -> dict[str, Any]:
        part = subtask.get("sync") or subtask.get("dump") or subtask.get("load") or {}
        waits = (subtask["result"] or {}).get("detail") or part.get("waiting")
        sync = subtask.get("sync")
        if sync is not None and sync.get("unresolvedGroups"):
            show = f"dmctl shard-ddl-lock {subtask['name']}"
            return {"state": "waiting", "sentence": "Shards wait for others of their group.", "command": show}
        ddl = (sync or {}).get("blockingDDLs") or []
        if ddl:
            age = f" for {sync['blockingDDLSeconds']} s" if sync and sync.get("blockingDDLSeconds") is not None else ""
            return {"state": "behind", "sentence": f"Runs DDL at the target{age}: {ddl[0]}"}
        if waits:
            return {"state": "waiting", "sentence": f"Waits: {waits}"}
        if sync is not None:
            if sync.get("synced"):
                return {"state": "fine", "sentence": f"Follows {source['source']}; everything is applied."}
            lag = sync.get("lagSeconds")
            told = "how far behind is unknown" if lag is None else f"{lag:.0f} s behind"
            state = "behind" if lag is None or lag >= BEHIND_SECONDS else "fine"
            return {"state": state, "sentence": f"Follows {source['source']}; {told}."}
        copied = load_lines({"sources": [{"sourceStatus": source, "subTaskStatus": [subtask]}]})
        told = copied[0].partition(": ")[2] if copied else f"{subtask['stage']} {subtask['unit']}"
        return {"state": "loading", "sentence": f"{told}."}

    def _caught_up(self, source: str, subtask: Mapping[str, Any]) -> str:
        """When everything was applied last, and when it will be again."""
        sync = subtask.get("sync")
        if sync is None:
            return ""
        before = self._history.caught_up(subtask["name"], source)
        told = "" if before is None else f"caught up at {near_time(before, self._now)} UTC"
        lag = sync.get("lagSeconds")
        if subtask["stage"] == "Running" and lag and not sync.get("synced"):
            again = catches_up_at(self._history.curves.of(subtask["name"], source), float(lag), self._now)
            if again is not None:
                told = f"{told}{', ' if told else ''}at this rate again at {near_time(again, self._now)} UTC"
        return told


def _error(error: Mapping[str, Any], command: str) -> dict[str, Any]:
    return {
        "state": "error", "sentence": f"Paused by error {error['ErrCode']}: {error['Message']}",
        "cause": error["RawCause"], "advice": error["Workaround"], "command": command, "code": int(error["ErrCode"]),
    }  # fmt: skip
