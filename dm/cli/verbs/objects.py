"""The text of `objects`."""

from __future__ import annotations

from collections import Counter

from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs
from dm.text import counted
from dm.verbs.objects import Objects

_WELL = ("equal", "created")
_LATER = ("trigger", "event")


@runs(Objects, errors=2)  # 1 says here that the target has not all of them
def objects(asked: Objects, caller: Caller) -> int:
    """The list, and whether the target has all of it as exit status."""
    answer = caller.ask(caller.read(asked))
    caller.show(answer, lambda answer: printer.print_line("\n".join(object_lines(answer))))
    return int(any(each["state"] not in (*_WELL, "only at the target") for each in answer["objects"]))


def object_lines(answer: Answer) -> list[str]:
    """The list for people."""
    found = []
    for each in answer["objects"]:
        name = f"{each['schema']}.{each['name']}" if each["schema"] else each["name"]
        head = f"{each['kind']} {name}" + (f" on {each['table']}" if each["table"] else "")
        later = " (comes with the cut-over)" if each["state"] == "missing" and each["kind"] in _LATER else ""
        found.append(f"{head}: {each['state']}{later}")
        found += [f"  {why}" for why in each["why"]]
        found += [f"  note: {finding}" for finding in each["findings"]]
    found += [f"note: {remark}" for remark in answer["remarks"]]
    found += [f"file: {file}" for file in answer["files"]]
    states = Counter(each["state"] for each in answer["objects"])
    counts = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    return [*found, f"{counted(len(answer['objects']), 'object')}{': ' if counts else ''}{counts}"]
