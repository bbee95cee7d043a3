"""Verbs of what happened before: the timeline, and the curves of lag and rate."""

from __future__ import annotations

from typing import Annotated, Final

from dm.verbs.declaration import (
    EACH_ITS_SOURCES,
    EACH_OWNER,
    READS,
    TASK,
    AnswerShape,
    Sources,
    Verb,
    argument,
    option,
    shape,
)

_HAPPENING: Final = AnswerShape(
    "Happening", {"at": float, "kind": str, "text": str, "task": str, "source": str, "who": str, "code": int}
)
_POINT: Final = AnswerShape("CurvePoint", {"at": float}, {"lag": float | None, "rate": float | None})
_CURVE: Final = AnswerShape("Curve", {"source": str, "points": [_POINT]})
TIMELINE: Final = shape("TimelineTold", happenings=[_HAPPENING])
CURVES: Final = shape("CurvesTold", curves=[_CURVE])


class ShowTimeline(Verb, name="timeline", route="GET timeline", permission=READS, answer=TIMELINE, division=EACH_OWNER):
    """Show what happened in the last week. Starts, pauses, errors, kills, DDL, and who asked for what."""

    task: Annotated[str, argument("the task's name, or its file; everything when left out", TASK)] = ""
    source: Sources = ()
    lines: Annotated[int, option("--lines -n", "how many of the last ones", least=1)] = 100


class ShowCurves(Verb, route="GET tasks/{task}/curves", permission=READS, answer=CURVES, division=EACH_ITS_SOURCES):
    """Tell lag and rate of a task over the last day, a point for every two minutes."""

    task: str
    source: tuple[str, ...] = ()
