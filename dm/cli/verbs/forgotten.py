"""The text of `forgotten`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs, shows
from dm.cli.invocation import FAILED, OK
from dm.text import counted
from dm.verbs.forgotten import ListForgotten, RemoveForgotten


@runs(ListForgotten)
def list_forgotten(asked: ListForgotten, caller: Caller) -> int:
    """A line for each; which targets could not be asked is said on stderr in either form."""
    answer = caller.ask(caller.read(asked))
    if caller.json:
        printer.print_json(answer)
    elif answer["forgotten"]:
        rows = [(one["name"], one["where"], _content(one), one["changed"]) for one in answer["forgotten"]]
        printer.table("", ("name", "where", "content", "changed (UTC)"), rows)
    else:
        printer.print_line("nothing is left")
    for problem in answer["problems"]:
        printer.say(f"warning: {problem}")
    return FAILED if answer["problems"] else OK


@shows(RemoveForgotten)
def remove_forgotten(_asked: RemoveForgotten, answer: Answer) -> None:
    """What is removed, and what stays of it."""
    for one in answer["removed"]:
        stays = f"; what stays: {one['left']}" if one["left"] else ""
        printer.print_line(f"{one['name']} is removed{stays}")


def _content(one: Mapping[str, Any]) -> str:
    if "tables" in one:
        sources = f" of {', '.join(one['sources'])}" if one["sources"] else ""
        return f"{counted(one['tables'], 'table')}{sources}"
    return f"{counted(one['files'], 'file')}, {int(one['bytes']) / (1 << 20):.1f} MB"
