"""What each page shows, as values for its template."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from dm.clock import Clock
from dm.errors import DMError
from dm.tools.cutover.machine import OVER, UNDOABLE
from dm.unit import JSON
from dm.verbs.config import ShowSourceFile, ShowTaskFile, WorkerSettings
from dm.verbs.declaration import Verb
from dm.verbs.history import ShowCurves, ShowTimeline
from dm.verbs.sources import ShowSources
from dm.verbs.status import Logs
from dm.verbs.tokens import ListTokens
from dm.verbs.validation import ShowErrors
from dm.worker.history.curves import Point
from dm.worker.log_lines import LogReader
from dm.worker.operations import Operations
from dm.worker.page.curve_drawing import Drawing, drawing, values_of
from dm.worker.page.forms import RELAY_FORMS, TASK_FORMS, Form
from dm.worker.page.overview import Sentences, task_answer
from dm.worker.page.task_view import checks, columns, hours_left, pipeline, statements, tables
from dm.worker.query_status import heard
from dm.worker.status_text import remarks_of

MOST_HAPPENINGS: Final = 300
MOST_LOG_LINES: Final = 200
_GIB: Final = 1 << 30
_NO_CUT_OVER: Final = OVER | {"none"}

View = Mapping[str, Any]
Seen = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]


class Views:
    """Looks at the state of the daemon; from threads of the pool."""

    def __init__(self, operations: Operations, clock: Clock) -> None:
        self._operations = operations
        self._clock = clock

    def overview(self) -> View:
        """A sentence for each subtask."""
        others, stored = self._operations.elsewhere()
        lines = self._sentences().lines([*cast("Any", self._operations.look(heard)), *others])
        counts = {
            state: sum(line.state == state for line in lines) for state in ("error", "waiting", "paused", "behind")
        }
        return {"lines": lines, "counts": counts, "now": self._now(), "stored": stored}

    def task(self, name: str) -> View:
        """All that is known of a task; raises DMError."""
        others, stored = self._operations.elsewhere(name)
        shared = bool(others or stored)
        answer: dict[str, Any] = self._operations.look(
            lambda of: {"sources": []} if shared and name not in of.tasks else task_answer(of, name)
        )
        answer["sources"] += [{"sourceStatus": status, "subTaskStatus": [subtask]} for status, subtask in others]
        here = self._operations.worker
        cut_over = self._operations.cut_overs().get(name)
        if cut_over:
            answer["cutOver"] = dict(cut_over)
        sentences, parts = self._sentences(), []
        for source in answer["sources"]:
            status, subtask = source["sourceStatus"], source["subTaskStatus"][0]
            rows, more = tables(subtask)
            parts.append(
                {
                    "line": sentences.line(status, subtask), "tables": rows, "columns": columns(rows),
                    "pipeline": pipeline(status, subtask, self._clock.time()),
                    "more_tables": more, "checks": checks(status["source"], subtask),
                    "statements": statements([(status, subtask)]),
                    "curves": (self._curves if status["worker"] == here else self._told)(name, status["source"]),
                }
            )  # fmt: skip
        return {
            "task": name, "parts": parts, "remarks": remarks_of(answer), "forms": _offered(parts, answer),
            "happenings": self._happenings(name, 20), "now": self._now(), "stored": stored,
        }  # fmt: skip

    def errors(self, task: str) -> View:
        """Rows that a validator has found wrong; the target is asked. Raises DMError."""
        answer = self._operations.work[ShowErrors](ShowErrors(task=task))
        return {"task": task, "errors": answer["error"], "now": self._now()}

    def sources(self) -> View:
        """Sources, relays, and the disk of their files."""
        answer = self._operations.work[ShowSources](ShowSources())
        directories = self._operations.look(
            lambda supervisor: {name: supervisor.relay_directory(name) for name in supervisor.sources}
        )
        others, _ = self._operations.elsewhere()
        seen = [*cast("Any", self._operations.look(heard)), *others]
        relays = {status["source"]: status["relayStatus"] for status, _ in others}
        found = [
            {
                **each,
                "relayStatus": relays.get(each["source"], each["relayStatus"]),
                "disk": _disk(directories.get(each["source"])),
                "binlog": self._binlog(each, seen),
            }
            for each in cast("list[dict[str, Any]]", answer["sources"])
        ]
        return {"sources": found, "forms": RELAY_FORMS, "now": self._now()}

    def _binlog(self, source: Mapping[str, Any], seen: Seen) -> list[tuple[str, str]]:
        """The tasks that read from a source directly, and how long it will have what each reads next."""
        if source.get("relayStatus") is not None:
            return []
        now = self._clock.time()
        of = [subtask for status, subtask in seen if status["source"] == source["source"]]
        left = [(subtask["name"], hours_left(subtask.get("sync") or {}, now)) for subtask in of]
        return [(task, hours) for task, hours in left if hours is not None]

    def ddl(self) -> View:
        """Statements of all tasks."""
        others, _ = self._operations.elsewhere()
        seen = [*cast("Any", self._operations.look(heard)), *others]
        return {"statements": statements(seen), "now": self._now()}

    def timeline(self, task: str) -> View:
        """What happened in the last week."""
        return {"task": task, "happenings": self._happenings(task, MOST_HAPPENINGS), "now": self._now()}

    def logs(self, asked: Mapping[str, str]) -> View:
        """The last lines of a task's or a relay's processes, or of the daemon; raises DMError."""
        task, source = asked.get("task", ""), asked.get("source", "")
        answer = self._operations.work[Logs](Logs(task=task, source=(source,) if source else ()))
        lines = []
        for one in cast("list[dict[str, str]]", answer["files"]):
            reader = LogReader(one["process"], Path(one["path"]))
            try:
                lines += reader.last(MOST_LOG_LINES)
            finally:
                reader.close()
        lines.sort(key=lambda line: line.time)
        return {"task": task, "source": source, "lines": lines[-MOST_LOG_LINES:], "now": self._now()}

    def settings(self) -> View:
        """Settings, tokens, and the names of files."""
        worker = self._operations.work[WorkerSettings](WorkerSettings())
        tokens = self._operations.work[ListTokens](ListTokens())
        names = self._operations.look(lambda of: {"source": sorted(of.sources), "task": sorted(of.tasks)})
        return {"worker": worker["worker"], "tokens": tokens["tokens"], "files": names, "now": self._now()}

    def file(self, kind: str, name: str) -> View:
        """The file of a source or a task, with passwords masked; raises DMError."""
        asked: Verb = ShowTaskFile(task=name) if kind == "task" else ShowSourceFile(source=name)
        answer = self._operations.work[type(asked)](asked)
        return {"kind": kind, "name": name, "text": answer["cfg"], "now": self._now()}

    def _sentences(self) -> Sentences:
        return Sentences(self._operations.history, self._clock, self._operations.cut_overs())

    def _happenings(self, task: str, most: int) -> list[dict[str, JSON]]:
        answer = self._operations.work[ShowTimeline](ShowTimeline(task=task, lines=most))
        found = cast("list[dict[str, Any]]", answer["happenings"])
        return [{**one, "when": _moment(one["at"])} for one in reversed(found)]

    def _told(self, task: str, source: str) -> list[Drawing]:
        """The curves of another member's subtask; none where it says nothing."""
        asked = ShowCurves(task=task, source=(source,))
        try:
            curves = cast("list[dict[str, Any]]", self._operations.routed[ShowCurves](asked)["curves"])
        except DMError:
            return []
        return self._drawn([Point(one["at"], one["lag"], one["rate"]) for each in curves for one in each["points"]])

    def _curves(self, task: str, source: str) -> list[Drawing]:
        return self._drawn(self._operations.history.curves.of(task, source))

    def _drawn(self, points: Sequence[Point]) -> list[Drawing]:
        now = self._clock.time()
        wanted = (("Lag", "s", _lag), ("Rate", "rows/s", _rate))
        return [drawing(name, unit, values_of(points, of), now) for name, unit, of in wanted]

    def _now(self) -> str:
        return _moment(self._clock.time())


def _lag(point: Point) -> float | None:
    return point.lag


def _rate(point: Point) -> float | None:
    return point.rate


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def _disk(directory: Path | None) -> str:
    if directory is None:
        return ""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return ""
    return f"{usage.free / _GIB:.1f} of {usage.total / _GIB:.1f} GiB free ({usage.free / usage.total:.0%})"


def _offered(parts: list[dict[str, Any]], answer: Mapping[str, Any]) -> Mapping[str, Form]:
    """The verbs that do something for a task as it is."""
    stages = {part["line"].stage for part in parts}
    codes = {part["line"].code for part in parts}
    follows = any(part["line"].unit == "Sync" for part in parts)
    cut_over = (answer.get("cutOver") or {}).get("state", "none")
    wanted = {
        "pause": "Running" in stages or bool(codes - {0}),
        "resume": "Paused" in stages,
        "skip": "Paused" in stages and bool(codes - {0}),
        "compare": bool(stages),
        "pace": bool(stages),
        "validate": follows,
        "stop-validator": any(check.name.startswith("Validator") for part in parts for check in part["checks"]),
        "reload": follows,
        "cancel-reload": any(source["subTaskStatus"][0].get("joining") for source in answer["sources"]),
        "check-cut-over": follows and cut_over in _NO_CUT_OVER,
        "cut-over": follows and cut_over in {*_NO_CUT_OVER, "switching"},  # one whose hook has failed goes on
        "abort-cut-over": cut_over in {*UNDOABLE, "aborting"},
        "return": cut_over == "switched",
        "complete-cut-over": cut_over == "switched",
        "stop": True,
    }
    return {name: form for name, form in TASK_FORMS.items() if wanted.get(name)}
