"""`--follow`: what a task does, as it does it, until nobody needs to watch any more.

That is when each subtask is finished, has caught up with its source, or rests and will not go on by itself. Who asks
with `query-status --follow` watches a task that has caught up as well. Nothing
here holds the task: who ends the following with Ctrl-C ends just that.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from dm.cli.output import print_line
from dm.cli.status_text import Answer, errors_of, progress_lines, remarks_of, waits_of
from dm.visible import visible

_SECONDS = 0.5


def _subtasks(answer: Answer) -> Iterator[Any]:
    for source in answer["sources"]:
        yield from source["subTaskStatus"]


def rests(subtask: Answer) -> bool:
    """Whether the subtask stands still for good; auto-resume, which will try again, says so in the detail."""
    result = subtask["result"] or {}
    return subtask["stage"] == "Stopped" or (
        subtask["stage"] == "Paused" and (result.get("isCanceled", False) or not result.get("detail"))
    )


def _held_up(answer: Answer) -> list[str]:
    """What subtasks that do not rest wait for, and what went wrong with them: those that rest tell it in the end."""
    return [
        remark
        for source in answer["sources"]
        for subtask in source["subTaskStatus"]
        if not rests(subtask)
        for tell in (waits_of, errors_of)
        for remark in tell(source["sourceStatus"]["source"], subtask)
    ]


def ended(answer: Answer) -> bool:
    """Whether nothing is going on any more."""
    return all(subtask["stage"] == "Finished" or rests(subtask) for subtask in _subtasks(answer))


def settled(answer: Answer) -> bool:
    """Whether there is nothing left to wait for."""
    return all(
        subtask["stage"] == "Finished" or rests(subtask) or (subtask.get("sync") or {}).get("synced") is True
        for subtask in _subtasks(answer)
    )


def follow(
    ask: Callable[[], Answer],
    wait: Callable[[float], None] = time.sleep,
    *,
    over: Callable[[Answer], bool] = settled,
) -> bool:
    """Print progress until the task is settled, or `ended`; False when a subtask rests that should not.

    A terminal shows totals and tables in place; elsewhere each change of a total is a line. A wait, and what went
    wrong and is tried again, is told once.
    """
    try:
        if sys.stdout.isatty():
            from rich.console import Console
            from rich.live import Live
            from rich.text import Text

            with Live(console=Console(highlight=False), auto_refresh=False, transient=True) as live:

                def show(answer: Answer) -> None:
                    lines = [*progress_lines(answer), *_held_up(answer)]
                    live.update(Text(visible("\n".join(lines))), refresh=True)

                answer = _watch(ask, wait, show, over)
            print_line("\n".join(progress_lines(answer, tables=False)))
        else:
            answer = _watch(ask, wait, _line_printer(), over)
    except KeyboardInterrupt:
        print_line("the task goes on")
        return True
    for remark in remarks_of(answer):
        print_line(remark)
    return not any(rests(subtask) for subtask in _subtasks(answer))


def _watch(
    ask: Callable[[], Answer],
    wait: Callable[[float], None],
    show: Callable[[Answer], None],
    over: Callable[[Answer], bool],
) -> Answer:
    while True:
        answer = ask()
        show(answer)
        if over(answer):
            return answer
        wait(_SECONDS)


def _line_printer() -> Callable[[Answer], None]:
    said: dict[str, str] = {}
    told: set[str] = set()

    def show(answer: Answer) -> None:
        plain = progress_lines(answer, tables=False, times=False)
        for line, without_times in zip(progress_lines(answer, tables=False), plain, strict=True):
            subject = line.partition(":")[0]
            if said.get(subject) != without_times:
                said[subject] = without_times
                print_line(line)
        for error in _held_up(answer):
            if error not in told:
                told.add(error)
                print_line(error)

    return show
