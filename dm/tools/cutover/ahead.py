"""What is known of the proof and of the switch before a cut-over begins: what it would say, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing

from dm.config import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.ident import Ident, TableName
from dm.progress.compared import read_compared
from dm.progress.tables import SubtaskKey
from dm.rules import TableRules
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, connect, fetch
from dm.text import counted
from dm.tools.cutover.findings import Finding
from dm.tools.diff.kept_rows import why_not_compared


def proof_findings(
    subtasks: Sequence[SubtaskConfig], tables: Mapping[str, Sequence[TableName]], prove: str, now: float
) -> list[Finding]:
    """Tables that can't be compared, and what the last comparisons have found.

    `tables` of the task, by source; `now` in seconds since the epoch.
    """
    if prove == "none":
        return []
    found = [finding for one in subtasks for finding in _not_compared(one, tables.get(one.source_id, ()))]
    return [*found, *_last_comparison(subtasks[0], now)]


def _not_compared(config: SubtaskConfig, tables: Sequence[TableName]) -> list[Finding]:
    rules = TableRules(config)
    reasons = [why for table in tables if (why := why_not_compared(rules, table))]
    mend = "--prove none; `dmctl diff` compares the other tables"
    return [Finding(f"source {config.source_id}", f"the rows can't be compared: {why}", mend) for why in reasons]


def _last_comparison(config: SubtaskConfig, now: float) -> list[Finding]:
    key = SubtaskKey(config.meta_schema, config.task, config.source_id)
    with closing(TargetConnection(config.target)) as connection:
        records = [each for each in read_compared(connection, key) if not each["partly"]]
    if not records:
        says = "no comparison of all rows is recorded"
        return [Finding("target", says, f"dmctl diff {config.task}", stops=False)]
    runs: dict[int, int] = {}  # the end of each comparison by its beginning: tables of one run share it
    for each in records:
        began, ended = int(str(each["began"])), int(str(each["ended"]))
        runs[began] = max(ended, runs.get(began, 0))
    found, different = [], [str(each["table"]) for each in records if each["verdict"] != "equal"]
    if different:
        says = f"the last comparison has found differences: {', '.join(different)}"
        found.append(Finding("target", says, f"dmctl diff {config.task}", stops=False))
    seconds, ago = sum(ended - began for began, ended in runs.items()), max(0, round(now - min(runs)))
    says = f"comparing all rows of {counted(len(records), 'table')} took {seconds} s, {ago} s ago"
    return [*found, Finding("target", says, "", stops=False)]


def told_seconds(seconds: float | None, prove: str) -> Finding:
    """How long a comparison of all rows takes, as a sample of them has told; None where it took too long itself."""
    if seconds is None:
        says = "how long a comparison of all rows takes is not known: to compare some of them took too long"
        return Finding("target", says, "", stops=False)
    says, mend = (
        f"comparing all rows takes about {seconds:.{0 if seconds >= 10 else 1}f} s",
        f"so long nobody writes with --prove {prove}",
    )
    return Finding("target", says, f"{mend}; --prove recent compares before", stops=False)


def counter_findings(config: SubtaskConfig, tables: Sequence[TableName]) -> list[Finding]:
    """Tables whose next AUTO_INCREMENT value is a used one: the source has given it to a row that was deleted since.

    A table whose rows go to several has one number for all of them: nothing tells which of them a deleted one was of.
    """
    rules, found = TableRules(config), []
    at_target = {table: rules.route(table) for table in tables if rules.scattered(table) is None}
    with closing(connect(config.source.endpoint)) as source:
        ours = _counters(source, tables)
        with closing(connect(config.target, role="target")) as target:
            theirs = _counters(target, at_target.values())
        for table in sorted(at_target.keys() & ours.keys()):
            routed, next_id = at_target[table], ours[table]
            if theirs.get(routed, next_id) < next_id and _highest(source, table) + 1 < next_id:
                says = f"{routed} would give AUTO_INCREMENT values that {table} has used: it is at {theirs[routed]}"
                change = f"ALTER TABLE {routed.sql} AUTO_INCREMENT = {next_id}"
                mend = f"{change} (at {config.target.address}, before the switch)"
                found.append(Finding("target", says, mend, stops=False))
    return found


@reads_answers
def _counters(connection: Connection, tables: Iterable[TableName]) -> dict[TableName, int]:
    """Of the schemas of these tables: a server reads the counter of each table that it is asked for."""
    schemas = sorted({table.schema for table in tables})
    if not schemas:
        return {}
    if fetch(connection, "SHOW VARIABLES LIKE 'information_schema_stats_expiry'"):
        fetch(connection, "SET SESSION information_schema_stats_expiry = 0")  # else MySQL's may be a day old
    rows = fetch(
        connection,
        "SELECT table_schema, table_name, auto_increment FROM information_schema.tables"
        f" WHERE auto_increment IS NOT NULL AND table_schema IN ({', '.join(['%s'] * len(schemas))})",
        schemas,
    )
    return {TableName(str(schema), str(table)): int(next_id) for schema, table, next_id in rows}


@reads_answers
def _highest(connection: Connection, table: TableName) -> int:
    rows = fetch(
        connection,
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s AND extra LIKE '%%auto_increment%%'",
        table,
    )
    if not rows:
        return 0
    ((highest,),) = fetch(connection, f"SELECT MAX({Ident(str(rows[0][0])).sql}) FROM {table.sql}")
    return int(highest or 0)
