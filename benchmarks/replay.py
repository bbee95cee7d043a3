"""A backlog: `dmctl replay` beside the syncer, over the same relay into the same target.

Both begin at a checkpoint that a short run has stored, and end with everything in the target, which `CHECKSUM TABLE`
compares with the source. The replay's time has the start of Spark in it; the notes say how much that is, and what each
step took. `--scale 42` of `benchmarks.run` is five million changes of A, `--scale 34` of H.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pymysql.constants import CLIENT

from benchmarks.catch_up import TARGET_SCHEMA
from benchmarks.measure import Comparison, Series, in_turn, run_python, server_seconds
from benchmarks.recording import SCHEMA, create_table
from benchmarks.unit_thread import run_until
from benchmarks.workload import Workload, play
from dm.config.endpoint import Endpoint
from dm.config.route import RouteRule
from dm.config.source import SourceConfig
from dm.config.start_point import StartPoint
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.position import MAGIC_SIZE, Position
from dm.relay.unit import RelayUnit
from dm.syncer.stream.until import UntilPosition
from dm.unit import JSON
from tests.testbed.sync import RunningSync, endpoint_of, subtask_for

WORKLOADS: Final = {"A": 1.0, "H": 1.5}
"""With the goals."""
_TASK: Final = "bench_replay"
_SECONDS: Final = 3600.0
_FILE: Final = 512 << 20  # bytes of a binlog file: a backlog has several


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the source has written."""

    workload: Workload
    table: str
    scale_rows: int
    rows: int
    first: str  # its first file
    begin: tuple[str, int]  # behind a first transaction, from which the task knows the table
    end: tuple[str, int]


def measure(
    source: ThrowawayServer, target: ThrowawayServer, workload: Workload, scale: float, rounds: int
) -> Comparison:
    """Both in each round, in turn."""
    backlog = _written(source, workload, scale)
    unit = "changes per second"
    ours, peer = Series("dmctl replay", unit), Series("the syncer", unit)
    notes: dict[str, JSON] = {"changes": backlog.rows, "master": _master()}
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as directory:
        relay = Path(directory) / "relay"
        _pull(endpoint_of(source), backlog, relay)
        for number in range(rounds):
            for side in in_turn((ours, peer), number):
                work = Path(directory) / f"{side.name.split()[0]}-{number}"
                subtask = _begin(source, target, backlog, relay, work)
                before = server_seconds(target)
                order: dict[str, JSON] = {
                    "subtask": subtask.to_wire(), "relay": str(relay), "work": str(work), "master": _master(),
                    "rows": backlog.rows,
                }  # fmt: skip
                answer = run_python("benchmarks.replay_ours" if side is ours else "benchmarks.catch_up_ours", order)
                assert isinstance(answer, dict)
                answer["server"] = round(server_seconds(target) - before, 2)
                answer.pop("forms", None)
                notes[f"{side.name}, round {number + 1}"] = dict(answer)
                _compare(source, target, backlog)
                side.values.append(backlog.rows / float(str(answer["wall" if side is ours else "seconds"])))
    what = f"backlog {workload.name}, {backlog.rows:,} changes"
    return Comparison(f"replay.{workload.name}", what, ours, peer, WORKLOADS[workload.name], notes=notes)


def _master() -> str:
    return f"local[{os.cpu_count()}]"


def _place(source: ThrowawayServer) -> tuple[str, int]:
    file, offset, *_ = source.query("SHOW BINARY LOG STATUS")[0]
    return str(file), int(str(offset))


def _written(source: ThrowawayServer, workload: Workload, scale: float) -> Backlog:
    scale_rows, table = int(workload.rows * scale), f"backlog_{workload.name.lower()}"
    source.execute(f"SET GLOBAL max_binlog_size = {_FILE}")
    create_table(source, workload, table, scale_rows)
    source.execute("FLUSH BINARY LOGS")
    first, _ = _place(source)
    source.execute(f"UPDATE {SCHEMA}.{table} SET k = k + 1 ORDER BY id LIMIT 1")
    begin = _place(source)
    with closing(source.connect(client_flag=CLIENT.MULTI_STATEMENTS, autocommit=True)) as connection:
        rows = play(connection, f"{SCHEMA}.{table}", workload.transactions(scale_rows))
    return Backlog(workload, table, scale_rows, rows, first, begin, _place(source))


def _pull(endpoint: Endpoint, backlog: Backlog, relay: Path) -> None:
    unit = RelayUnit(
        SourceConfig(source_id="bench", endpoint=endpoint), relay, start=Position("", backlog.first, MAGIC_SIZE)
    )
    file, size = backlog.end

    def pulled() -> bool:
        return any(path.stat().st_size >= size for path in relay.glob(f"*/{file}"))

    run_until(unit, pulled, _SECONDS)


def _begin(
    source: ThrowawayServer, target: ThrowawayServer, backlog: Backlog, relay: Path, work: Path
) -> SubtaskConfig:
    """The target as it is before the backlog, and a task that has its checkpoint there."""
    target.execute(
        *(f"DROP DATABASE IF EXISTS {schema}" for schema in (SCHEMA, TARGET_SCHEMA, f"meta_{_TASK}")),
        "RESET BINARY LOGS AND GTIDS",
    )
    create_table(target, backlog.workload, backlog.table, backlog.scale_rows)
    target.execute(
        f"CREATE DATABASE {TARGET_SCHEMA}",
        f"RENAME TABLE {SCHEMA}.{backlog.table} TO {TARGET_SCHEMA}.{backlog.table}",
    )
    subtask = subtask_for(
        source,
        target,
        SCHEMA,
        task=_TASK,
        routes=(RouteRule(name="bench", schema_pattern=SCHEMA, target_schema=TARGET_SCHEMA),),
        meta=StartPoint(binlog_name=backlog.first, binlog_pos=MAGIC_SIZE),
        workers=16,
    )
    uuid = next(path.name.rpartition(".")[0] for path in relay.iterdir() if path.is_dir() and "." in path.name)
    begun = RunningSync(subtask, relay, work, until=UntilPosition(Position(uuid, *backlog.begin)))
    failure = begun.wait_ended(120)
    if failure is not None:
        raise failure
    return subtask


def _compare(source: ThrowawayServer, target: ThrowawayServer, backlog: Backlog) -> None:
    one = source.query(f"CHECKSUM TABLE {SCHEMA}.{backlog.table}")[0][1]
    other = target.query(f"CHECKSUM TABLE {TARGET_SCHEMA}.{backlog.table}")[0][1]
    if one != other or one is None:
        raise RuntimeError(f"workload {backlog.workload.name}: the tables differ, checksums {one} and {other}")
