"""The text of `timeline`."""

from __future__ import annotations

from datetime import UTC, datetime

from dm.cli import output as printer
from dm.cli.caller import Answer, shows
from dm.verbs.history import ShowTimeline


@shows(ShowTimeline)
def timeline(_asked: ShowTimeline, answer: Answer) -> None:
    """A line for each, the newest last."""
    rows = [
        (
            f"{datetime.fromtimestamp(one['at'], UTC):%Y-%m-%d %H:%M:%S}", one["kind"], one["task"], one["source"],
            one["who"], f"{one['code']}: {one['text']}" if one["code"] else one["text"],
        )
        for one in answer["happenings"]
    ]  # fmt: skip
    printer.table("", ("UTC", "what", "task", "source", "who", ""), rows)
