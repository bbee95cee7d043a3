"""One answer of what several members have answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from dm.errors import DMError
from dm.unit import JSON
from dm.worker.registry import SubtaskRecord

Answer = dict[str, JSON]
Line = dict[str, JSON]


@dataclass(frozen=True, slots=True)
class Part:
    """What one member says of its sources: an answer, or an error. No member has an empty name."""

    member: str
    sources: Sequence[str]
    answer: Answer = field(default_factory=dict)
    error: DMError | None = None

    def given(self) -> Answer:
        """The answer; raises the error."""
        if self.error is not None:
            raise self.error
        return self.answer

    def lines(self) -> list[Line]:
        """A line per source."""
        return cast("list[Line]", self.answer.get("sources", []))


def joined(answers: Sequence[Answer]) -> Answer:
    """Lists one after the other without what is there already, counts added, the larger share, or what comes first."""
    result: Answer = {}
    for answer in answers:
        for key, value in answer.items():
            result[key] = _both(result[key], value) if key in result else value
    return result


def _both(first: JSON, second: JSON) -> JSON:
    if isinstance(first, bool) and isinstance(second, bool):
        return first and second
    if isinstance(first, int) and isinstance(second, int):
        return first + second
    if isinstance(first, float) and isinstance(second, float):
        return max(first, second)
    if isinstance(first, list) and isinstance(second, list):
        return [*first, *(each for each in second if each not in first)]
    if isinstance(first, dict) and isinstance(second, dict):
        return joined([first, second])
    return first or second


def of_sources(parts: Sequence[Part], order: Sequence[str], unreached: Callable[[Part, str], Line]) -> Answer:
    """Lines per source, of members that could not do their part, too; raises DMError where none could."""
    failed = [part for part in parts if part.error is not None]
    done = [part for part in parts if part.error is None]
    if not done and (unreached is unreached_source or not all(_of_the_way(part.error) for part in failed)):
        failed[0].given()
    answer = joined([{key: value for key, value in part.answer.items() if key != "sources"} for part in done])
    answer = {"result": True, "msg": "", **answer}
    if not any("sources" in part.answer for part in done) and done:
        for part in failed:
            part.given()
        return answer
    lines: list[Line] = [line for part in done for line in part.lines()]
    lines += [unreached(part, source) for part in failed for source in part.sources]
    place = {name: number for number, name in enumerate(order)}
    lines.sort(key=lambda line: place.get(_source_of(line), len(place)))
    return {**answer, "sources": [*lines]}


def _of_the_way(error: DMError | None) -> bool:
    """Whether nothing but the way to a member, or its end, is at fault."""
    return error is not None and error.name in ("member-unreachable", "source-without-owner")


def _source_of(line: Line) -> str:
    status = line.get("sourceStatus")
    return str(status["source"] if isinstance(status, dict) else line.get("source"))


def unreached_source(part: Part, source: str) -> Line:
    """The line of a source whose member has not done its part."""
    assert part.error is not None
    error = cast("JSON", part.error.report())
    return {"result": False, "msg": part.error.message, "source": source, "stage": "", "error": error}


def unreached_status(part: Part, source: str, task: str, seen: SubtaskRecord | None, heard: str = "") -> Line:
    """What `query-status` says of a source whose member does not answer: what was stored last, and why."""
    assert part.error is not None
    report = cast("JSON", part.error.report())
    subtask: Line = {
        "name": task,
        "stage": "New" if seen is None else seen.stage,
        "unit": "InvalidUnit" if seen is None else seen.unit or "InvalidUnit",
        "result": {"isCanceled": False, "errors": [report], "detail": f"as it was stored last{heard and f'; {heard}'}"},
        "unresolvedDDLLockID": "",
        "relayRests": False,
        "sourceAnswers": None,
        "targetAnswers": None,
    }
    status: Line = {"source": source, "worker": part.member, "result": None, "relayStatus": None}
    return {"result": False, "msg": part.error.message, "sourceStatus": status, "subTaskStatus": [subtask]}


def of_tasks(parts: Sequence[Part], stored: Mapping[str, Sequence[str]]) -> Answer:
    """`query-status` of all tasks: each once, with all its sources."""
    said: dict[str, dict[str, str]] = {}  # by task and member
    told = dict[str, set[str]]()
    for part in parts:
        for line in cast("list[Line]", part.answer.get("tasks", [])):
            name = str(line["taskName"])
            said.setdefault(name, {})[part.member] = str(line["taskStatus"])
            told.setdefault(name, set()).update(cast("list[str]", line["sources"]))
    silent = "; ".join(f"{part.member}: {part.error.message}" for part in parts if part.error is not None)
    lines: list[JSON] = []
    for name in sorted({*stored, *said}):
        sources = list(dict.fromkeys([*stored.get(name, ()), *sorted(told.get(name, ()))]))
        missing = [source for source in sources if source not in told.get(name, ())]
        status = _status_of(list(said.get(name, {}).values()))
        if missing:
            why = silent or "no member runs them"
            status = f"Error - Sources {', '.join(missing)} are not told of: {why}"
        lines.append({"taskName": name, "taskStatus": status, "sources": [*sources]})
    return {"result": True, "msg": "", "tasks": lines}


def _status_of(said: Sequence[str]) -> str:
    """What is worst of a task's words, as for one host."""
    errors = [each for each in said if each.startswith("Error")]
    if errors:
        return errors[0]
    if "Paused" in said:
        return "Paused"
    return said[0] if len(set(said)) == 1 else "Running"
