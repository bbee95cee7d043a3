"""`dmctl wait`: return when a task is synced, or finished; for scripts that go on then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from dm.cli import output as printer
from dm.cli.follow import relay_rests, rests
from dm.cli.invocation import (
    AddrOption,
    OutputOption,
    SourceOption,
    TaskArgument,
    as_json,
    client_of,
    of_task,
    task_name,
)
from dm.cli.status_text import Answer, progress_lines, remarks_of
from dm.errors import DMError

NEVER, TIMED_OUT = 1, 4  # exit statuses besides those of every verb

_SECONDS = 0.5


def wait_task(
    task: TaskArgument,
    synced: Annotated[bool, typer.Option("--synced", help="until everything that the source has is applied")] = False,
    finished: Annotated[bool, typer.Option("--finished", help="until the task has ended by itself")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="give up after so many seconds, with exit status 4")
    ] = None,
    source: SourceOption = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Wait until a task is synced or finished. Exit status 0; 1 when it will not be, 4 when the time is over."""
    if synced == finished:
        hint = "dmctl wait <task> --synced, or dmctl wait <task> --finished"
        raise DMError("usage", problem="one of --synced and --finished says what is waited for", hint=hint)
    client = client_of(addr)
    address = f"{of_task(task_name(client, task))}/status"
    status, answer = wait_for(lambda: client.get(address, source=source or []), finished=finished, timeout=timeout)
    if as_json(output):
        printer.print_json(answer)
    else:
        for line in progress_lines(answer, tables=False):
            printer.print_line(line)
        for remark in [*remarks_of(answer), *(why_never(answer, finished=finished) if status == NEVER else [])]:
            printer.print_line(remark)
        if status == TIMED_OUT:
            printer.say(f"the time is over: not {'finished' if finished else 'synced'} within {timeout:g} s")
    if status:
        raise typer.Exit(status)


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
