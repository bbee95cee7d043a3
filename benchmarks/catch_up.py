"""Catching up: a workload that is in the relay already goes to a target; rows per second from start to end.

Ours has its defaults and what users have on: progress rows, safe mode where it is due, an event filter, a route, every
checksum. Its time runs from the start of the unit (its connections, the takeover of its progress and the reading of
structures included) to when the last row is committed. The peer is the target itself as a replica of the source, with
its relay log fetched before the clock starts, with one worker and with four; one of
the two that is far behind the other in the first round has no further ones. It is the same target for all of them.

`measure_apart` gives the client a processor of its own, as a host of its own would: the target has another, also where
it is the replica.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.measure import Comparison, RunPython, Series, apart, in_turn, run_python, server_seconds
from benchmarks.pull import pull_ours
from benchmarks.recording import SCHEMA, TARGET_OPTIONS, Recording, create_table
from dm.config.references import StartPoint
from dm.config.rules import FilterRule, RouteRule
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON
from tests.testbed.sync import subtask_for, wait_until

GOALS = {"A": 4.0, "B": 0.75, "C": 1.0, "H": 4.0}
GOALS_APART = {"A": 6.0, "B": 1.0, "C": 1.4, "H": 4.5}
_REPLICA_WORKERS = (1, 4)
_REPLICA_SECONDS = 900
_FAR_BEHIND = 0.7  # a replica that had less of the other's rate in the first round has no further ones
_TASK = "bench"
TARGET_SCHEMA = "bench_target"
_FILTER = FilterRule(name="bench", schema_pattern=SCHEMA, events=("truncate table",), action="Ignore")


def measure(
    source: ThrowawayServer, target: ThrowawayServer, recording: Recording, rounds: int, row_format: str = "auto"
) -> Comparison:
    """Ours, and the replica with each number of workers, in each round, in turn; the better replica counts.

    `row_format` is ours: with `sql` no row goes as an event, and the line says so.
    """
    rate = "rows per second"
    ours = Series("dm", rate)
    replicas = {workers: Series(f"replica, {workers} worker(s)", rate) for workers in _REPLICA_WORKERS}
    costs: dict[str, list[dict[str, float]]] = {"dm": [], **{series.name: [] for series in replicas.values()}}
    left_out: dict[str, JSON] = {}
    forms = set[str]()
    name = recording.workload.name
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as directory:
        relay = Path(directory) / "relay"
        pull_ours(source, recording, relay)
        for number in range(rounds):
            for workers in in_turn((0, *replicas), number):
                if workers == 0:
                    series = ours
                    work = Path(directory) / f"ours-{number}"
                    seconds, cost = run_ours(source, target, recording, work, relay, forms=forms, row_format=row_format)
                else:
                    series = replicas[workers]
                    seconds, cost = run_replica(source, target, recording, workers)
                series.values.append(recording.rows / seconds)
                costs[series.name].append(cost)
            best = max(replicas.values(), key=lambda series: series.median)
            for workers, series in tuple(replicas.items()):
                if number == 0 and series.median < _FAR_BEHIND * best.median:
                    left_out[series.name] = round(series.median)
                    del replicas[workers]
    _begin_anew(target, recording)  # which stops the replica
    per_row: dict[str, JSON] = {name: [dict(cost) for cost in each] for name, each in costs.items()}
    notes: dict[str, JSON] = {
        "microseconds": per_row,
        "row-format": row_format,
        "rows went as": list[JSON](sorted(forms)),
        "one round only, rows per second": left_out,
    }
    chosen = "" if row_format == "auto" else f", row-format: {row_format}"
    what = f"catch-up {name}{chosen}, {share_of(costs['dm'])}"
    return Comparison(f"catch-up.{name}", what, ours, best, GOALS[name], notes=notes)


def measure_apart(source: ThrowawayServer, target: ThrowawayServer, recording: Recording, rounds: int) -> Comparison:
    """The same with a processor each."""
    with apart(source.pid, target.pid):
        return measure(source, target, recording, rounds).apart(GOALS_APART[recording.workload.name])


def share_of(costs: Sequence[Mapping[str, float]]) -> str:
    """Which share of the rows went as row events, in words."""
    return f"{100 * statistics.median(cost['as events'] for cost in costs):.0f} % as row events"


def _forms(tables: JSON) -> Iterator[str]:
    for entry in tables if isinstance(tables, list) else ():
        if isinstance(entry, dict) and entry.get("rowFormat"):
            yield " ".join(filter(None, (str(entry["rowFormat"]), str(entry["rowFormatReason"]))))


def _per_row(seconds: float, recording: Recording) -> float:
    return round(seconds * 1e6 / recording.rows, 2)


def target_server(directory: Path) -> ThrowawayServer:
    """The target of all runs of a recording, ours and the peer's."""
    return ThrowawayServer("mysql", directory / "target", server_id=72, options=TARGET_OPTIONS)


def _begin_anew(target: ThrowawayServer, recording: Recording) -> None:
    """Nothing is left of an earlier run, and the table is as it is before the workload."""
    target.execute(
        "STOP REPLICA",
        "RESET REPLICA ALL",
        *(f"DROP DATABASE IF EXISTS {schema}" for schema in (SCHEMA, TARGET_SCHEMA, f"meta_{_TASK}")),
        "RESET BINARY LOGS AND GTIDS",
    )
    create_table(target, recording.workload, recording.table, recording.scale_rows)


def run_ours(
    source: ThrowawayServer,
    target: ThrowawayServer,
    recording: Recording,
    work: Path,
    relay: Path,
    run: RunPython = run_python,
    forms: set[str] | None = None,
    row_format: str = "auto",
) -> tuple[float, dict[str, float]]:
    """One run from the start: its seconds, the microseconds per row of dm and of the target, and the share of the rows
    sent that went as row events.

    `forms` is told in which form the rows went, and why not as events.
    """
    _begin_anew(target, recording)
    # The route leads elsewhere; the tables are made under the name that the workload knows and moved.
    target.execute(
        f"CREATE DATABASE {TARGET_SCHEMA}",
        f"RENAME TABLE {SCHEMA}.{recording.table} TO {TARGET_SCHEMA}.{recording.table}",
    )
    subtask = subtask_for(
        source,
        target,
        SCHEMA,
        task=_TASK,
        routes=(RouteRule(name="bench", schema_pattern=SCHEMA, target_schema=TARGET_SCHEMA),),
        meta=StartPoint(binlog_name=recording.file, binlog_pos=4),
        workers=16,
        row_format=row_format,
    ).model_copy(update={"filters": (_FILTER,)})
    before = server_seconds(target)
    answer = run(
        "benchmarks.catch_up_ours",
        {
            "subtask": subtask.to_wire(),
            "relay": str(relay),
            "work": str(work),
            "rows": recording.rows,
        },
    )
    assert isinstance(answer, dict)
    if forms is not None:
        forms |= set(_forms(answer["forms"]))
    server = server_seconds(target) - before
    _compare(source, target, recording, TARGET_SCHEMA)
    cost = {
        "client": _per_row(float(str(answer["cpu"])), recording),
        "server": _per_row(server, recording),
        "as events": round(float(str(answer["as events"])), 3),
    }
    return float(str(answer["seconds"])), cost


def run_replica(
    source: ThrowawayServer, target: ThrowawayServer, recording: Recording, workers: int
) -> tuple[float, dict[str, float]]:
    """One run of the target as a replica: its seconds, and the microseconds per row of the server."""
    _begin_anew(target, recording)
    target.execute(
        "RESET BINARY LOGS AND GTIDS",
        f"SET GLOBAL gtid_purged = '{recording.gtids_before}'",
        f"SET GLOBAL replica_parallel_workers = {workers}",
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{source.host}', SOURCE_PORT = {source.port},"
        f" SOURCE_USER = '{source.user}', SOURCE_PASSWORD = '{source.password}', SOURCE_AUTO_POSITION = 1,"
        " GET_SOURCE_PUBLIC_KEY = 1",
        "START REPLICA IO_THREAD",
    )
    wait_until(lambda: _fetched(target, recording), "the replica's relay log", _REPLICA_SECONDS)
    before = server_seconds(target)
    began = time.monotonic()
    target.execute("START REPLICA SQL_THREAD")
    found = target.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{recording.gtids_after}', {_REPLICA_SECONDS})")
    seconds = time.monotonic() - began
    if found != ((0,),):
        raise RuntimeError(f"the replica did not catch up: {target.query('SHOW REPLICA STATUS')}")
    server = server_seconds(target) - before
    _compare(source, target, recording, SCHEMA)
    cost = {"server": _per_row(server, recording)}
    return seconds, cost


def _fetched(target: ThrowawayServer, recording: Recording) -> bool:
    question = "SELECT GTID_SUBSET(%s, CONCAT(@@GLOBAL.gtid_executed, ',', received_transaction_set))"
    status = " FROM performance_schema.replication_connection_status"
    rows = target.query(question + status, (recording.gtids_after,))
    return bool(rows and rows[0][0])


def _compare(source: ThrowawayServer, target: ThrowawayServer, recording: Recording, schema: str) -> None:
    one = source.query(f"CHECKSUM TABLE {SCHEMA}.{recording.table}")[0][1]
    other = target.query(f"CHECKSUM TABLE {schema}.{recording.table}")[0][1]
    if one != other or one is None:
        raise RuntimeError(f"workload {recording.workload.name}: the tables differ, checksums {one} and {other}")
