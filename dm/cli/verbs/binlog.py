"""The text of `binlog` and `binlog-schema`."""

from __future__ import annotations

from pathlib import Path

from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs, shows
from dm.cli.invocation import FAILED, OK
from dm.errors import DMError
from dm.verbs import binlog as declared
from dm.verbs.declaration import Verb


def _status(answer: Answer) -> int:
    """It failed where a source was refused."""
    return OK if all(source["result"] for source in answer["sources"]) else FAILED


def _refusals(answer: Answer) -> None:
    """Which sources did not do what the others did."""
    for source in answer["sources"]:
        if not source["result"]:
            printer.say(f"source {source['source']}: {source['msg']}")


@shows(declared.ListOperators, status=_status)
def list_operators(_asked: declared.ListOperators, answer: Answer) -> None:
    """A line for each event."""
    rows = [
        (source["source"], one["binlogPos"], one["op"], one["state"], "; ".join(one["sqls"]))
        for source in answer["sources"]
        for one in source.get("operators", [])
    ]
    _refusals(answer)
    if rows:
        printer.table("", ("source", "position", "operation", "state", "statements"), rows)
    else:
        printer.print_line("nothing is to be skipped, replaced or injected")


@shows(
    declared.SkipEvent,
    declared.ReplaceEvent,
    declared.InjectBefore,
    declared.RevertEvent,
    declared.DeleteStructure,
    status=_status,
)
def stages(_asked: Verb, answer: Answer) -> None:
    """How each subtask is now, and which sources were refused."""
    printer.stages_table(answer)
    _refusals(answer)


@shows(declared.ListStructure, status=_status)
def list_structure(_asked: declared.ListStructure, answer: Answer) -> None:
    """Statements that a file for `binlog-schema update` can be made of."""
    for source in answer["sources"]:
        if source["result"]:
            printer.print_line(f"-- source {source['source']}")
            printer.print_file(f"{source['msg']};")
    _refusals(answer)


@runs(declared.UpdateStructure)
def update_structure(asked: declared.UpdateStructure, caller: Caller) -> int:
    """The file is read here."""
    if asked.schema_file is not None:
        asked = asked.but(origin="file", text=_text_of(asked.schema_file))
    else:
        asked = asked.but(origin="source" if asked.from_source else "target")
    answer = caller.ask(caller.read(asked))
    if caller.json:
        printer.print_json(answer)
    else:
        stages(asked, answer)
    return _status(answer)


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DMError("file-unreadable", file=path) from error
