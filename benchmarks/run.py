"""`python -m benchmarks.run`: everything beside its peers in one run; the table on stdout, figures and page in docs/.

Ours and the peer take turns in every round, and in who is first; what counts is the median of the rounds. Absolute
figures are this machine's at that moment; only the ratios mean something elsewhere.

A part that fails costs only its own figures: stderr and the page say so, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import get_args

from benchmarks import (
    catch_up,
    cutover,
    ddl,
    decode,
    diff,
    full,
    full_task,
    growth,
    idle,
    keyless,
    latency,
    memory,
    pull,
    replay,
    report,
    shards,
    tables,
    tidb,
    validator_cost,
)
from benchmarks.measure import Comparison, run_program, stolen_seconds
from benchmarks.outcome import Outcome
from benchmarks.recording import SOURCE_OPTIONS, TARGET_OPTIONS, record
from benchmarks.workload import WORKLOADS
from dm.config.units import RowFormat
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON
from tests.testbed.loop_result import commit

PARTS = (
    "decode",
    "pull",
    "catch-up",
    "ddl",
    "keyless",
    "full",
    "full-task",
    "diff",
    "growth",
    "latency",
    "memory",
    "idle",
    "tables",
    "tidb",
    "apart",
)
ASKED_FOR = ("shards", "replay", "validator", "sizes", "cutover")
"""Parts that are measured only where they are named: they take many minutes."""
_SAMPLES = 200
# Parts of the scale: the peer is that slow, and the rates are those of any size. Of B ours would be over too soon.
_DECODED = {"A": 0.15, "B": 0.25, "C": 0.15}
_WHOLE_SCALE = 0.4  # from which on DDL and tables without a key are measured with all that they have
_FULL_ROUNDS = 2  # at most, of what is dumped and loaded: each takes a minute
_DIFF = 0.1  # of the scale of what is loaded: a million rows
_LARGE = 0.6  # of the scale, of what is more than a quota of memory
_VALIDATED = 7.5  # times the scale: a shorter run is over before a validator has begun
_IDLE_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is wanted; 0 also where a goal is missed, which the table says, and 1 where a part failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="dm beside its peers")
    parser.add_argument("--scale", type=float, default=0.4, help="size of the workloads (default 0.4)")
    parser.add_argument(
        "--full-scale", type=float, default=1.0, help="size of what is dumped and loaded (default 1: 1,000,000 rows)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default 3)")
    parser.add_argument(
        "--part", choices=(*PARTS, *ASKED_FOR), action="append", help="only this part; may be given again"
    )
    parser.add_argument("--also", choices=ASKED_FOR, action="append", default=[], help="this part as well")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), action="append", help="only this workload")
    parser.add_argument(
        "--row-format", choices=get_args(RowFormat), default="auto", help="dm's, where it catches up (default auto)"
    )
    parser.add_argument(
        "--master",
        default=replay.local_master(),
        help=f"of the part replay (default {replay.local_master()}); `{replay.CLUSTER}`: two executors with two cores",
    )
    parser.add_argument("--keep", choices=sorted(report.RESULTS), help="write the figures of this make target to docs/")
    given = parser.parse_args(arguments)
    began, (stolen, all_time) = time.monotonic(), stolen_seconds()
    outcome = Outcome()
    parts, workloads = _possible([*(given.part or PARTS), *given.also]), given.workload or sorted(WORKLOADS)
    outcome.attempt("servers", lambda: _measure_beside_servers(outcome, parts, workloads, given))
    if "diff" in parts:
        outcome.measure("diff", lambda: diff.measure(given.full_scale * _DIFF, min(given.rounds, _FULL_ROUNDS)))
    if "tables" in parts:
        outcome.measure("tables", lambda: tables.measure(given.scale * given.scale))  # to make them takes most of it
    if "cutover" in parts:
        outcome.measure("cutover", lambda: cutover.compare(min(1.0, given.full_scale)))
    conditions = _conditions(given, {"all": time.monotonic() - began, **outcome.seconds})
    stolen, all_time = (now - before for now, before in zip(stolen_seconds(), (stolen, all_time), strict=True))
    share = stolen / all_time if all_time else 0.0  # the kernel counts in ticks; a run without parts may see none
    conditions["processor time that the host gave to others"] = f"{100 * share:.0f} %"
    conditions |= {f"failed, {part}": why for part, why in outcome.failed.items()}
    if given.keep:
        report.write(outcome.comparisons, conditions, given.keep, report.RESULTS[given.keep], report.PAGE)
    print("\n".join(["", *report.table(outcome.comparisons)]))
    print("".join(f"\n{part} failed: {why}" for part, why in outcome.failed.items()), flush=True)
    return 1 if outcome.failed else 0


def _possible(parts: Sequence[str]) -> Sequence[str]:
    """The parts whose peers are there; says which are not."""
    if "tidb" in parts and tidb.missing():
        print(f"{tidb.missing()}: tidb is left out", file=sys.stderr, flush=True)
        parts = [part for part in parts if part != "tidb"]
    if "diff" in parts and diff.missing_peer():
        print(f"{diff.PEER} is not installed: diff is left out", file=sys.stderr, flush=True)
        parts = [part for part in parts if part != "diff"]
    missing = full.missing_peer()
    if missing is None or not {"full", "full-task", "sizes", "apart"} & set(parts):
        return parts
    told = f"{missing} is not installed (Debian's package is mydumper): dump, load and full tasks are left out"
    print(told, file=sys.stderr, flush=True)
    return [part for part in parts if part not in ("full", "full-task", "sizes")]


def _measure_beside_servers(
    outcome: Outcome, parts: Sequence[str], workloads: Sequence[str], given: argparse.Namespace
) -> None:
    scale, rounds, full_rounds = given.scale, given.rounds, min(given.rounds, _FULL_ROUNDS)
    whole = min(1.0, scale / _WHOLE_SCALE)
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
        ThrowawayServer("mysql", Path(directory) / "source", server_id=71, options=SOURCE_OPTIONS) as source,
        catch_up.target_server(Path(directory)) as target,
    ):
        if "replay" in parts:
            for name in sorted(set(workloads) & set(replay.WORKLOADS)):
                workload, master = WORKLOADS[name], given.master
                outcome.measure(
                    f"replay {name}", partial(replay.measure, source, target, workload, scale, rounds, master)
                )
        if "validator" in parts and validator_cost.WORKLOAD in workloads:
            outcome.measure("validator", lambda: _validated(source, target, scale, rounds))
        for name in workloads:
            _measure_workload(outcome, name, parts, given, (source, target))
        measured: Mapping[str, Callable[[], Comparison | Iterable[Comparison]]] = {
            "ddl": lambda: ddl.measure(source, target, whole, rounds),
            "keyless": lambda: keyless.measure(source, target, whole, rounds),
            "full": lambda: full.measure(given.full_scale, full_rounds),
            "full-task": lambda: full_task.measure(given.full_scale, full_rounds),
            "growth": lambda: growth.measure(source, target, scale, given.full_scale, full_rounds),
            "latency": lambda: latency.measure(source, target, rounds, _SAMPLES),
            "memory": lambda: memory.measure(source, target, scale * _LARGE),
            "idle": lambda: idle.measure(source, target, _IDLE_SECONDS),
            "shards": lambda: shards.measure(source, target, scale),
            "sizes": lambda: full_task.measure_sizes(given.full_scale),
        }
        for part, measuring in measured.items():
            if part in parts:
                outcome.measure(part, measuring)
    if "apart" in parts and not full.missing_peer():
        outcome.measure("apart full", lambda: full.measure_apart(given.full_scale, full_rounds))
        outcome.measure("apart full-task", lambda: full_task.measure_apart(given.full_scale, full_rounds))


def _validated(source: ThrowawayServer, target: ThrowawayServer, scale: float, rounds: int) -> Comparison:
    recording = record(source, WORKLOADS[validator_cost.WORKLOAD], scale * _VALIDATED, table="validated")
    return validator_cost.measure(source, target, recording, rounds)


def _measure_workload(
    outcome: Outcome,
    name: str,
    parts: Sequence[str],
    given: argparse.Namespace,
    servers: tuple[ThrowawayServer, ThrowawayServer],
) -> None:
    (source, target), workload, rounds = servers, WORKLOADS[name], given.rounds
    if "decode" in parts and name in decode.GOALS:

        def decoded() -> Comparison:
            part = record(source, workload, given.scale * _DECODED[name], table=f"decode_{name.lower()}")
            return decode.measure(source, part, rounds)

        outcome.measure(f"decode {name}", decoded)
    if not {"pull", "catch-up", "tidb", "apart"} & set(parts):
        return
    recording = outcome.attempt(f"recording {name}", lambda: record(source, workload, given.scale))
    if recording is None:
        return
    print(f"{name}: {recording.rows} row changes, {recording.size / 1e6:.1f} MB", file=sys.stderr, flush=True)
    if "pull" in parts and name in pull.GOALS:
        outcome.measure(f"pull {name}", lambda: pull.measure(source, recording, rounds))
    if "catch-up" in parts:
        outcome.measure(
            f"catch-up {name}", lambda: catch_up.measure(source, target, recording, rounds, given.row_format)
        )
    if "apart" in parts:
        outcome.measure(f"apart {name}", lambda: catch_up.measure_apart(source, target, recording, rounds))
    if "tidb" in parts and name in tidb.WORKLOADS:
        outcome.measure(f"tidb {name}", lambda: tidb.measure(source, recording, rounds))


def _conditions(given: argparse.Namespace, seconds: Mapping[str, float]) -> dict[str, JSON]:
    mydumper = "" if full.missing_peer() else run_program(("mydumper", "--version")).output.strip()
    return {
        "commit": commit(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} processors, {platform.machine()}, Linux {platform.release()}",
        "python": platform.python_version(),
        "mysql-replication": version("mysql-replication"),
        "mydumper": mydumper or "not installed",
        "source and targets": " ".join(f"{name}={value}" for name, value in TARGET_OPTIONS.items()),
        "source": "binlog_row_metadata=FULL",
        "dump and load": "without TLS",
        "scale": given.scale,
        "full-scale": given.full_scale,
        "rounds": f"{given.rounds}, of dump, load and growth {min(given.rounds, _FULL_ROUNDS)}",
        "seconds": ", ".join(f"{part} {round(each)}" for part, each in seconds.items()),
        "load before the end": os.getloadavg()[0],
    }


if __name__ == "__main__":
    raise SystemExit(main())
