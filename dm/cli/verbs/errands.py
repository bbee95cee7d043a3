"""The text of `diff`, `flashback`, `replay` and `heal`: a process of the daemon works, and this one waits for it."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Sequence
from datetime import UTC, datetime
from typing import Final

from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs
from dm.cli.client import read_config_file
from dm.cli.invocation import is_file
from dm.text import counted
from dm.verbs.errands import Diff, Flashback, Heal, Replay, RunStatus, StopRun
from dm.worker.status_text import heal_progress, replay_progress

STATUSES: Final = {"equal": 0, "different": 1, "not compared": 2}
_SECONDS: Final = 0.5


def _result(begun: Answer, what: str, progress: Callable[[Answer], str], caller: Caller) -> Answer:
    """The answer at its end; stderr says how far it is, unless JSON is wanted. A person who gives up ends it."""
    number, told = int(begun["number"]), ""
    try:
        while not (answer := caller.ask(RunStatus(number=number)))["ended"]:
            if not caller.json and (words := progress(answer)) != told:
                printer.say(words)
                told = words
            time.sleep(_SECONDS)
    except KeyboardInterrupt:
        caller.ask(StopRun(number=number))
        printer.say(f"the {what} is ended")
        sys.exit(2)
    return answer


def _print(lines: list[str]) -> None:
    for line in lines:
        printer.print_line(line)


@runs(Diff, errors=STATUSES["not compared"])  # the usual 1 says here that rows differ
def diff(asked: Diff, caller: Caller) -> int:
    """The result, and the verdict as exit status."""
    asked = caller.read(asked)
    if is_file(asked.task):
        asked = asked.but(file=read_config_file(asked.task), task="")
    begun = caller.ask(asked)
    for source, stage in begun["behind"].items():
        printer.say(
            f"warning: {begun['task']} on {source} is {stage}: what it has not applied yet counts as a difference"
        )
    answer = _result(begun, "comparison", diff_progress, caller)
    caller.show(answer, lambda answer: _print(diff_lines(answer)))
    return STATUSES[answer["verdict"]]


def diff_progress(answer: Answer) -> str:
    """One line on how far it is."""
    if not answer.get("totalChunks"):
        return str(answer.get("phase", "starting"))
    left = answer["secondsLeft"]
    words = f"{answer['phase']}: {answer['doneChunks']} of {answer['totalChunks']} chunks, {answer['rows']} rows"
    return words if left is None else f"{words}, {left:.0f} s left"


def diff_lines(answer: Answer) -> list[str]:
    """The result for people."""
    found = []
    for table in answer["report"]:
        found.append(f"{table['table']}: {_verdict(table)}")
        found += [f"  structure: {line}" for line in table["structure"]]
        found += [f"  structure, as optimistic shards may differ: {line}" for line in table["allowedStructure"]]
        found += [f"  {line}" for row in table["rows"] for line in _row(row)]
        if table["differingRows"] > len(table["rows"]):
            found.append("  " + counted(table["differingRows"] - len(table["rows"]), "more row"))
        if table["unsettledRows"]:
            found.append(f"  {counted(table['unsettledRows'], 'row')} changed each time they were looked at")
        found += _undecided(table)
        if table.get("restsOn"):
            at = datetime.fromtimestamp(table["restsOn"]["at"], tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
            found.append(f"  only rows written since {table['restsOn']['place']}; the others were equal at {at} UTC")
        if table.get("wholeBecause"):
            found.append(f"  all rows were compared: {table['wholeBecause']}")
        found += [f"  no statement for some rows: {why}" for why in table["withoutFix"]]
        if table.get("keptRows"):
            rows = counted(table["keptRows"], "row")
            found.append(f"  {rows} only at the target: DELETE as a comment, since {table['keptBecause']}")
        if table["fixSql"]:
            found.append(f"  fix: {table['fixSql']}")
    if answer.get("notRecorded"):
        found.append(f"warning: not stored at the target, for query-status: {answer['notRecorded']}")
    return [*found, f"{answer['verdict']}: {_tables(answer)} in {answer['seconds']:.1f} s"]


def _undecided(table: Answer) -> list[str]:
    """Rows that may only be on their way."""
    number, keys = table["undecidedRows"], table["undecidedKeys"]
    if not number:
        return []
    found = [f"  {counted(number, 'row')} not decided: {table['undecidedWhy']}", *(f"    {key}" for key in keys)]
    return found if len(keys) in (0, number) else [*found, f"    {counted(number - len(keys), 'more row')}"]


def _tables(answer: Answer) -> str:
    """How many of the tables are as the verdict says."""
    found = Counter(table["verdict"] for table in answer["report"])
    number = counted(found.total(), "table")
    if found["equal"] == found.total():
        return number
    others = f", {found['not compared']} not compared," if found["different"] and found["not compared"] else ""
    return f"{found[answer['verdict']]} of {number}{others}"


def _verdict(table: Answer) -> str:
    if table["notCompared"]:
        return f"not compared: {table['notCompared']}"
    there = f"{counted(int(table['sourceRows']), 'row')} at the source, {table['targetRows']} at the target"
    if table["verdict"] == "different" and table["differingRows"]:
        differing = int(table["differingRows"])
        return f"different, {counted(differing, 'row')} {'differs' if differing == 1 else 'differ'}, {there}"
    if table["verdict"] == "equal" and table["sourceRows"] != table["targetRows"]:
        there += " at the first look"
    return f"{table['verdict']}, {there}"


def _row(row: Answer) -> list[str]:
    """One row with both sides."""
    named = row["key"] or "a row without a key"
    if row["target"] is None:
        return [f"{named}: {_times(row['timesAtSource'])}only at the source: {_values(row['source'])}"]
    if row["source"] is None:
        return [f"{named}: {_times(row['timesAtTarget'])}only at the target: {_values(row['target'])}"]
    columns = [name for name in row["columns"] if not _is_an_aspect(name, row["columns"])]
    return [
        f"{named}:",
        *(f"  {name}: {row['source'][name]} at the source, {row['target'][name]} at the target" for name in columns),
    ]


def _times(number: int) -> str:
    return f"{number} times " if number > 1 else ""


def _values(row: Answer) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items() if not _is_an_aspect(name, row))


def _is_an_aspect(name: str, shown: Container[str]) -> bool:
    """Whether this is another side of a value that is shown: an ENUM's number, or the types in a document."""
    column, _, aspect = name.rpartition(" ")
    return aspect in ("(number)", "(types)") and column in shown


@runs(Flashback)
def flashback(asked: Flashback, caller: Caller) -> None:
    """The files that were written, and what no statement takes back."""
    begun = caller.ask(caller.read(asked))
    answer = _result(begun, "flashback", lambda seen: str(seen.get("phase", "starting")), caller)
    caller.show(answer, lambda answer: _print(flashback_lines(answer)))


def flashback_lines(answer: Answer) -> list[str]:
    """The result for people."""
    return [line for report in answer["report"] for line in _taken_back(report)]


def _taken_back(report: Answer) -> list[str]:
    place = f"from {report['from']} to {report['to']}"
    if not report["file"]:
        return [f"{report['source']}: no row changes {place}", *_ddl(report)]
    counted = f"{report['statements']} statements take back {report['transactions']} transactions"
    return [
        f"{report['source']}: {counted}, {place}",
        *(f"  {table}: {count}" for table, count in report["tables"].items()),
        *_ddl(report),
        f"  file: {report['file']}",
    ]


def _ddl(report: Answer) -> list[str]:
    found = [f"  not taken back, at {each['place']}: {each['statement']}" for each in report["ddl"]]
    return [*found, f"  not taken back: {report['ddlNotShown']} more statements"] if report["ddlNotShown"] else found


@runs(Replay)
def replay(asked: Replay, caller: Caller) -> None:
    """What was applied, and how the task goes on."""
    asked = caller.read(asked)
    answer = _result(caller.ask(asked), "replay", replay_progress, caller)
    if caller.json:
        printer.print_json(answer)
    elif asked.cancel:
        printer.print_line(f"go on with `dmctl resume-task {asked.task}`")
    else:
        _print(replay_lines(answer, asked.task))


def replay_lines(answer: Answer, task: str) -> list[str]:
    """The result for people."""
    if not answer.get("over"):
        return [f"the replay was ended; `dmctl replay {task}` goes on, `dmctl resume-task {task}` does without it"]
    seconds = sum(answer["seconds"].values())
    found = [
        f"{answer['source']}: from {answer['from']} to {answer['to']}",
        f"  {counted(answer['changes'], 'change')} of {counted(len(answer['tables']), 'table')}"
        f" as {counted(answer['applied'], 'change')} at the target, in {seconds:.1f} s",
    ]
    found += [f"  left to the syncer: {table}: {why}" for table, why in answer["left"].items()]
    if answer["endsBefore"]:
        found.append(f"  it ends before: {answer['endsBefore']}")
    return [*found, f"  go on with `dmctl resume-task {task}`"]


@runs(Heal)
def heal(asked: Heal, caller: Caller) -> None:
    """What was mended, and how the task goes on."""
    asked = caller.read(asked)
    begun = caller.ask(asked)
    answer = _result(begun, "heal", heal_progress, caller)
    if caller.json:
        printer.print_json(answer)
    else:
        _print(heal_lines(answer, asked, begun["restingRelays"]))


def heal_lines(answer: Answer, asked: Heal, resting: Sequence[str]) -> list[str]:
    """The result for people; the relays of some sources rest."""
    dry, task = answer["dryRun"], asked.task + (f" --source {asked.source}" if asked.source else "")
    if not answer.get("over"):
        if dry:
            return ["the comparison was ended; nothing was written"]
        return [f"the heal was ended; `dmctl heal {task}` begins it again"]
    seconds, would = sum(answer["seconds"].values()), "would be " if dry else ""
    chunks, rows = counted(int(answer["chunks"]), "chunk"), counted(int(answer["writtenRows"]), "row")
    names = ", ".join(each["source"] for each in answer["sources"])
    found = [f"{names}: {answer['differingChunks']} of {chunks} differed: {rows} {would}written, in {seconds:.1f} s"]
    found += [f"  {table}: {counted(number, 'row')}" for table, number in answer["tables"].items()]
    found += [f"  {would}loaded again whole: {table}: {why}" for table, why in answer["whole"].items()]
    merged = answer["goneFrom"]
    found += [
        f"  no longer at the source, so {merged[table]} keeps none of its rows: {table}"
        if table in merged
        else f"  no longer at the source, its table at the target stays: {table}"
        for table in answer["gone"]
    ]
    if dry:
        found.append(f"  nothing was written; `dmctl heal {task}` takes about {seconds:.0f} s, and what it writes")
        return found
    found += [f"  let its relay go on: `dmctl resume-relay -s {source}`" for source in resting]
    several = len(answer["sources"]) > 1
    places = (each["from"] + (f" of {each['source']}" if several else "") for each in answer["sources"])
    return [*found, f"  go on from {' and '.join(places)} with `dmctl resume-task {task}`"]
