"""What is said of a task besides its table: what it does, what it waits for, what went wrong, what a person can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dm.text import counted
from dm.tools.cutover.machine import HOLDS_TASK

_NAMED: Final = 5  # tables that differ

Answer = Mapping[str, Any]

UNKNOWN = "unknown"  # a lag while the source does not answer

_LONGEST_STATEMENT = 160  # that a line shows of a DDL

# Of the time shares, those that say who works: the others wait for them.
_BUSY = {
    "readerWorks": "reader", "dispatcherWorks": "dispatcher", "dispatcherRunsDdl": "DDL",
    "lanesBusy": "target sessions",
}  # fmt: skip


def remarks_of(answer: Answer) -> list[str]:
    """What has to be said of a task besides its numbers: errors, waits, what a person can do."""
    remarks: list[str] = []
    for source in answer["sources"]:
        name = source["sourceStatus"]["source"]
        relay = source["sourceStatus"]["relayStatus"]
        for subtask in source["subTaskStatus"]:
            subject = f"{subtask['name']} on {name}"
            rests = f"paused by the user; go on with `dmctl resume-task {subtask['name']}`"
            if (answer.get("cutOver") or {}).get("state") in HOLDS_TASK:
                rests = f"rests for its cut-over: `dmctl cut-over {subtask['name']} --status`"
            remarks += _remarks(subject, subtask["result"], rests)
            remarks += _waits(subject, subtask)
            remarks += _ddl(subject, subtask)
            remarks += _groups(subject, subtask)
            remarks += _joining(subject, subtask)
            remarks += _branches(subject, subtask)
            remarks += _replay(subject, subtask)
            remarks += _heal(subject, subtask)
            remarks += _validation(subject, subtask)
            remarks += _purge(subject, subtask.get("sync") or {})
            remarks += _catching_up(subject, subtask)
            if subtask.get("until") and subtask["stage"] != "Finished":
                remarks.append(f"{subject}: ends at {subtask['until']}")
            remarks += _undecided(subject, subtask.get("sync"))
            remarks += _list_entries(subject, subtask.get("sync"))
            remarks += _out_of_order(subject, subtask.get("sync"))
            if relay is None:
                remarks += _reads_standby(subject, subtask.get("sync"))
        if relay is not None:
            remarks += relay_remarks(name, relay)
    if cut_over := answer.get("cutOver"):
        why = cut_over["why"] or cut_over["problem"]
        remarks.append(f"cut-over: {cut_over['state']}{f': {why}' if why else ''}")
    return remarks


def relay_remarks(source: str, relay: Answer) -> list[str]:
    resume = f"dmctl resume-relay -s {source}"
    remarks = _remarks(f"relay of {source}", relay["result"], f"paused by the user; go on with `{resume}`")
    remarks += _reads_standby(f"relay of {source}", relay)
    remarks += _purge(f"relay of {source}", relay)
    oldest = relay.get("binlogOldest")
    if oldest and not relay["relayCatchUpMaster"] and relay["relayBinlog"].startswith(f"({oldest},"):
        remarks.append(
            f"relay of {source}: it reads {oldest}, the oldest file that the source has: a purge may overtake it"
        )
    if relay["stage"] == "Paused" and (relay["result"] or {}).get("errors"):
        remarks.append(f"relay of {source}: paused by the error; go on with `{resume}`")
    return remarks


def in_error(answer: Answer) -> bool:
    """Whether a subtask of `query-status`, what joins it, or a relay that it reads, rests on an error."""
    for source in answer["sources"]:
        joining = [subtask.get("joining") for subtask in source["subTaskStatus"]]
        branches = [one for subtask in source["subTaskStatus"] for one in subtask.get("branches") or []]
        if any(one["phase"] == "aside" and one["error"] for one in branches):
            return True
        joining += branches
        for one in (source["sourceStatus"]["relayStatus"], *source["subTaskStatus"], *joining):
            if one is not None and one.get("stage") == "Paused" and (one["result"] or {}).get("errors"):
                return True
    return False


def errors_of(source: str, subtask: Answer) -> list[str]:
    """What went wrong with a subtask, the lines of an error together."""
    errors = (subtask["result"] or {}).get("errors") or []
    return ["\n".join(error_lines(f"{subtask['name']} on {source}", error)) for error in errors]


def waits_of(source: str, subtask: Answer) -> list[str]:
    """What a subtask waits for before it works, and a dump or a load; a syncer's waits are another text each time."""
    subject, result = f"{subtask['name']} on {source}", subtask["result"] or {}
    before = [f"{subject}: {result['detail']}"] if subtask["stage"] == "Running" and result.get("detail") else []
    return [*before, *_waits(subject, subtask, ("dump", "load"))]


def relay_errors(source: str, relay: Answer | None) -> list[str]:
    """What went wrong with a relay, the lines of an error together."""
    errors = ((relay or {}).get("result") or {}).get("errors") or []
    return ["\n".join(error_lines(f"relay of {source}", error)) for error in errors]


def progress_lines(answer: Answer, *, tables: bool = True, times: bool = True, place: bool = False) -> list[str]:
    """A line per subtask, and below it one for each table that is being dumped or loaded.

    Without `times` nothing changes in them by the passing of time alone. With `place` a syncer's rate and position are
    there, too.
    """
    lines: list[str] = []
    for source in answer["sources"]:
        for subtask in source["subTaskStatus"]:
            doing = _doing(subtask, times=times, place=place)
            lines.append(f"{subtask['name']} on {source['sourceStatus']['source']}: {doing}")
            part = subtask.get("dump") or subtask.get("load") or {}
            if tables and subtask["stage"] == "Running":
                lines += [f"  {entry['table']}: {_amounts(entry)}" for entry in part.get("tables", [])]
    return lines


def load_lines(answer: Answer) -> list[str]:
    """Of `progress_lines` those of subtasks that dump or load."""
    working = [
        {**source, "subTaskStatus": [one for one in source["subTaskStatus"] if _copies(one)]}
        for source in answer["sources"]
    ]
    return progress_lines({"sources": working})


def _copies(subtask: Answer) -> bool:
    part = subtask.get("dump") or subtask.get("load") or {}
    return subtask["stage"] == "Running" and "finishedRows" in part


def _doing(subtask: Answer, *, times: bool, place: bool) -> str:
    text = f"{subtask['stage']} {subtask['unit']}"
    sync = subtask.get("sync")
    if sync is not None:
        rows, position, rate, lag, _ = progress_cells(subtask)
        texts = [text, rows]
        if place and times and rate not in ("", "-"):
            texts.append(f"{rate} rows/s")
        if times and lag != "-":
            texts.append("lag unknown" if lag == UNKNOWN else f"{lag} behind")
        return ", ".join([*texts, f"at {position}"] if place and position else texts)
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


def progress_cells(subtask: Answer) -> tuple[str, str, str, str, str]:
    # What a unit said last stays true of its position and its totals; the rate was of that moment, and lag counts on.
    live, over = subtask["stage"] == "Running", subtask["stage"] in ("Finished", "Stopped")
    sync = subtask.get("sync")
    if sync is not None:
        return (
            counted(int(sync.get("totalRows", sync.get("totalEvents", 0))), "row"),
            str(sync.get("syncerBinlog", "")),
            str(sync.get("recentRps", sync.get("recentTps", ""))) if live else "-",
            "-" if over else _lag(sync, live=live),
            "-" if over else "yes" if live and sync.get("synced") else "no",
        )
    part = subtask.get("dump") or subtask.get("load")
    if part is None:
        return "", "", "", "", ""
    rate = part.get("rowsPerSecond", part.get("rps", "")) if live else "-"
    return str(part.get("progress", "")), str(part.get("metaBinlog", "")), str(rate), "", ""


def _lag(sync: Answer, *, live: bool) -> str:
    if sync.get("secondsBehindMaster") is not None:
        return f"{sync['secondsBehindMaster']} s"
    return UNKNOWN if live and "secondsBehindMaster" in sync else "-"  # before it has begun, nobody asks


def stage_text(subtask: Answer) -> str:
    """Its stage, and that of the relay that keeps it from getting on."""
    return f"{subtask['stage']}, relay Paused" if subtask.get("relayRests") else str(subtask["stage"])


def _waits(subject: str, subtask: Answer, units: Sequence[str] = ("dump", "load", "sync")) -> list[str]:
    if subtask["stage"] != "Running":
        return []  # what it waited for before it was paused
    waiting = [part.get("waiting") for part in (subtask.get(unit) for unit in units) if part]
    return [f"{subject}: waits: {what}" for what in waiting if what]


def _ddl(subject: str, subtask: Answer) -> list[str]:
    """The statement that everything after it waits for."""
    sync = subtask.get("sync") or {}
    if subtask["stage"] != "Running" or not sync.get("blockingDDLs") or sync.get("unresolvedGroups"):
        return []
    seconds = sync.get("blockingDDLSeconds")
    age = "" if seconds is None else f" for {seconds} s"
    return [f"{subject}: runs DDL at the target{age}: {_shortened(str(each))}" for each in sync["blockingDDLs"]]


def _groups(subject: str, subtask: Answer) -> list[str]:
    """Which shards wait for which others, and since when."""
    if subtask["stage"] != "Running":
        return []
    lines = []
    for group in (subtask.get("sync") or {}).get("unresolvedGroups") or []:
        who = ", ".join([*group["unsynced"], *group.get("othersUnsynced", [])])
        unheard = not group.get("executed") and group.get("sourcesMissing", True)
        who = who or ("sources that have not run yet" if unheard else "its second pass")
        what = _shortened("; ".join(group["DDLs"])) or "a structure that the target does not have yet"
        lines.append(
            f"{subject}: shards of {group['target']} wait since {group.get('since', '?')} for {who}: {what};"
            f" their rows from {group['firstLocation']} on come then"
        )
    return lines


def _branches(subject: str, subtask: Answer) -> list[str]:
    """Which tables have left the task's stream, why, and what to do."""
    lines = []
    for branch in subtask.get("branches") or []:
        tables, phase, name = ", ".join(branch["tables"]), branch["phase"], subtask["name"]
        if phase == "dropped":
            lines.append(f"{subject}: {tables}: migrated no longer")
            continue
        lines.append(f"{subject}: {tables}: {phase} since {branch['since']}; transactions with other tables are cut")
        if phase == "aside":
            if branch["error"]:
                lines.append(f"  {branch['error']['ErrCode']}: {branch['error']['Message']}")
            lines.append(
                f"  `dmctl table list {name}` has more, `dmctl table release {name} DB.TABLE` lets it come back"
            )
        lines += _remarks(f"{subject}: {tables}", branch.get("result"), f"it goes on with `dmctl resume-task {name}`")
    return lines


def _joining(subject: str, subtask: Answer) -> list[str]:
    """Which tables are loaded beside the task's stream, and how far they are."""
    joining = subtask.get("joining")
    if joining is None:
        return []
    tables = ", ".join(joining["tables"]) or "tables that the list has got"
    lines = [f"{subject}: {tables}: joining, {joining['phase']}"]
    if joining.get("unit"):
        lines[0] += f", {joining['unit']} {joining.get('progress', '')}".rstrip()
    if joining.get("waiting"):
        lines[0] += f"; waits: {joining['waiting']}"
    rests = f"paused by the user; go on with `dmctl resume-task {subtask['name']}`"
    return lines + _remarks(f"{subject}: joining", joining.get("result"), rests)


def _validation(subject: str, subtask: Answer) -> list[str]:
    """Why a validator rests that does not go on by itself, and how many rows it has found wrong."""
    validation = subtask.get("validation")
    if validation is None:
        return []
    name, result = subtask["name"], validation.get("result") or {}
    lines: list[str] = []
    if validation["stage"] == "Stopped" and not validation.get("detail") and not result.get("detail"):
        for error in result.get("errors") or []:
            lines += error_lines(f"{subject}: validator", error)
        lines.append(f"{subject}: the validator is stopped; go on with `dmctl validation start {name}`")
    if validation.get("newErrors"):
        wrong = counted(int(validation["newErrors"]), "row")
        lines.append(f"{subject}: the validator has found {wrong} wrong: `dmctl validation show-error {name}`")
    return lines


def _replay(subject: str, subtask: Answer) -> list[str]:
    """How far a replay of the backlog is, and what ended one."""
    replay = subtask.get("replay")
    if replay is None:
        return []
    if replay["error"] is not None:
        return error_lines(f"{subject}: replay", replay["error"])
    return [f"{subject}: replay: {replay_progress(replay)}"]


_NEAR: Final = 0.25  # of the time for which a source keeps its binlog


def _purge(subject: str, status: Answer) -> list[str]:
    """That the source is about to purge what is read next, as the alert has it."""
    left, kept = status.get("binlogLeftSeconds"), status.get("binlogKeptSeconds")
    if left is None or not kept or left >= _NEAR * kept:
        return []
    keeps = f"it keeps its binlog for {kept / 3600:.1f} h"
    rate = status.get("binlogBytesPerHour")
    if rate is not None:
        keeps += f", and writes {rate / (1 << 20):.0f} MB per hour"
    return [f"{subject}: in {left / 3600:.1f} h the source may purge what is read next ({keeps})"]


def _heal(subject: str, subtask: Answer) -> list[str]:
    """How far a heal is, and what ended one."""
    heal = subtask.get("heal")
    if heal is None or heal.get("dryRun"):
        return []
    if heal["error"] is not None:
        return error_lines(f"{subject}: heal", heal["error"])
    return [] if heal["ended"] else [f"{subject}: heal: {heal_progress(heal)}"]


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
            f"{subject}: queued: {counted(int(sync['queuedTransactions']), 'transaction')},"
            f" {counted(int(sync['queuedRows']), 'row')},"
            f" {size:.1f} MB; busy: {parts}"
        )
    return lines


def _out_of_order(subject: str, sync: Answer | None) -> list[str]:
    """What several sources did to each other's rows."""
    lines = []
    if sync and sync.get("keysOfTwoSources"):
        lines.append(
            f"{subject}: warning: {counted(int(sync['keysOfTwoSources']), 'change')} of keys that another source had"
            f" written, in no order with that one (`merge-order`); the last: {sync['lastKeyOfTwoSources']}"
        )
    order = (sync or {}).get("mergeOrder") or {}
    if order.get("lateTransactions"):
        late = counted(int(order["lateTransactions"]), "transaction")
        lines.append(f"{subject}: warning: {late} came after later ones of other sources (`merge-order`)")
    if order.get("withoutSources"):
        lines.append(
            f"{subject}: warning: goes on without {', '.join(order['withoutSources'])}, silent (`merge-order`)"
        )
    return lines


def _undecided(subject: str, sync: Answer | None) -> list[str]:
    return [
        f"{subject}: warning: XA transaction {entry['xid']} is undecided for {entry['undecidedSeconds']} s,"
        f" {entry['bytes']} bytes held since {entry['position']}: {entry['message']}"
        for entry in (sync or {}).get("undecidedXa", [])
    ]


def compared_of(answer: Answer) -> list[str]:
    """What `dmctl diff` has found last, a line per subtask."""
    found: list[str] = []
    for source in answer["sources"]:
        for subtask in source["subTaskStatus"]:
            found += _compared(f"{subtask['name']} on {source['sourceStatus']['source']}", subtask.get("sync"))
    return found


def _compared(subject: str, sync: Answer | None) -> list[str]:
    """Of whole tables; with the age of the oldest word of it."""
    whole = [each for each in (sync or {}).get("compared", []) if not each["partly"]]
    if not whole:
        return []
    different = [each["table"] for each in whole if each["verdict"] == "different"]
    oldest = datetime.fromtimestamp(min(each["began"] for each in whole), UTC)
    found = f"{subject}: last compared: {counted(len(whole) - len(different), 'table')} equal"
    if different:
        found += f", different: {', '.join(different[:_NAMED])}{', ..' if len(different) > _NAMED else ''}"
    return [f"{found}; since {oldest:%Y-%m-%d %H:%M:%S} UTC or later"]


def _list_entries(subject: str, sync: Answer | None) -> list[str]:
    """Names that are misspelt, or still to come."""
    entries = (sync or {}).get("listEntriesWithoutTables", [])
    return [f"{subject}: nothing at the source matches {entry} of its block-allow-list yet" for entry in entries]


def _reads_standby(subject: str, part: Answer | None) -> list[str]:
    if not part or not part.get("standbyInUse"):
        return []
    return [f"{subject}: reads the standby {part['sourceAddress']}; the first address fails"]


def error_lines(subject: str, error: Answer) -> list[str]:
    """What went wrong, why, and what to do."""
    lines = [f"{subject}: error {error['ErrCode']}: {error['Message']}"]
    if error["RawCause"]:
        lines.append(f"  cause: {error['RawCause']}")
    if error["Workaround"]:
        lines.append(f"  workaround: {error['Workaround']}")
    return lines


def _remarks(subject: str, result: Answer | None, rests: str) -> list[str]:
    if result is None:
        return []
    lines: list[str] = []
    for error in result["errors"] or []:
        lines += error_lines(subject, error)
    if result["detail"]:
        lines.append(f"{subject}: {result['detail']}")
    if result["isCanceled"]:
        lines.append(f"{subject}: {rests}")
    return lines


def replay_progress(answer: dict[str, Any]) -> str:
    """One line."""
    phase = str(answer.get("phase", "starting"))
    if phase == "reading":
        size = answer["doneBytes"] / (1 << 20)
        return f"reading: {size:.0f} of {answer['bytes'] / (1 << 20):.0f} MB, {counted(answer['changes'], 'change')}"
    if phase in ("removing", "writing"):
        return f"{phase}: {answer['doneBuckets']} of {answer['buckets']} parts, {counted(answer['applied'], 'change')}"
    return phase


def heal_progress(answer: dict[str, Any]) -> str:
    """One line."""
    phase = str(answer.get("phase", "starting"))
    if phase != "comparing rows" or not answer.get("totalChunks"):
        return phase
    left, words = answer.get("secondsLeft"), f"{phase}: {answer['doneChunks']} of {answer['totalChunks']} chunks"
    return words if left is None else f"{words}, {left:.0f} s left"
