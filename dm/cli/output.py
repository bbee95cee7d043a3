"""What `dmctl` prints: DM's JSON on request, else tables for people. Errors always go to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from textwrap import wrap
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dm.errors import ErrorReport

Answer = Mapping[str, Any]


class Format(StrEnum):
    """How answers are printed."""

    table = "table"
    json = "json"


_STYLES = {
    "Running": "green", "Finished": "green", "success": "green", "Paused": "yellow", "warn": "yellow",
    "fail": "red", "Stopped": "dim", "New": "dim",
}  # fmt: skip


_BETWEEN = 2  # spaces between two columns
_LONGEST_STATEMENT = 160  # that a line shows of a DDL

# Of the time shares, those that say who works: the others wait for them.
_BUSY = {
    "readerWorks": "reader", "dispatcherWorks": "dispatcher", "dispatcherRunsDdl": "DDL",
    "lanesBusy": "target sessions",
}  # fmt: skip


def print_json(answer: Answer) -> None:
    """The answer as it came."""
    sys.stdout.write(json.dumps(answer, indent=4, ensure_ascii=False) + "\n")


def say(text: str) -> None:
    """A remark that is no part of the answer."""
    sys.stderr.write(text + "\n")


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
    sys.stdout.write(text + "\n")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table; cells that hold a stage or state are coloured on a terminal."""
    console = _console()
    drawn = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        # Text, not markup: names and errors may hold square brackets
        drawn.add_row(*(Text(cell, style=_STYLES.get(cell.partition(" ")[0], "")) for cell in row))
    console.print(drawn)


def _console() -> Console:
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
                    subtask["name"], name, subtask["stage"], subtask["unit"], *_progress(subtask),
                    "-" if relay is None else relay["stage"],
                )
            )  # fmt: skip
    columns, kept, moved = _narrowed(rows)
    table("", columns, kept)
    for line in (*moved, *_loads(answer), *remarks_of(answer)):
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
    widths = [max(len(cell) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    return sum(widths) + _BETWEEN * (len(widths) - 1)


def remarks_of(answer: Answer) -> list[str]:
    """What has to be said of a task besides its numbers: errors, waits, what a person can do."""
    remarks: list[str] = []
    for source in answer["sources"]:
        name = source["sourceStatus"]["source"]
        relay = source["sourceStatus"]["relayStatus"]
        for subtask in source["subTaskStatus"]:
            subject = f"{subtask['name']} on {name}"
            remarks += _remarks(subject, subtask["result"], f"dmctl resume-task {subtask['name']}")
            remarks += _waits(subject, subtask)
            remarks += _ddl(subject, subtask)
            remarks += _catching_up(subject, subtask)
            if subtask.get("until") and subtask["stage"] != "Finished":
                remarks.append(f"{subject}: ends at {subtask['until']}")
            remarks += _undecided(subject, subtask.get("sync"))
            if relay is None:
                remarks += _reads_standby(subject, subtask.get("sync"))
        if relay is not None:
            remarks += _relay_remarks(name, relay)
    return remarks


def _relay_remarks(source: str, relay: Answer) -> list[str]:
    resume = f"dmctl resume-relay -s {source}"
    remarks = _remarks(f"relay of {source}", relay["result"], resume)
    remarks += _reads_standby(f"relay of {source}", relay)
    if relay["stage"] == "Paused" and (relay["result"] or {}).get("errors"):
        remarks.append(f"relay of {source}: paused by the error; go on with `{resume}`")
    return remarks


def in_error(answer: Answer) -> bool:
    """Whether a subtask of `query-status`, or a relay that it reads, rests on an error."""
    for source in answer["sources"]:
        for one in (source["sourceStatus"]["relayStatus"], *source["subTaskStatus"]):
            if one is not None and one["stage"] == "Paused" and (one["result"] or {}).get("errors"):
                return True
    return False


def errors_of(source: str, subtask: Answer) -> list[str]:
    """What went wrong with a subtask, the lines of an error together."""
    errors = (subtask["result"] or {}).get("errors") or []
    return ["\n".join(_error_lines(f"{subtask['name']} on {source}", error)) for error in errors]


def waits_of(source: str, subtask: Answer) -> list[str]:
    """What a dump or a load waits for; what a syncer waits for says the seconds and is another text each time."""
    return _waits(f"{subtask['name']} on {source}", subtask, ("dump", "load"))


def progress_lines(answer: Answer, *, tables: bool = True, times: bool = True) -> list[str]:
    """A line per subtask, and below it one for each table that is being dumped or loaded.

    Without `times` nothing changes in them by the passing of time alone.
    """
    lines: list[str] = []
    for source in answer["sources"]:
        for subtask in source["subTaskStatus"]:
            lines.append(f"{subtask['name']} on {source['sourceStatus']['source']}: {_doing(subtask, times=times)}")
            part = subtask.get("dump") or subtask.get("load") or {}
            if tables and subtask["stage"] == "Running":
                lines += [f"  {entry['table']}: {_amounts(entry)}" for entry in part.get("tables", [])]
    return lines


def _loads(answer: Answer) -> list[str]:
    """Of `progress_lines` those of subtasks that dump or load."""
    working = [
        {**source, "subTaskStatus": [one for one in source["subTaskStatus"] if _copies(one)]}
        for source in answer["sources"]
    ]
    return progress_lines({"sources": working})


def _copies(subtask: Answer) -> bool:
    part = subtask.get("dump") or subtask.get("load") or {}
    return subtask["stage"] == "Running" and "finishedRows" in part


def _doing(subtask: Answer, *, times: bool) -> str:
    text = f"{subtask['stage']} {subtask['unit']}"
    sync = subtask.get("sync")
    if sync is not None:
        lag = _seconds(sync.get("secondsBehindMaster"))
        return f"{text}, {_progress(subtask)[0]}" + (f", {lag} behind" if lag and times else "")
    part = subtask.get("dump") or subtask.get("load")
    if part is None or "finishedRows" not in part:
        return text
    phase = f" ({part['phase']})" if part.get("phase") else ""
    elapsed = _elapsed(part) if times else ""
    if not int(part["finishedRows"]) and not int(part.get("totalRows", part.get("estimateTotalRows", 0))):
        return f"{text}{elapsed}{phase}"  # nothing is known yet of how much it is
    return f"{text} {_amounts(part, times=times)}{elapsed}{phase}"


def _elapsed(part: Answer) -> str:
    """How long the full load has taken and will take yet, dump and load together."""
    if "totalElapsedSeconds" not in part:
        return ""
    text = f", {_duration(part['totalElapsedSeconds'])} so far"
    if part.get("totalEtaSeconds") is None:
        return text
    left = f"about {_duration(part['totalEtaSeconds'])} left"
    assumed = " with the load, if that takes three times as long as the dump" if part.get("totalEtaAssumed") else ""
    return f"{text}, {left}{assumed}"


def _duration(seconds: object) -> str:
    minutes, rest = divmod(int(str(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def _amounts(part: Answer, *, times: bool = True) -> str:
    """Share, rows, bytes, rate and remaining time of a unit or of one table; no time before there is one."""
    total = part.get("totalRows", part.get("estimateTotalRows", ""))
    about = "" if "totalRows" in part else "about "
    texts = [str(part["progress"])]
    if "totalTables" in part:
        texts.append(f"{part['completedTables']} of {part['totalTables']} tables")
    texts.append(f"{part['finishedRows']} of {about}{total} rows")
    texts.append(f"{int(part.get('finishedBytes', 0)) / (1 << 20):.1f} MB")
    if times and int(part.get("bps", 0)):
        texts.append(f"{int(part['bps']) / (1 << 20):.1f} MB/s")
    if times and part.get("etaSeconds") is not None and "totalElapsedSeconds" not in part:
        texts.append(f"{_duration(part['etaSeconds'])} left")
    return ", ".join(texts)


def _progress(subtask: Answer) -> tuple[str, str, str, str, str]:
    # What a unit said last stays true of its position and its totals; the rate was of that moment, and lag counts on.
    live, over = subtask["stage"] == "Running", subtask["stage"] in ("Finished", "Stopped")
    sync = subtask.get("sync")
    if sync is not None:
        return (
            f"{sync.get('totalRows', sync.get('totalEvents', 0))} rows",
            str(sync.get("syncerBinlog", "")),
            str(sync.get("recentRps", sync.get("recentTps", ""))) if live else "-",
            "-" if over else _seconds(sync.get("secondsBehindMaster")) or "-",
            "-" if over else "yes" if live and sync.get("synced") else "no",
        )
    part = subtask.get("dump") or subtask.get("load")
    if part is None:
        return "", "", "", "", ""
    rate = part.get("rowsPerSecond", part.get("rps", "")) if live else "-"
    return str(part.get("progress", "")), str(part.get("metaBinlog", "")), str(rate), "", ""


def _seconds(lag: object) -> str:
    return "" if lag is None else f"{lag} s"


def _waits(subject: str, subtask: Answer, units: Sequence[str] = ("dump", "load", "sync")) -> list[str]:
    waiting = [part.get("waiting") for part in (subtask.get(unit) for unit in units) if part]
    return [f"{subject}: waits: {what}" for what in waiting if what]


def _ddl(subject: str, subtask: Answer) -> list[str]:
    """The statement that everything behind it waits for."""
    sync = subtask.get("sync") or {}
    if subtask["stage"] != "Running" or not sync.get("blockingDDLs"):
        return []
    seconds = sync.get("blockingDDLSeconds")
    age = "" if seconds is None else f" for {seconds} s"
    return [f"{subject}: runs DDL at the target{age}: {_shortened(str(each))}" for each in sync["blockingDDLs"]]


def _shortened(statement: str) -> str:
    line = " ".join(statement.split())
    return line if len(line) <= _LONGEST_STATEMENT else line[: _LONGEST_STATEMENT - 2] + ".."


def _catching_up(subject: str, subtask: Answer) -> list[str]:
    """What a person who waits for it wants to know: what is queued, who holds the others up, what safe mode is for."""
    sync = subtask.get("sync")
    if sync is None or subtask["stage"] != "Running" or sync.get("synced"):
        return []
    lines = [f"{subject}: safe mode: {reason}" for reason in sync.get("safeMode", [])]
    shares = sync.get("timeShares")
    if shares and (int(sync.get("queuedRows", 0)) or int(sync.get("queuedTransactions", 0))):
        parts = ", ".join(f"{what} {100 * float(shares.get(name, 0)):.0f} %" for name, what in _BUSY.items())
        size = int(sync.get("queuedBytes", 0)) / (1 << 20)
        lines.append(
            f"{subject}: queued: {sync['queuedTransactions']} transactions, {sync['queuedRows']} rows,"
            f" {size:.1f} MB; busy: {parts}"
        )
    return lines


def _undecided(subject: str, sync: Answer | None) -> list[str]:
    return [
        f"{subject}: warning: XA transaction {entry['xid']} is undecided for {entry['undecidedSeconds']} s,"
        f" {entry['bytes']} bytes held since {entry['position']}: {entry['message']}"
        for entry in (sync or {}).get("undecidedXa", [])
    ]


def _reads_standby(subject: str, part: Answer | None) -> list[str]:
    if not part or not part.get("standbyInUse"):
        return []
    return [f"{subject}: reads the standby {part['sourceAddress']}; the first address fails"]


def _error_lines(subject: str, error: Answer) -> list[str]:
    lines = [f"{subject}: error {error['ErrCode']}: {error['Message']}"]
    if error["RawCause"]:
        lines.append(f"  cause: {error['RawCause']}")
    if error["Workaround"]:
        lines.append(f"  workaround: {error['Workaround']}")
    return lines


def _remarks(subject: str, result: Answer | None, resume: str) -> list[str]:
    if result is None:
        return []
    lines: list[str] = []
    for error in result["errors"] or []:
        lines += _error_lines(subject, error)
    if result["detail"]:
        lines.append(f"{subject}: {result['detail']}")
    if result["isCanceled"]:
        lines.append(f"{subject}: paused by the user; go on with `{resume}`")
    return lines


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
            for line in _relay_remarks(source["source"], source["relayStatus"]):
                print_line(line)


def purged(answer: Answer) -> None:
    """`purge-relay`: what went, and what stayed why."""
    for source in answer["sources"]:
        for file in source["removedFiles"]:
            print_line(file)
        count, size = len(source["removedFiles"]), int(source["removedBytes"])
        print_line(f"{source['source']}: {count} file{'' if count == 1 else 's'} removed, {size / (1 << 20):.1f} MB")
        if source["keptBack"]:
            print_line(f"{source['source']}: the others stay: {source['keptBack']}")


def check_table(answer: Answer) -> None:
    """`check-task`, and a start that failed its checks."""
    rows: list[Sequence[str]] = []
    fixes: list[str] = []
    for result in answer["results"]:
        text = "; ".join(error["short_error"] for error in result["errors"]) or result["desc"]
        rows.append((result["state"], result["name"], result["extra"], text))
        if result["instruction"]:
            fixes += [f"to fix {result['name']} of {result['extra']}:", f"  {result['instruction']}"]
    heads = ("state", "item", "where", "finding")
    if _natural_width(heads, rows) <= _console().width:
        table("", heads, rows)
    else:
        _checks_as_lines(rows, _console().width)
    for line in fixes:  # below the table, whose cells are folded: a statement must be fit to be copied
        print_line(line)
    counts = answer["summary"]
    print_line(
        f"{counts['total']} checks: {counts['successful']} passed, {counts['warning']} warnings, "
        f"{counts['failed']} failed"
    )


def failed_checks(report: ErrorReport, answer: Answer) -> None:
    """A start that failed its checks: the table names each with what fixes it, so the error says no more of them."""
    check_table(answer)
    failed = int(answer["summary"]["failed"])
    say(f"Error {report['ErrCode']}: not started, since {failed} check{'' if failed == 1 else 's'} failed")


def _checks_as_lines(rows: Sequence[Sequence[str]], width: int) -> None:
    """A check in a line, its finding below where that needs a person's eye, folded between words."""
    item_width = max(len(row[1]) for row in rows)
    for state, item, where, finding in rows:
        head = f"{state:<7}  {item:<{item_width}}  {where}"
        if state == "success" or len(head) + len(finding) + _BETWEEN <= width:
            print_line(f"{head}  {finding}" if len(head) + len(finding) + _BETWEEN <= width else head)
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
        if source.get("targetBinlog"):
            gtids = source.get("targetBinlogGtid") or "none"
            targets.append(f"target {source['target']}: its binlog ends at {source['targetBinlog']}, GTID set {gtids}")
    if targets:
        print_line(targets[-1])  # read last: it is behind everything of all sources


def stages_table(answer: Answer) -> None:
    """What became of a task's subtasks."""
    rows = [(answer["taskName"], source["source"], source.get("stage", "started")) for source in answer["sources"]]
    table("", ("task", "source", "stage"), rows)


def refusals(answer: Answer) -> None:
    """Which sources did not do what the others did."""
    for source in answer["sources"]:
        if not source["result"]:
            say(f"source {source['source']}: {source['msg']}")


def operators_table(answer: Answer) -> None:
    """`binlog list`."""
    rows = [
        (source["source"], one["binlogPos"], one["op"], one["state"], "; ".join(one["sqls"]))
        for source in answer["sources"]
        for one in source.get("operators", [])
    ]
    refusals(answer)
    if rows:
        table("", ("source", "position", "operation", "state", "statements"), rows)
    else:
        print_line("nothing is to be skipped, replaced or injected")


def structures(answer: Answer) -> None:
    """`binlog-schema list`: a text that a file for `binlog-schema update` can be made of."""
    for source in answer["sources"]:
        if source["result"]:
            print_line(f"-- source {source['source']}")
            print_line(f"{source['msg']};")
