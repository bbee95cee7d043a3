"""`--follow`: what a task does, as it does it, until nobody needs to watch any more.

That is when each subtask is finished, has caught up with its source, or will not go on by itself: it rests, or the
relay that it reads does. `query-status --follow` goes on after a task has caught up. Ctrl-C ends the display; the task
goes on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from dm.cli.output import print_line
from dm.text import visible
from dm.worker.status_text import Answer, errors_of, progress_lines, relay_errors, remarks_of, waits_of

_SECONDS = 0.5


def subtasks(answer: Answer) -> Iterator[Any]:
    """The status of each subtask."""
    for source in answer["sources"]:
        yield from source["subTaskStatus"]


def synced(subtask: Answer) -> bool:
    """Whether the subtask has caught up with its source."""
    return (subtask.get("sync") or {}).get("synced") is True


def rests(subtask: Answer) -> bool:
    """Whether the subtask stands still for good; auto-resume, which will try again, says so in the detail."""
    result = subtask["result"] or {}
    return subtask["stage"] == "Stopped" or (
        subtask["stage"] == "Paused" and (result.get("isCanceled", False) or not result.get("detail"))
    )


def relay_rests(source: Answer, subtask: Answer) -> bool:
    """Whether the relay that a subtask at work depends on stands still for good."""
    return bool(subtask.get("relayRests")) and rests(source["sourceStatus"]["relayStatus"])


def _held_up(answer: Answer) -> list[str]:
    """What subtasks that go on wait for, and what went wrong with them or their relay; others tell it in the end."""
    remarks: list[str] = []
    for source in answer["sources"]:
        name = source["sourceStatus"]["source"]
        going = [one for one in source["subTaskStatus"] if not rests(one) and not relay_rests(source, one)]
        remarks += [remark for one in going for tell in (waits_of, errors_of) for remark in tell(name, one)]
        if going:
            remarks += relay_errors(name, source["sourceStatus"]["relayStatus"])
    return remarks


def _resting(answer: Answer) -> list[bool]:
    """Of each subtask, whether it will not go on by itself."""
    return [rests(one) or relay_rests(source, one) for source in answer["sources"] for one in source["subTaskStatus"]]


def ended(answer: Answer) -> bool:
    """Whether nothing is going on any more."""
    each = zip(subtasks(answer), _resting(answer), strict=True)
    return all(resting or subtask["stage"] == "Finished" for subtask, resting in each)


def settled(answer: Answer) -> bool:
    """Whether there is nothing left to wait for."""
    each = zip(subtasks(answer), _resting(answer), strict=True)
    return all(resting or subtask["stage"] == "Finished" or synced(subtask) for subtask, resting in each)


def follow(
    ask: Callable[[], Answer],
    wait: Callable[[float], None] = time.sleep,
    *,
    over: Callable[[Answer], bool] = settled,
    clock: Callable[[], str] = lambda: time.strftime("%Y-%m-%d %H:%M:%S"),
) -> bool:
    """Print progress until the task is settled, or `ended`; False when a subtask rests that should not, or its relay.

    A terminal shows totals and tables in place; elsewhere each change of a total or of a position is a line. A wait,
    and what went wrong and is tried again, is told once. Each line has the time of this machine.
    """
    try:
        if sys.stdout.isatty():
            from rich.console import Console
            from rich.live import Live
            from rich.text import Text

            with Live(console=Console(highlight=False), auto_refresh=False, transient=True) as live:

                def show(answer: Answer) -> None:
                    lines = [clock(), *progress_lines(answer, place=True), *_held_up(answer)]
                    live.update(Text(visible("\n".join(lines))), refresh=True)

                answer = _watch(ask, wait, show, over)
            for line in progress_lines(answer, tables=False, place=True):
                print_line(f"{clock()} {line}")
        else:
            answer = _watch(ask, wait, _line_printer(clock), over)
    except KeyboardInterrupt:
        print_line("the task goes on")
        return True
    for remark in remarks_of(answer):
        print_line(remark)
    return not any(_resting(answer))


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


def _line_printer(clock: Callable[[], str]) -> Callable[[Answer], None]:
    said: dict[str, str] = {}
    told: set[str] = set()

    def show(answer: Answer) -> None:
        plain = progress_lines(answer, tables=False, times=False, place=True)
        for line, without_times in zip(progress_lines(answer, tables=False, place=True), plain, strict=True):
            subject = line.partition(":")[0]
            if said.get(subject) != without_times:
                said[subject] = without_times
                print_line(f"{clock()} {line}")
        for remark in _held_up(answer):
            if remark not in told:
                told.add(remark)
                print_line(f"{clock()} {remark}")

    return show
