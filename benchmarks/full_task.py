"""A whole `full` task of a daemon, from `dmctl start-task` to its stage Finished, beside mydumper and then myloader.

Ours has its defaults, and takes everything into the clock: the checks, the start of Spark's JVM and of its workers, the
dump, the load, the indexes. The daemon is there, and knows the source. The peer dumps the tables without compression,
one after the other, and loads what it has dumped; it checks nothing and forces nothing to disk. The tables and the
servers are those of dump and load (`benchmarks.full`). Afterwards ours have to be the source's to the bit.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.full import SYSBENCH, WIDE, Filled, Servers, fill, servers
from benchmarks.measure import Comparison, Cost, Series, apart, in_turn, server_seconds, tree_seconds
from benchmarks.process_watch import ProcessWatch
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON
from tests.testbed.daemon import Daemon

GOAL = 1.05
SIZES = {1.0: 1.05, 3.85: 1.4, 10.0: 1.4}
"""Of the scale, 1.3, 5 and 13 million rows, each with its goal."""
_TASK = "whole"
_SECONDS = 600.0


def measure(scale: float, rounds: int) -> Iterator[Comparison]:
    """Both tables in one task."""
    with servers() as where:
        yield _measure(where, scale, rounds)


def measure_apart(scale: float, rounds: int) -> Iterator[Comparison]:
    """The same with a processor for the client and another for both servers."""
    with servers() as where, apart(where.source.pid, where.target.pid):
        yield _measure(where, scale, rounds).apart(GOAL)


def measure_sizes(scale: float) -> Iterator[Comparison]:
    """One round of each size; the last line has what dm's seconds are beside the rows: a fixed part, and each row's."""
    seconds = list[tuple[int, float]]()
    for times, goal in SIZES.items():
        with servers() as where:
            found = _measure(where, scale * times, 1)
        rows = int(str(found.notes["rows"]))
        seconds.append((rows, rows / found.ours.median))
        yield replace(
            found,
            key=f"full-task.{rows}",
            what=f"{found.what}, {rows:,} rows",
            goal=goal,
            notes={**found.notes, **_line(seconds)},
        )


def _line(seconds: Sequence[tuple[int, float]]) -> dict[str, JSON]:
    """The straight line through what was measured so far; nothing of one point."""
    if len(seconds) < 2:
        return {}
    slope, fixed = statistics.linear_regression(*zip(*seconds, strict=True))
    return {"dm, fixed seconds": round(fixed, 2), "dm, microseconds per row": round(slope * 1e6, 2)}


def _measure(where: Servers, scale: float, rounds: int) -> Comparison:
    tables = [fill(where.source, table, int(table.rows * scale)) for table in (SYSBENCH, WIDE)]
    rows = sum(table.rows for table in tables)
    ours, peer = Series("dm", "rows per second"), Series("mydumper, then myloader", "rows per second")
    costs: dict[str, list[JSON]] = {}
    processes: list[JSON] = []
    for number in range(rounds):
        for side in in_turn(("dm", "peer"), number):
            for table in tables:
                where.forget(table)
            cost = _ours(where, tables, number, processes) if side == "dm" else _peer(where, tables)
            (ours if side == "dm" else peer).values.append(rows / cost.wall)
            each: dict[str, JSON] = {
                "seconds": round(cost.wall, 2),
                "client": round(cost.client * 1e6 / rows, 2),
                "servers": round(cost.server * 1e6 / rows, 2),
            }
            costs.setdefault(side, []).append(each)
            took = processes[-1] if side == "dm" else ""
            print(f"{rows} rows, {side}: {each} {took}", file=sys.stderr)
    notes: dict[str, JSON] = {
        "rows": rows,
        "microseconds of CPU per row": {**costs},
        "dm's CPU seconds by process": processes,
    }
    what = "a full task, start to Finished, sysbench and wide rows"
    return Comparison("full-task", what, ours, peer, GOAL, notes=notes)


def _ours(where: Servers, tables: Sequence[Filled], number: int, processes: list[JSON]) -> Cost:
    directory = where.directory / f"daemon-{number}"
    with Daemon(directory, fresh=True) as daemon:
        _write(directory, where, tables)
        daemon.must("operate-source", "create", "source.yaml")
        client, busy, began = tree_seconds(daemon.pid), _servers(where), time.monotonic()
        with ProcessWatch(daemon.pid) as watch:
            daemon.must("start-task", "task.yaml")
            daemon.wait(_TASK, lambda status: status["bench"]["stage"] != "Running", "the end", seconds=_SECONDS)
        wall = time.monotonic() - began
        cost = Cost(wall, tree_seconds(daemon.pid) - client, _servers(where) - busy)
        processes.append({name: round(seconds, 2) for name, seconds in watch.seconds().items()})
        stage = daemon.status(_TASK)["bench"]["stage"]
        if stage != "Finished" or not all(map(where.same, tables)):
            raise RuntimeError(f"the task is {stage}, or a table differs")
        daemon.must("stop-task", _TASK)
    where.target.execute(f"DROP DATABASE IF EXISTS meta_{_TASK}")
    return cost


def _peer(where: Servers, tables: Sequence[Filled]) -> Cost:
    """The source is at rest while the target is written to, and the other way round."""
    busy, wall, client = _servers(where), 0.0, 0.0
    for table in tables:
        dumped, directory = where.dump_peer(table)
        loaded = where.load_peer(table, directory)
        wall, client = wall + dumped.wall + loaded.wall, client + dumped.client + loaded.client
    return Cost(wall, client, _servers(where) - busy)


def _servers(where: Servers) -> float:
    return server_seconds(where.source) + server_seconds(where.target)


def _write(directory: Path, where: Servers, tables: Sequence[Filled]) -> None:
    schemas = ", ".join(table.schema for table in tables)
    for name, text in {
        "source.yaml": f"source-id: bench\nfrom: {_login(where.source)}\n",
        "task.yaml": f"name: {_TASK}\ntask-mode: full\nmeta-schema: meta_{_TASK}\n"
        f"target-database: {_login(where.target)}\n"
        f"mysql-instances:\n  - source-id: bench\n    block-allow-list: b\n"
        f"block-allow-list: {{b: {{do-dbs: [{schemas}]}}}}\n",
    }.items():
        path = directory / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")


def _login(server: ThrowawayServer) -> str:
    login = f"host: {server.host}, user: {server.user}, password: '{server.password}', port: {server.port}"
    return f"{{{login}, security: {{get-server-public-key: true}}}}"
