"""`dmctl replay`: the backlog of a paused task, applied by Spark; the daemon's process works, and this one waits."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dm.cli import output as printer
from dm.cli.errand import wait_for
from dm.cli.invocation import AddrOption, OutputOption, TaskArgument, as_json, client_of, of_task, task_name
from dm.cli.replay_text import replay_progress
from dm.errors import DMError
from dm.plural import counted

Answer = dict[str, Any]


def replay(
    task: TaskArgument,
    until: Annotated[
        str,
        typer.Option("--until", help="up to here: a file and an offset (FILE:154), a GTID set, or a time"),
    ] = "",
    cancel: Annotated[
        bool, typer.Option("--cancel", help="leave what was begun to the syncer, which repeats it from the checkpoint")
    ] = False,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Apply the backlog of a paused task in bulk, by Spark. Called again, it goes on."""
    if until and cancel:
        hint = "dmctl replay <task> --cancel"
        raise DMError("usage", problem="--cancel replays nothing, so --until means nothing", hint=hint)
    client = client_of(addr)
    name = task_name(client, task)
    begun = client.post(f"{of_task(name)}/replays", {"until": until, "cancel": cancel})
    address = f"/api/v1/replays/{begun['number']}"
    answer = wait_for(client, address, "replay", None if as_json(output) else replay_progress)
    if as_json(output):
        printer.print_json(answer)
    elif cancel:
        printer.print_line(f"go on with `dmctl resume-task {name}`")
    else:
        for line in lines(answer, name):
            printer.print_line(line)


def lines(answer: Answer, task: str) -> list[str]:
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
