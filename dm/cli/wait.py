"""`dmctl wait`: return when a task is synced, or finished; for scripts that go on then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from dm.cli.follow import relay_rests, rests
from dm.cli.status_text import Answer

NEVER, TIMED_OUT = 1, 4  # exit statuses besides those of every verb

_SECONDS = 0.5


def wait_for(
    ask: Callable[[], Answer],
    *,
    finished: bool,
    timeout: float | None,
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> tuple[int, Answer]:
    """The exit status, and the last answer."""
    deadline = None if timeout is None else now() + timeout
    while True:
        answer = ask()
        if all(_is_there(subtask, finished=finished) for subtask in _subtasks(answer)):
            return 0, answer
        if why_never(answer, finished=finished):
            return NEVER, answer
        left = _SECONDS if deadline is None else min(_SECONDS, deadline - now())
        if left <= 0:
            return TIMED_OUT, answer
        pause(left)


def why_never(answer: Answer, *, finished: bool) -> list[str]:
    """For each subtask that will not come there by itself, why."""
    return [
        f"{subtask['name']} on {source['sourceStatus']['source']}: {why}"
        for source in answer["sources"]
        for subtask in source["subTaskStatus"]
        if (why := _why_never(source, subtask, finished=finished)) and not _is_there(subtask, finished=finished)
    ]


def _why_never(source: Answer, subtask: Answer, *, finished: bool) -> str:
    if rests(subtask):
        return "it rests; nothing goes on by itself"
    if relay_rests(source, subtask):
        return "the relay that it reads rests; nothing comes by itself"
    if subtask["stage"] == "Finished":
        return "it has finished, and follows its source no more"
    if finished and subtask["unit"] == "Sync" and not subtask.get("until"):
        return "it follows its source and ends never; `start-task --until` gives it an end"
    return ""


def _is_there(subtask: Answer, *, finished: bool) -> bool:
    if finished:
        return bool(subtask["stage"] == "Finished")
    return subtask["stage"] == "Running" and (subtask.get("sync") or {}).get("synced") is True


def _subtasks(answer: Answer) -> Iterator[Any]:
    for source in answer["sources"]:
        yield from source["subTaskStatus"]
