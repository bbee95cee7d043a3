"""Catching up into a TiDB: rows per second, the CPU of dm and of TiDB per row, and the statements that TiDB got.

The relay is filled before, as in `catch_up.py`. The peer is dm itself with a row per statement (`multiple-rows: false`,
`compact: false`): what TiDB takes for a row depends on how many come by one statement. The TiDB of the tests is one
server with its store in it, so the figures are not those of a cluster.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.catch_up import TARGET_SCHEMA
from benchmarks.measure import Comparison, Series, in_turn, run_python, server_seconds
from benchmarks.pull import pull_ours
from benchmarks.recording import SCHEMA, Recording, create_table
from dm.config.references import StartPoint
from dm.config.rules import RouteRule
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.unit import JSON
from tests.testbed.sync import subtask_for
from tests.testbed.tidb import TidbServer, binary

GOAL = 1.0
WORKLOADS = ("A", "B")
_TASK = "bench_tidb"
_RATE = "rows per second"


def missing() -> str:
    """Why there is nothing to measure here; empty where TiDB is built."""
    return "" if binary().exists() else "TiDB is not built (make tidb)"


@dataclass(frozen=True, slots=True)
class _Run:
    seconds: float
    client: float  # microseconds of dm's CPU per row
    server: float  # of TiDB's
    statements: int  # on the table
    rows: float  # that one of them changed, on the average

    def told(self) -> JSON:
        return {
            "client": round(self.client, 2),
            "server": round(self.server, 2),
            "statements": self.statements,
            "rows per statement": round(self.rows, 1),
        }


def measure(source: ThrowawayServer, recording: Recording, rounds: int) -> Comparison:
    """With statements of many rows and of one, in turn."""
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as place:
        directory = Path(place)
        pull_ours(source, recording, directory / "relay")
        target = TidbServer(directory / "tidb").start()
        try:
            return _measured(source, target, recording, directory, rounds)
        finally:
            target.destroy()


def _measured(
    source: ThrowawayServer, target: TidbServer, recording: Recording, directory: Path, rounds: int
) -> Comparison:
    ours, peer = Series("dm", _RATE), Series("dm, a row per statement", _RATE)
    runs: dict[str, list[_Run]] = {ours.name: [], peer.name: []}
    for number in range(rounds):
        for series in in_turn((ours, peer), number):
            work = directory / f"{number}-{len(series.name)}"
            run = _run(source, target, recording, directory / "relay", work, many=series is ours)
            series.values.append(recording.rows / run.seconds)
            runs[series.name].append(run)
    mine = runs[ours.name]
    client, server = (statistics.median(getattr(run, name) for run in mine) for name in ("client", "server"))
    what = (
        f"catch-up {recording.workload.name} into TiDB: {client:.1f} us of dm's CPU and {server:.1f} of TiDB's per row,"
        f" {statistics.median(run.rows for run in mine):.1f} rows per statement"
    )
    notes: dict[str, JSON] = {"microseconds": {name: [run.told() for run in each] for name, each in runs.items()}}
    return Comparison(f"tidb.{recording.workload.name}", what, ours, peer, GOAL, notes=notes)


def _run(
    source: ThrowawayServer, target: TidbServer, recording: Recording, relay: Path, work: Path, *, many: bool
) -> _Run:
    target.execute(*(f"DROP DATABASE IF EXISTS {schema}" for schema in (SCHEMA, TARGET_SCHEMA, f"meta_{_TASK}")))
    create_table(target, recording.workload, recording.table, recording.scale_rows)
    target.execute(
        f"CREATE DATABASE {TARGET_SCHEMA}",
        f"RENAME TABLE {SCHEMA}.{recording.table} TO {TARGET_SCHEMA}.{recording.table}",
        "SET GLOBAL tidb_enable_stmt_summary = OFF",  # forgets what there was
        "SET GLOBAL tidb_enable_stmt_summary = ON",
    )
    subtask = subtask_for(
        source,
        target,
        SCHEMA,
        task=_TASK,
        routes=(RouteRule(name="bench", schema_pattern=SCHEMA, target_schema=TARGET_SCHEMA),),
        meta=StartPoint(binlog_name=recording.file, binlog_pos=4),
        workers=16,
        multiple_rows=many,
        compact=many,
    )
    before = server_seconds(target)
    answer = run_python(
        "benchmarks.catch_up_ours",
        {"subtask": subtask.to_wire(), "relay": str(relay), "work": str(work), "rows": recording.rows},
    )
    server = server_seconds(target) - before
    assert isinstance(answer, dict)
    if float(str(answer["as events"])):
        raise RuntimeError("rows went to TiDB as row events")
    statements, rows = _statements(target, recording.table)
    _compare(source, target, recording)
    per_row = 1e6 / recording.rows
    return _Run(float(str(answer["seconds"])), float(str(answer["cpu"])) * per_row, server * per_row, statements, rows)


def _statements(target: TidbServer, table: str) -> tuple[int, float]:
    """How many TiDB executed on the table, and how many rows each changed."""
    found = target.query(
        "SELECT exec_count, avg_affected_rows FROM information_schema.statements_summary"
        " WHERE stmt_type IN ('Insert', 'Replace', 'Update', 'Delete')"
        f" AND table_names LIKE '%{TARGET_SCHEMA}.{table}%'"
    )
    count = sum(int(executed) for executed, _ in found)
    return count, sum(int(executed) * float(rows) for executed, rows in found) / max(count, 1)


def _compare(source: ThrowawayServer, target: TidbServer, recording: Recording) -> None:
    name = TableName(SCHEMA, recording.table)

    def routed(_: object, table: TableName) -> TableName | None:
        return TableName(TARGET_SCHEMA, table.table) if table == name else None

    report = compare(pair_tables([source], [SCHEMA], routed), target, structures=False)
    if not report.identical:
        raise RuntimeError(f"workload {recording.workload.name}: {report}")
