"""`pace`: how fast a task may be, while it runs.

The limits are in a file that all processes of the task share (`dm.pace.shared`), so nothing is sent to any of them.
What a person sets holds until it is set otherwise: also for runs after an error, after `resume-task` and after a
restart of the daemon. `start-task` of a task that was stopped begins with what its file says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from dm.clock import SystemClock
from dm.config.document import parse
from dm.config.pace import PaceConfig
from dm.config.problem import ProblemReport
from dm.config.section import LoadContext, read_section
from dm.errors import DMError
from dm.task.pace import change_pace, pace_state
from dm.verbs.pace import Pace
from dm.worker.verb_work import Answer, VerbWork, does

_LISTS: Final = ("hours", "replicas")
_TEXTS: Final = ("query",)


class PaceVerbs(VerbWork):
    """Reads and writes the shared file."""

    @does(Pace)
    def pace(self, asked: Pace) -> Answer:
        """Change what is asked, then say how it is."""
        asked.demand_consistent()

        def written() -> PaceConfig:
            config = self._supervisor.task(asked.task).config
            if isinstance(config, DMError):
                raise config
            return config.pace

        file, clock = self._loop.call(written), SystemClock()
        work = self._supervisor.home.work / asked.task
        if asked.limits:
            now = pace_state(work, file, clock).config
            change_pace(work, changed(now, asked.limits), clock, run_time=True)
        elif asked.none or asked.from_file:
            change_pace(work, PaceConfig() if asked.none else file, clock, run_time=asked.none)
        state = pace_state(work, file, clock)
        limits = state.config.model_dump(by_alias=True, exclude_defaults=True)
        return {
            "task": asked.task,
            "limits": {key: _shown(value) for key, value in limits.items()},
            "fromFile": not state.run_time,
            "holds": state.holding,
            "heldShare": round(state.held_share, 3),
        }


def changed(now: PaceConfig, words: Sequence[str]) -> PaceConfig:
    """The limits with those that `KEY=VALUE` names set otherwise; raises DMError with all that is wrong."""
    lines = {key: json.dumps(value) for key, value in _written(now).items()}
    for word in words:
        key, equals, value = (part.strip() for part in word.partition("="))
        if not equals or key not in PaceConfig.file_keys():
            hint = f"as KEY=VALUE, with a key of {', '.join(PaceConfig.file_keys())}"
            raise DMError("usage", problem=f"--limit {word}: no such limit", hint=hint)
        lines.pop(key, None)
        if value:
            lines[key] = _line(key, value)
    report = ProblemReport("--limit")
    if not lines:
        return PaceConfig()
    tree = parse("".join(f"{key}: {value}\n" for key, value in lines.items()), report)
    found = None if tree is None else read_section(PaceConfig, tree, LoadContext(report))
    report.raise_if_any()
    assert found is not None
    return found


def _written(limits: PaceConfig) -> dict[str, object]:
    """As a file would say it: durations in Go's notation."""
    said = limits.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if "replica-lag" in said:
        return {**said, "replica-lag": f"{said['replica-lag']:g}s"}
    return said


def _line(key: str, value: str) -> str:
    if key in _LISTS:
        return json.dumps([each.strip() for each in value.split(",")])
    if key in _TEXTS or not value.isascii() or not value.replace(".", "").replace("-", "").replace("+", "").isalnum():
        return json.dumps(value)
    return value


def _shown(value: object) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
