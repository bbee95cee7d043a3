"""The text of `show-conflicts` and `clear-conflicts`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dm.cli import output as printer
from dm.cli.caller import Answer, shows
from dm.text import counted
from dm.verbs.conflicts import ClearConflicts, ShowConflicts


@shows(ShowConflicts)
def show(_asked: ShowConflicts, answer: Answer) -> None:
    """A paragraph for each, then how many are recorded."""
    for each in answer["conflicts"]:
        at = datetime.fromtimestamp(each["at"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        what = f"{each['operation']} on {each['table']} with {_row(each['key'])}"
        printer.print_line(f"{each['number']}  {at} UTC  {what}")
        printer.print_line(f"  the {each['winner']} has won; source {each['source']} at {each['sourcePlace']}")
        printer.print_line(f"  the source had   {_row(each['sourceBefore'])}")
        printer.print_line(f"  and then         {_row(each['sourceAfter'])}")
        place = f", written at {each['targetPlace']}" if each["targetPlace"] else ""
        printer.print_line(f"  the target had   {_row(each['targetRow'])}{place}")
    shown = len(answer["conflicts"])
    last = f", the last {shown} shown" if shown < answer["recorded"] else ""
    printer.print_line(f"{counted(answer['recorded'], 'conflict')} recorded{last}")


def _row(image: Any) -> str:
    return image if isinstance(image, str) else ", ".join(f"{name} = {value}" for name, value in image.items())


@shows(ClearConflicts)
def clear(asked: ClearConflicts, answer: Answer) -> None:
    """How many are gone."""
    printer.print_line(f"{asked.task}: {counted(answer['removed'], 'conflict')} removed from the record")
