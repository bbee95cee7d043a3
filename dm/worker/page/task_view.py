"""What the page of one task shows, from the answer of `query-status`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from dm.text import counted

_MIB: Final = 1 << 20
_STREAM_WAITS: Final = {"readerWaitsForSource": "waits for the source", "readerWaitsForMemory": "waits for memory"}
_LANES_WAIT: Final = {
    "dispatcherWaitsForReader": "wait for the stream",
    "dispatcherWaitsForLanes": "the target is the limit",
    "dispatcherRunsDdl": "wait for a DDL statement",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """A box of the pipeline: what it is, what it does or waits for, how fast."""

    name: str
    facts: Sequence[str]
    busy: float | None = None  # share of the last seconds in which it worked
    trouble: bool = False


@dataclass(slots=True)
class TableRow:
    """What is known of one table."""

    name: str
    copied: str = ""
    rows: str = ""
    ddl: str = ""
    form: str = ""
    compared: str = ""
    verdict: str = ""
    waits: str = ""


def pipeline(source: Mapping[str, Any], subtask: Mapping[str, Any], now: float) -> list[Stage]:
    """From the source to the target."""
    relay, sync = source["relayStatus"], subtask.get("sync")
    answers = subtask["sourceAnswers"]
    facts = [source["source"], _answers(answers), f"at {sync.get('masterBinlog') or '?'}" if sync else ""]
    rest = None if relay is not None else hours_left(sync or {}, now)
    if rest is not None:
        facts.append(f"keeps what is read next for {rest} more")
    stages = [Stage("Source", facts, None, trouble=answers is False)]
    if sync is None:
        part = subtask.get("dump") or subtask.get("load") or {}
        stages.append(Stage(subtask["unit"], [str(part.get("progress", "")), str(part.get("waiting") or "")]))
    else:
        shares = sync.get("timeShares") or {}
        if relay is not None:
            facts = [relay["stage"], f"at {relay['relayBinlog'] or '?'}"]
            facts.append("has all" if relay["relayCatchUpMaster"] else "is behind the source")
            stages.append(Stage("Relay", facts, None, relay["stage"] == "Paused"))
        stages += _stream(sync, shares, live=subtask["stage"] == "Running")
    stages.append(_target(subtask, sync))
    return stages


def hours_left(sync: Mapping[str, Any], now: float) -> str | None:
    """How long until the source may purge what a syncer reads next; None where nobody knows, or it never does."""
    at = sync.get("binlogPurgedAt")
    return None if at is None else f"{max(0.0, at - now) / 3600:.1f} h"


def _stream(sync: Mapping[str, Any], shares: Mapping[str, Any], *, live: bool) -> Iterator[Stage]:
    """What a run that is over had queued, and how fast it was, says nothing of now."""
    if not live:
        yield Stage("Stream", [f"at {sync.get('readBinlog') or '?'}"])
        return
    yield Stage(
        "Stream",
        [
            f"{int(sync.get('recentBytesPerSecond', 0)) / _MIB:.1f} MB/s",
            f"at {sync.get('readBinlog') or '?'}",
            _most(shares, _STREAM_WAITS),
        ],
        _share(shares, "readerWorks"),
    )
    yield Stage(
        "Lanes",
        [
            f"{sync.get('recentRps', 0)} rows/s, {sync.get('recentTps', 0)} transactions/s",
            f"queued: {counted(int(sync.get('queuedTransactions', 0)), 'transaction')},"
            f" {counted(int(sync.get('queuedRows', 0)), 'row')}",
            _most(shares, _LANES_WAIT),
        ],
        _share(shares, "lanesBusy"),
    )


def _target(subtask: Mapping[str, Any], sync: Mapping[str, Any] | None) -> Stage:
    facts = [_answers(subtask["targetAnswers"])]
    if sync is not None:
        facts.append(f"applied up to {sync.get('syncerBinlog') or '?'}")
        if sync.get("waiting"):
            facts.append(f"waits: {sync['waiting']}")
    return Stage("Target", facts, None, subtask["targetAnswers"] is False)


def _answers(said: object) -> str:
    return {True: "answers", False: "does not answer"}.get(said, "") if isinstance(said, bool) else ""


def _share(shares: Mapping[str, Any], name: str) -> float | None:
    return float(shares[name]) if name in shares else None


def _most(shares: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """What it waited for in more than half of the last seconds."""
    found = max(names, key=lambda name: float(shares.get(name, 0)))
    share = float(shares.get(found, 0))
    return f"{names[found]} ({share:.0%})" if share > 0.5 else ""


def tables(subtask: Mapping[str, Any]) -> tuple[list[TableRow], int]:
    """A row for each table of which something is known, by name, and how many the unit has not listed."""
    found: dict[str, TableRow] = {}

    def row(name: str) -> TableRow:
        return found.setdefault(name, TableRow(name))

    sync: Mapping[str, Any] = subtask.get("sync") or {}
    for part in ("dump", "load"):
        for each in (subtask.get(part) or {}).get("tables", []):
            of = each.get("totalRows", each.get("estimateTotalRows"))
            about = "" if "totalRows" in each else "about "
            row(each["table"]).copied = f"{each.get('progress', '')}, {each.get('finishedRows', 0)} of {about}{of} rows"
    for each in sync.get("tables", []):
        one = row(each["table"])
        one.rows = f"{each['inserts']} inserted, {each['updates']} updated, {each['deletes']} deleted"
        one.ddl = str(each["ddl"] or "")
        reason = each.get("rowFormatReason")
        one.form = f"{each.get('rowFormat', '')}{f': {reason}' if reason else ''}"
    for each in sync.get("compared", []):
        one = row(each["table"])
        one.verdict = f"{each['verdict']}{' (in part)' if each['partly'] else ''}"
        one.compared = f"{datetime.fromtimestamp(each['began'], UTC):%Y-%m-%d %H:%M} UTC"
    for group in sync.get("unresolvedGroups") or []:
        missing = ", ".join([*group["unsynced"], *group.get("othersUnsynced", [])])
        row(group["target"]).waits = f"shards wait for {missing or 'others'}"
    joining: Mapping[str, Any] = subtask.get("joining") or {"tables": []}
    for name in joining["tables"]:
        row(name).waits = f"joining, {joining['phase']}"
    for branch in subtask.get("branches") or []:
        for name in branch["tables"]:
            row(name).waits = f"{branch['phase']} since {branch['since']}"
    return sorted(found.values(), key=lambda one: one.name), int(sync.get("tablesNotShown", 0))


_COLUMNS: Final = {
    "name": "Table", "copied": "Copied", "rows": "Changes of this run", "ddl": "DDL", "form": "Written as",
    "verdict": "Compared", "compared": "Compared when", "waits": "Waits",
}  # fmt: skip


def columns(rows: Sequence[TableRow]) -> Mapping[str, str]:
    """The titles of those fields that some table has, by field."""
    return {field: title for field, title in _COLUMNS.items() if any(getattr(row, field) for row in rows)}


@dataclass(frozen=True, slots=True)
class ShownStatement:
    """A DDL statement, or shards that wait for one."""

    task: str
    source: str
    text: str
    when: str
    under_way: bool
    lock: str = ""  # that shards wait at


def statements(seen: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[ShownStatement]:
    """Those under way with their age, then those that ended last, the newest first."""
    running: list[ShownStatement] = []
    ended: list[tuple[float, ShownStatement]] = []
    for source, subtask in seen:
        sync, name, of = subtask.get("sync") or {}, subtask["name"], source["source"]
        live = subtask["stage"] == "Running"
        for text in (sync.get("blockingDDLs") or []) if live else []:
            age = sync.get("blockingDDLSeconds")
            running.append(ShownStatement(name, of, str(text), "" if age is None else f"for {age} s", under_way=True))
        for group in (sync.get("unresolvedGroups") or []) if live else []:
            missing = ", ".join([*group["unsynced"], *group.get("othersUnsynced", [])]) or "others"
            text = f"{group['target']}: {'; '.join(group['DDLs'])}"
            when = f"waits since {group.get('since', '?')} for {missing}"
            lock = f"{name}-{group['target']}"
            running.append(ShownStatement(name, of, text, when, under_way=True, lock=lock))
        for each in sync.get("recentDDLs") or []:
            when = f"{datetime.fromtimestamp(each['ended'], UTC):%Y-%m-%d %H:%M:%S} UTC, {each['seconds']:.1f} s"
            ended.append((each["ended"], ShownStatement(name, of, str(each["text"]), when, under_way=False)))
    ended.sort(key=lambda one: -one[0])
    return [*running, *(one for _, one in ended)]


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """A validator, or comparisons, with what it has found and what to do."""

    name: str
    found: str
    wrong: bool
    command: str


def checks(source: str, subtask: Mapping[str, Any]) -> list[CheckOutcome]:
    """What was looked at after it was applied."""
    name, found = subtask["name"], list[CheckOutcome]()
    validation = subtask.get("validation")
    if validation is not None:
        errors = int(validation.get("newErrors") or 0)
        told = f"{validation['stage']}, mode {validation['mode']}"
        if validation.get("detail"):
            told = f"{told}: {validation['detail']}"
        if errors:
            told = f"{told}; {counted(errors, 'row')} wrong"
        command = f"dmctl validation show-error {name}" if errors else f"dmctl validation status {name}"
        found.append(CheckOutcome(f"Validator on {source}", told, bool(errors), command))
    whole = [each for each in (subtask.get("sync") or {}).get("compared", []) if not each["partly"]]
    if whole:
        different = [each["table"] for each in whole if each["verdict"] == "different"]
        told = f"{counted(len(whole) - len(different), 'table')} equal, {len(different)} different"
        words = [word for table in different[:3] for word in ("--tables", table)]
        command = shlex.join(["dmctl", "diff", name, *words, *(["--fix-sql", "DIRECTORY"] if different else [])])
        found.append(CheckOutcome(f"Comparison on {source}", told, bool(different), command))
    return found
