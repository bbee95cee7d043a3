"""The text of `update-task` and `reload-table`."""

from __future__ import annotations

from typing import Final

import typer

from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs, shows
from dm.cli.client import read_config_file
from dm.cli.invocation import FAILED, OK
from dm.verbs.updates import CancelUpdate, ReloadTable, UpdateTask

_SHOWN: Final = 20  # tables of a source


@runs(UpdateTask)
def update_task(asked: UpdateTask, caller: Caller) -> int:
    """Say what changes, ask, do it; in JSON nothing is asked, so --yes is needed."""
    if asked.cancel:
        cancel = caller.read(CancelUpdate(task=asked.task))
        answer = caller.ask(cancel)
        if caller.json:
            printer.print_json(answer)
        else:
            words = "the list of before holds again; what was loaded of the tables is removed"
            printer.print_line(f"{cancel.task}: {words}")
        return OK
    asked = asked.but(file=read_config_file(asked.task))
    planned = caller.ask(asked.but(look=True))
    if not caller.json:
        for line in lines(planned):
            printer.say(line)
    if not planned["changes"] or (caller.json and not asked.yes):
        if caller.json:
            printer.print_json(planned)
        return OK
    if not asked.yes and not typer.confirm("do it?", err=True):
        return FAILED
    answer = caller.ask(asked.but(look=False))
    if caller.json:
        printer.print_json(answer)
    else:
        if "checkResult" in answer:
            printer.check_warnings(answer["checkResult"])
        printer.print_line(f"follow it with `dmctl query-status {answer['taskName']}`")
    return OK


def lines(planned: Answer) -> list[str]:
    """What a file changes, for people."""
    name = planned["taskName"]
    if not planned["changes"]:
        return [f"{name}: the file changes nothing"]
    found = [f"{name}: source {source} is added: it is loaded and followed" for source in planned["newSources"]]
    for source, tables in planned["tables"].items():
        what = f"are loaded beside the others, and join: {_some(tables)}" if tables else "come when the source has them"
        found.append(f"{name}: tables that the list of source {source} gets {what}")
    if planned["filledTables"]:
        found.append(
            f"{name}: tables that the load fills have rows already, which stay beside the source's or in their place:"
            f" {_some(planned['filledTables'])}. If they do not belong there, TRUNCATE TABLE .. (at the target) first"
        )
    if planned["keys"]:
        found.append(f"{name}: other settings: {', '.join(planned['keys'])}")
    return found or [f"{name}: the file says the same in other words"]


def _some(tables: list[str]) -> str:
    return ", ".join(tables[:_SHOWN]) + (f" and {len(tables) - _SHOWN} more" if len(tables) > _SHOWN else "")


@shows(ReloadTable)
def reload_table(asked: ReloadTable, answer: Answer) -> None:
    """Which tables go on, or are loaded."""
    tables = ", ".join(answer["tables"])
    if asked.cancel:
        printer.print_line(f"{tables}: goes on with the rows that it has")
    else:
        printer.print_line(f"{tables} of source {answer['source']}: {answer['target']} is loaded again")
        printer.print_line(f"follow it with `dmctl query-status {asked.task}`")
