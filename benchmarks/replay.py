"""A backlog: `dmctl replay` beside the syncer, over the same relay into the same target.

Both begin at a checkpoint that a short run has stored, and end with everything in the target, which `CHECKSUM TABLE`
compares with the source. The replay's time has the start of Spark in it; the notes say how much that is, and what each
step took. `--scale 42` of `benchmarks.run` is five million changes of A, `--scale 34` of H.

`--master cluster` is a stand-alone cluster on this machine with two executors, of two cores each. It is measured beside
the syncer, and beside a replay without the cluster.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pymysql.constants import CLIENT

from benchmarks.catch_up import TARGET_SCHEMA
from benchmarks.measure import Comparison, Series, in_turn, run_python, server_seconds
from benchmarks.recording import SCHEMA, create_table
from benchmarks.unit_thread import run_until
from benchmarks.workload import Workload, play
from dm.config.endpoint import Endpoint
from dm.config.references import StartPoint
from dm.config.rules import RouteRule
from dm.config.source import SourceConfig
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.position import MAGIC_SIZE, Position
from dm.relay.unit import RelayUnit
from dm.sourcelog.stream.until import UntilPosition
from dm.unit import JSON
from tests.testbed.standalone import StandaloneCluster
from tests.testbed.sync import RunningSync, endpoint_of, subtask_for

WORKLOADS: Final = {"A": 1.0, "H": 1.5}
"""With the goals, over the syncer; a cluster has to be faster than the machine alone."""
CLUSTER: Final = "cluster"
_EXECUTORS, _CORES = 2, 2
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
    begin: tuple[str, int]  # after a first transaction, from which the task knows the table
    end: tuple[str, int]


@dataclass(frozen=True, slots=True)
class Master:
    """Where Spark's tasks run, and what the session is told of it."""

    url: str
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Side:
    """One way of applying the backlog."""

    series: Series
    master: Master | None = None  # of a replay; the syncer has none


def local_master() -> str:
    """All cores of the machine."""
    return f"local[{os.cpu_count()}]"


def measure(
    source: ThrowawayServer, target: ThrowawayServer, workload: Workload, scale: float, rounds: int, master: str
) -> Iterator[Comparison]:
    """All sides in each round, in turn."""
    backlog = _written(source, workload, scale)
    unit = "changes per second"
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as name, _master(master, Path(name)) as chosen:
        ours = Side(Series(f"dmctl replay, {master}", unit), chosen)
        peers = [Side(Series("the syncer", unit))]
        if master == CLUSTER:
            peers.append(Side(Series(f"dmctl replay, {local_master()}", unit), Master(local_master())))
        directory, notes = Path(name), dict[str, JSON](changes=backlog.rows, master=master)
        relay = directory / "relay"
        _pull(endpoint_of(source), backlog, relay)
        for number in range(rounds):
            for side in in_turn((ours, *peers), number):
                work = directory / f"{[ours, *peers].index(side)}-{number}"
                answer = _applied(source, target, backlog, relay, work, side)
                notes[f"{side.series.name}, round {number + 1}"] = answer
    what = f"backlog {workload.name}, {backlog.rows:,} changes, {master}"
    key = f"replay.{workload.name}" if master != CLUSTER else f"replay.{workload.name}.{CLUSTER}"
    yield Comparison(key, what, ours.series, peers[0].series, WORKLOADS[workload.name], notes=notes)
    for peer in peers[1:]:
        yield Comparison(f"{key}.local", what, ours.series, peer.series, 1.0)


@contextmanager
def _master(name: str, directory: Path) -> Iterator[Master]:
    if name != CLUSTER:
        yield Master(name)
        return
    cluster = StandaloneCluster(directory / CLUSTER, cores=_CORES)
    try:
        cluster.start(_EXECUTORS)
        host = "127.0.0.1"
        place = {"spark.driver.host": host, "spark.driver.bindAddress": host, "spark.executor.memory": "512m"}
        yield Master(cluster.url, {**cluster.settings, **place})
    finally:
        cluster.close()


def _applied(
    source: ThrowawayServer, target: ThrowawayServer, backlog: Backlog, relay: Path, work: Path, side: Side
) -> dict[str, JSON]:
    """One side's turn; what its program tells."""
    subtask = _begin(source, target, backlog, relay, work)
    before = server_seconds(target)
    order: dict[str, JSON] = {
        "subtask": subtask.to_wire(), "relay": str(relay), "work": str(work), "rows": backlog.rows,
    }  # fmt: skip
    master = side.master
    if master is not None:
        order |= {"master": master.url, "conf": dict[str, JSON](master.conf)}
    answer = run_python("benchmarks.catch_up_ours" if master is None else "benchmarks.replay_ours", order)
    assert isinstance(answer, dict)
    told = {name: value for name, value in answer.items() if name != "forms"}
    told["server"] = round(server_seconds(target) - before, 2)
    _compare(source, target, backlog)
    side.series.values.append(backlog.rows / float(str(answer["seconds" if master is None else "wall"])))
    return told


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
