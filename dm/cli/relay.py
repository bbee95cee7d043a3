"""The text of the verbs of relays."""

from __future__ import annotations

from dm.cli import output as printer
from dm.cli.caller import Caller, runs
from dm.cli.exit_status import FAILED, OK
from dm.verbs import relay as declared
from dm.verbs.sources import ShowSources


@runs(declared.StartRelay, declared.StopRelay, declared.PauseRelay, declared.ResumeRelay)
def operate(asked: declared.OperatedRelay, caller: Caller) -> int:
    """One relay after the other; an error that keeps one from working is in its line."""
    caller.ask(ShowSources(source=asked.sources))  # an unknown one is said before anything is done
    answers = [caller.ask(asked.but(source=source)) for source in asked.sources]
    lines = [one for answer in answers for one in answer["sources"]]
    answer = {**answers[0], "sources": lines}
    caller.show(answer, printer.sources_table)
    return OK if all(line["result"] for line in lines) else FAILED


@runs(declared.PurgeRelay)
def purge(asked: declared.PurgeRelay, caller: Caller) -> None:
    """Which files are gone, and why others stay."""
    answer = caller.ask(asked.but(source=asked.sources[0]))
    caller.show(answer, printer.purged)
