"""The text of `table`."""

from __future__ import annotations

import shlex

from dm.cli import output as printer
from dm.cli.caller import Answer, shows
from dm.verbs.tables import GiveUpTable, HoldTable, ListAside, ReleaseTable, table_of


@shows(ListAside)
def list_aside(asked: ListAside, answer: Answer) -> None:
    """Each branch, and below it why it rests."""
    if not answer["branches"]:
        printer.print_line(f"{answer['task']}: all tables are in its stream")
    for one in answer["branches"]:
        tables = ", ".join(one["tables"])
        behind = f", behind by {one['behind']}" if one["behind"] else ""
        printer.print_line(f"{tables} of source {one['source']}: {one['phase']}, since {one['since']}{behind}")
        release = f"`dmctl table release {asked.task} {_argument(one['tables'][0])}`"
        if one["error"] is not None:
            printer.print_line(f"  {one['error']['ErrCode']}: {one['error']['Message']}")
            for said in filter(None, (one["error"]["RawCause"], one["error"]["Workaround"])):
                # The catalogue's way out is for a task that rests; here the task goes on, and the table rests.
                printer.print_line(f"  {said.replace('`dmctl resume-task`', release)}")
        if one["phase"] == "aside":
            printer.print_line(f"  once it is mended: {release}")


@shows(HoldTable)
def hold(asked: HoldTable, answer: Answer) -> None:
    """What leaves."""
    printer.print_line(f"{_tables(answer)}: put aside; the others go on")
    printer.print_line(f"`dmctl table release {asked.task} {_argument(asked.table)}` lets it come back")


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


def _argument(table: str) -> str:
    """The table as a shell takes it: it would execute what stands in backticks."""
    name = table_of(table)
    plain = not {".", "`"} & {*name.schema, *name.table}
    return shlex.quote(f"{name.schema}.{name.table}" if plain else table)


def _tables(answer: Answer) -> str:
    return f"{', '.join(answer['tables'])} of source {answer['source']}"
