"""`dmctl diff`: whether the target has what the sources have; the daemon's process compares, and this one waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from pathlib import Path
from typing import Annotated, Any

import typer

from dm.cli import output as printer
from dm.cli.client import read_config_file
from dm.cli.errand import wait_for
from dm.cli.exit_status import errors_end_with
from dm.cli.invocation import AddrOption, OutputOption, TaskArgument, as_json, client_of, is_file
from dm.plural import counted

STATUSES = {"equal": 0, "different": 1, "not compared": 2}
_BROKEN = STATUSES["not compared"]  # of a comparison that ends with an error: the usual 1 says here that rows differ

Answer = dict[str, Any]


def diff(
    task: TaskArgument,
    tables: Annotated[
        list[str] | None, typer.Option("--tables", help="only this table of the target, schema.table; may be repeated")
    ] = None,
    where: Annotated[str, typer.Option("--where", help="only rows of both sides for which this SQL is true")] = "",
    ignore_columns: Annotated[
        list[str] | None, typer.Option("--ignore-columns", help="leave this column out; may be repeated")
    ] = None,
    fix_sql: Annotated[
        str, typer.Option("--fix-sql", help="a directory for the statements that make the target equal")
    ] = "",
    rows: Annotated[int, typer.Option("--rows", min=1, help="rows of a chunk")] = 100_000,
    threads: Annotated[int, typer.Option("--threads", min=1, help="chunks that are compared at a time")] = 4,
    max_load: Annotated[
        int, typer.Option("--max-load", min=0, help="wait while more threads run at a server; 0 for never")
    ] = 0,
    memory: Annotated[
        int, typer.Option("--memory", min=1, help="MB of differing rows that are kept at a time, by each thread")
    ] = 64,
    shown: Annotated[int, typer.Option("--shown", min=0, help="differing rows shown of each table")] = 20,
    snapshot: Annotated[
        list[str] | None,
        typer.Option(
            "--snapshot",
            help="read each chunk as of one moment: `now`, or a TSO or time of a TiDB; target=MOMENT and SOURCE=MOMENT"
            " are for one side; may be repeated",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="leave out what an unfinished comparison found equal")
    ] = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Compare sources and target. Exit status 0 equal, 1 different, 2 not all compared, or an error."""
    body: Answer = {
        "tables": tables or [], "where": where, "ignore_columns": ignore_columns or [], "rows": rows,
        "threads": threads, "max_load": max_load, "kept_bytes": memory << 20, "shown": shown,
        "resume": resume, "snapshots": snapshot or [],
        "fix_sql": str(Path(fix_sql).absolute()) if fix_sql else "",
    }  # fmt: skip
    with errors_end_with(_BROKEN):
        client = client_of(addr)
        body |= {"file": read_config_file(task)} if is_file(task) else {"task": task}
        begun = client.post("/api/v1/diffs", body)
        for source, stage in begun["behind"].items():
            printer.say(
                f"warning: {begun['task']} on {source} is {stage}: what it has not applied yet counts as a difference"
            )
        address = f"/api/v1/diffs/{begun['number']}"
        answer = wait_for(client, address, "comparison", None if as_json(output) else progress)
    if as_json(output):
        printer.print_json(answer)
    else:
        for line in lines(answer):
            printer.print_line(line)
    if status := STATUSES[answer["verdict"]]:
        raise typer.Exit(status)


def progress(answer: Answer) -> str:
    """One line on how far it is."""
    if not answer.get("totalChunks"):
        return str(answer.get("phase", "starting"))
    left = answer["secondsLeft"]
    words = f"{answer['phase']}: {answer['doneChunks']} of {answer['totalChunks']} chunks, {answer['rows']} rows"
    return words if left is None else f"{words}, {left:.0f} s left"


def lines(answer: Answer) -> list[str]:
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
        found += [f"  no statement for some rows: {why}" for why in table["withoutFix"]]
        if table["fixSql"]:
            found.append(f"  fix: {table['fixSql']}")
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
