"""The text of the verbs of relays."""

from __future__ import annotations

from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs
from dm.cli.invocation import FAILED, OK
from dm.text import counted
from dm.verbs import relays as declared
from dm.verbs.sources import ShowSources


@runs(declared.StartRelay, declared.StopRelay, declared.PauseRelay, declared.ResumeRelay)
def operate(asked: declared.OperatedRelay, caller: Caller) -> int:
    """One relay after the other; an error that keeps one from working is in its line."""
    caller.ask(ShowSources(source=asked.sources))  # an unknown one is said before anything is done
    answers = [caller.ask(asked.but(source=source)) for source in asked.sources]
    lines = [one for answer in answers for one in answer["sources"]]
    for one in answers:
        printer.warnings({"warnings": one.get("warnings", [])})
    answer = {**answers[0], "sources": lines}
    caller.show(answer, printer.sources_table)
    return OK if all(line["result"] for line in lines) else FAILED


def purged(answer: Answer) -> None:
    """Which files are gone, and why others stay."""
    for source in answer["sources"]:
        for file in source["removedFiles"]:
            printer.print_line(file)
        count, size = len(source["removedFiles"]), int(source["removedBytes"])
        printer.print_line(f"{source['source']}: {counted(count, 'file')} removed, {size / (1 << 20):.1f} MB")
        if source["keptBack"]:
            printer.print_line(f"{source['source']}: the others stay: {source['keptBack']}")


@runs(declared.PurgeRelay)
def purge(asked: declared.PurgeRelay, caller: Caller) -> None:
    """One relay's."""
    answer = caller.ask(asked.but(source=asked.sources[0]))
    caller.show(answer, purged)
