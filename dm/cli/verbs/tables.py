"""The text of `table`."""

from __future__ import annotations

from dm.cli import output as printer
from dm.cli.caller import Answer, shows
from dm.verbs.tables import GiveUpTable, HoldTable, ListAside, ReleaseTable


@shows(ListAside)
def list_aside(asked: ListAside, answer: Answer) -> None:
    """Each branch, and below it why it rests."""
    if not answer["branches"]:
        printer.print_line(f"{answer['task']}: all tables are in its stream")
    for one in answer["branches"]:
        tables = ", ".join(one["tables"])
        behind = f", behind by {one['behind']}" if one["behind"] else ""
        printer.print_line(f"{tables} of source {one['source']}: {one['phase']}, since {one['since']}{behind}")
        if one["error"] is not None:
            printer.print_line(f"  {one['error']['ErrCode']}: {one['error']['Message']}")
            for said in filter(None, (one["error"]["RawCause"], one["error"]["Workaround"])):
                printer.print_line(f"  {said}")
        if one["phase"] == "aside":
            printer.print_line(f"  once it is mended: `dmctl table release {asked.task} {one['tables'][0]}`")


@shows(HoldTable)
def hold(asked: HoldTable, answer: Answer) -> None:
    """What leaves."""
    printer.print_line(f"{_tables(answer)}: put aside; the others go on")
    printer.print_line(f"`dmctl table release {asked.task} {asked.table}` lets it come back")


@shows(ReleaseTable)
def release(asked: ReleaseTable, answer: Answer) -> None:
    """What comes back."""
    printer.print_line(f"{_tables(answer)}: comes back from where it left")
    printer.print_line(f"follow it with `dmctl table list {asked.task}`")


@shows(GiveUpTable)
def give_up(asked: GiveUpTable, answer: Answer) -> None:
    """What is left behind."""
    printer.print_line(f"{_tables(answer)}: migrated no longer; the target's table stays as it is")
    printer.print_line(f"`dmctl reload-table {asked.task} DB TABLE` loads it again")


def _tables(answer: Answer) -> str:
    return f"{', '.join(answer['tables'])} of source {answer['source']}"
