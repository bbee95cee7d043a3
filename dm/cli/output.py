"""What `dmctl` prints: DM's JSON on request, else tables for people. Errors always go to stderr.

All of it is printed here and nowhere else, since all of it may hold words of others: `dm/text.py` says what a
terminal would make of them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from textwrap import wrap
from typing import TYPE_CHECKING

from dm.errors import ErrorReport
from dm.text import counted, visible, visible_json
from dm.worker.status_text import Answer, compared_of, load_lines, progress_cells, relay_remarks, remarks_of, stage_text

if TYPE_CHECKING:
    from rich.console import Console


class Format(StrEnum):
    """How answers are printed."""

    table = "table"
    json = "json"


_STYLES = {
    "Running": "green", "Finished": "green", "success": "green", "Paused": "yellow", "warn": "yellow",
    "fail": "red", "Stopped": "dim", "New": "dim",
}  # fmt: skip


_BETWEEN = 2  # spaces between two columns


def print_json(answer: Answer) -> None:
    """The answer as it came."""
    sys.stdout.write(visible_json(json.dumps(answer, indent=4, ensure_ascii=False)) + "\n")


def say(text: str) -> None:
    """A remark that is no part of the answer."""
    sys.stderr.write(visible(text) + "\n")


def warnings(answer: Answer) -> None:
    """What a person should know of what was done."""
    for warning in answer["warnings"]:
        say(f"warning: {warning}")


def check_warnings(checked: Answer) -> None:
    """What the prechecks of a task that was started or changed have warned of."""
    for result in checked["results"]:
        for error in result["errors"]:
            say(f"warning: {result['name']} of {result['extra']}: {error['short_error']}")


def print_error(report: ErrorReport) -> None:
    """An error as people need it: what, why, and what to do."""
    lines = [f"Error {report['ErrCode']}: {report['Message']}"]
    if report["RawCause"]:
        lines.append(f"  cause: {report['RawCause']}")
    if report["Workaround"]:
        lines.append(f"  workaround: {report['Workaround']}")
    say("\n".join(lines))


def print_line(text: str) -> None:
    """One line of an answer."""
    sys.stdout.write(visible(text) + "\n")


def print_file(text: str) -> None:
    """A text that a file is made of: as it is, unless people read it."""
    sys.stdout.write((visible(text) if sys.stdout.isatty() else text) + "\n")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table; cells that hold a stage or state are coloured on a terminal."""
    from rich.table import Table  # not for --help and JSON
    from rich.text import Text

    console = _console()
    drawn = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        # Text, not markup: names and errors may hold square brackets
        styles = [_STYLES.get(cell.partition(" ")[0].rstrip(","), "") for cell in row]
        drawn.add_row(*(Text(visible(cell), style=style) for cell, style in zip(row, styles, strict=True)))
    console.print(drawn)


def _console() -> Console:
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=200)  # a pipe has no width; lines are not to be broken for one


def tasks_table(answer: Answer) -> None:
    """`query-status` of all tasks."""
    if not answer["tasks"]:
        print_line("no tasks; start one with `dmctl start-task <file>`")
        return
    rows = [(task["taskName"], task["taskStatus"], ", ".join(task["sources"])) for task in answer["tasks"]]
    table("", ("task", "status", "sources"), rows)


STATUS_COLUMNS = ("task", "source", "stage", "unit", "progress", "position", "rows/s", "lag", "synced", "relay")


def status_table(answer: Answer) -> None:
    """`query-status` of one task; on a narrow terminal positions and relays are lines below."""
    rows: list[Sequence[str]] = []
    for source in answer["sources"]:
        name = source["sourceStatus"]["source"]
        relay = source["sourceStatus"]["relayStatus"]
        for subtask in source["subTaskStatus"]:
            rows.append(
                (
                    subtask["name"], name, stage_text(subtask), subtask["unit"], *progress_cells(subtask),
                    "-" if relay is None else relay["stage"],
                )
            )  # fmt: skip
    columns, kept, moved = _narrowed(rows)
    table("", columns, kept)
    for line in (*moved, *load_lines(answer), *remarks_of(answer), *compared_of(answer)):
        print_line(line)


def _narrowed(rows: Sequence[Sequence[str]]) -> tuple[Sequence[str], Sequence[Sequence[str]], list[str]]:
    """Columns and rows that fit the width, and lines that say the rest."""
    columns, lines = list(STATUS_COLUMNS), list[str]()
    kept = [list(row) for row in rows]
    for name, words in (("position", "{0} on {1}: at {cell}"), ("relay", "relay of {1}: {cell}")):
        if _natural_width(columns, kept) <= _console().width:
            break
        at = columns.index(name)
        del columns[at]
        for row in kept:
            cell = row.pop(at)
            if cell not in ("", "-"):
                lines.append(words.format(row[0], row[1], cell=cell))
    return columns, kept, list(dict.fromkeys(lines))


def _natural_width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    widths = [max(len(visible(cell)) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    return sum(widths) + _BETWEEN * (len(widths) - 1)


def sources_table(answer: Answer) -> None:
    """`operate-source` of any kind."""
    if not answer["sources"]:
        print_line("no sources; add one with `dmctl operate-source create <file>`")
        return
    rows: list[Sequence[str]] = []
    for source in answer["sources"]:
        server = source.get("from")
        relay = source.get("relayStatus")
        rows.append(
            (
                source["source"],
                f"{server['user']}@{server['host']}:{server['port']}" if server else "",
                relay["stage"] if relay else "-",
                ", ".join(source.get("tasks", [])),
            )
        )
    table("", ("source", "server", "relay", "tasks"), rows)
    for source in answer["sources"]:
        if source.get("relayStatus") is not None:
            for line in relay_remarks(source["source"], source["relayStatus"]):
                print_line(line)


def check_table(answer: Answer) -> None:
    """`check-task`, and a start that failed its checks. Findings of one item at one place are numbered."""
    rows: list[Sequence[str]] = []
    fixes: list[str] = []
    alike = Counter((result["name"], result["extra"]) for result in answer["results"] if result["instruction"])
    numbers: Counter[tuple[str, str]] = Counter()
    for result in answer["results"]:
        text = "; ".join(error["short_error"] for error in result["errors"]) or result["desc"]
        if result["instruction"]:
            heading = f"to fix {result['name']} of {result['extra']}"
            if alike[place := (result["name"], result["extra"])] > 1:
                numbers[place] += 1
                text, heading = f"({numbers[place]}) {text}", f"{heading} ({numbers[place]})"
            fixes += [f"{heading}:", f"  {result['instruction']}"]
        rows.append((result["state"], result["name"], result["extra"], text))
    heads = ("state", "item", "where", "finding")
    if _natural_width(heads, rows) <= _console().width:
        table("", heads, rows)
    else:
        _checks_as_lines(rows, _console().width)
    for line in fixes:  # below the table, whose cells are folded: a statement must be fit to be copied
        print_line(line)
    counts = answer["summary"]
    print_line(
        f"{counted(counts['total'], 'check')}: {counts['successful']} passed, {counted(counts['warning'], 'warning')}, "
        f"{counts['failed']} failed"
    )


def failed_checks(report: ErrorReport, answer: Answer) -> None:
    """A start that failed its checks: the table names each with what fixes it, so the error says no more of them."""
    check_table(answer)
    failed = int(answer["summary"]["failed"])
    say(f"Error {report['ErrCode']}: not started, since {failed} check{'' if failed == 1 else 's'} failed")


def _checks_as_lines(rows: Sequence[Sequence[str]], width: int) -> None:
    """A check in a line, a longer finding below it, folded between words."""
    item_width = max(len(row[1]) for row in rows)
    for state, item, where, finding in rows:
        head = f"{state:<7}  {item:<{item_width}}  {where}"
        if len(head) + len(finding) + _BETWEEN <= width:
            print_line(f"{head}  {finding}".rstrip())
            continue
        print_line(head)
        for line in wrap(finding, max(20, width - 4), break_on_hyphens=False):
            print_line(f"    {line}")


def final_places(answer: Answer) -> None:
    """`stop-task`: where each subtask is, and where a task in the other direction begins."""
    stages_table(answer)
    targets: list[str] = []
    for source in answer["sources"]:
        subject = f"{answer['taskName']} on {source['source']}"
        if source.get("placeProblem"):
            print_line(f"{subject}: the target can't be asked where the task is: {source['placeProblem']}")
        if source.get("syncerBinlog"):
            gtids = source.get("syncerBinlogGtid") or "none"
            print_line(f"{subject}: stopped at {source['syncerBinlog']}, GTID set {gtids}")
        if source.get("appliedUpTo"):
            print_line(f"{subject}: a run was killed: changes up to {source['appliedUpTo']} may be applied as well")
        if source.get("progressRemoved"):
            print_line(f"{subject}: its progress is removed")
        if source.get("targetBinlog"):
            gtids = source.get("targetBinlogGtid") or "none"
            targets.append(f"target {source['target']}: its binlog ends at {source['targetBinlog']}, GTID set {gtids}")
    if targets:
        print_line(targets[-1])  # read last: it is past everything of all sources


def stages_table(answer: Answer) -> None:
    """What became of a task's subtasks."""
    rows = [(answer["taskName"], source["source"], source.get("stage", "started")) for source in answer["sources"]]
    table("", ("task", "source", "stage"), rows)


def not_at_work(answer: Answer) -> None:
    """Which subtasks that were set to work are not, why, and whether they will try again."""
    for source in answer["sources"]:
        if not source["result"]:
            print_error(source["error"]) if "error" in source else say(source["msg"])
        if source.get("detail"):
            say(f"{answer['taskName']} on {source['source']}: {source['detail']}")
