"""The text of `pace`."""

from __future__ import annotations

from dm.cli import output as printer
from dm.cli.caller import Answer, shows
from dm.verbs.pace import Pace


@shows(Pace)
def pace(_asked: Pace, answer: Answer) -> None:
    """The limits, where they come from, and what they do at this moment."""
    limits = answer["limits"]
    origin = "by its file" if answer["fromFile"] else "set by `dmctl pace`"
    printer.print_line(f"{answer['task']}: {'limited' if limits else 'not limited'}, {origin}")
    for key, value in limits.items():
        printer.print_line(f"  {key}: {value}")
    if limits:
        printer.print_line(f"  holds back now: {answer['holds'] or 'no'}")
        printer.print_line(f"  held back {100 * answer['heldShare']:.0f} % of the time since it was set")
