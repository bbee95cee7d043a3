"""`python -m benchmarks.run`: everything beside its peers in one run; the table on stdout, figures and page in docs/.

Ours and the peer take turns in every round, and in who is first; what counts is the median of the rounds. Absolute
figures are this machine's at that moment; only the ratios mean something elsewhere.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks import (
    catch_up,
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
)
from benchmarks.measure import Comparison, run_program, stolen_seconds
from benchmarks.recording import SOURCE_OPTIONS, TARGET_OPTIONS, record
from benchmarks.workload import WORKLOADS
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
)
ASKED_FOR = ("shards", "replay")
"""Parts that are measured only where they are named: they take many minutes."""
_SAMPLES = 200
# Parts of the scale: the peer is that slow, and the rates are those of any size. Of B ours would be over too soon.
_DECODED = {"A": 0.15, "B": 0.25, "C": 0.15}
_WHOLE_SCALE = 0.4  # from which on DDL and tables without a key are measured with all that they have
_FULL_ROUNDS = 2  # at most, of what is dumped and loaded: each takes a minute
_DIFF = 0.1  # of the scale of what is loaded: a million rows
_LARGE = 0.6  # of the scale, of what is more than a quota of memory
_IDLE_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is wanted; 0 also where a goal is missed, which the table says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="dm beside its peers")
    parser.add_argument("--scale", type=float, default=0.4, help="size of the workloads (default 0.4)")
    parser.add_argument(
        "--full-scale", type=float, default=1.0, help="size of what is dumped and loaded (default 1: 1,000,000 rows)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default 3)")
    parser.add_argument(
        "--part", choices=(*PARTS, *ASKED_FOR), action="append", help="only this part; may be given again"
    )
    parser.add_argument("--workload", choices=sorted(WORKLOADS), action="append", help="only this workload")
    parser.add_argument("--keep", choices=sorted(report.RESULTS), help="write the figures of this make target to docs/")
    given = parser.parse_args(arguments)
    began, (stolen, all_time) = time.monotonic(), stolen_seconds()
    parts = _possible(given.part or PARTS)
    found: list[Comparison] = []
    seconds: dict[str, float] = {}
    since = began
    for comparison in _measured(parts, given.workload or sorted(WORKLOADS), given):
        part = comparison.key.partition(".")[0]
        seconds[part], since = seconds.get(part, 0.0) + time.monotonic() - since, time.monotonic()
        print("\n".join(report.table([comparison])[2:]), flush=True)
        found.append(comparison)
    conditions = _conditions(given, {"all": time.monotonic() - began, **seconds})
    stolen, all_time = (now - before for now, before in zip(stolen_seconds(), (stolen, all_time), strict=True))
    conditions["processor time that the host gave to others"] = f"{100 * stolen / all_time:.0f} %"
    if given.keep:
        report.write(found, conditions, given.keep, report.RESULTS[given.keep], report.PAGE)
    print("\n".join(["", *report.table(found)]))
    return 0


def _possible(parts: Sequence[str]) -> Sequence[str]:
    """The parts whose peers are there; says which are not."""
    if "tidb" in parts and tidb.missing():
        print(f"{tidb.missing()}: tidb is left out", file=sys.stderr, flush=True)
        parts = [part for part in parts if part != "tidb"]
    if "diff" in parts and diff.missing_peer():
        print(f"{diff.PEER} is not installed: diff is left out", file=sys.stderr, flush=True)
        parts = [part for part in parts if part != "diff"]
    missing = full.missing_peer()
    if missing is None or not {"full", "full-task"} & set(parts):
        return parts
    told = f"{missing} is not installed (Debian's package is mydumper): full and full-task are left out"
    print(told, file=sys.stderr, flush=True)
    return [part for part in parts if part not in ("full", "full-task")]


def _measured(parts: Sequence[str], workloads: Sequence[str], given: argparse.Namespace) -> Iterator[Comparison]:
    scale, rounds = given.scale, given.rounds
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
        ThrowawayServer("mysql", Path(directory) / "source", server_id=71, options=SOURCE_OPTIONS) as source,
        catch_up.target_server(Path(directory)) as target,
    ):
        if "replay" in parts:
            for name in sorted(set(workloads) & set(replay.WORKLOADS)):
                yield replay.measure(source, target, WORKLOADS[name], scale, rounds)
        for name in workloads:
            if not {"decode", "pull", "catch-up", "tidb"} & set(parts):
                break
            if "decode" in parts and name in decode.GOALS:
                part = record(source, WORKLOADS[name], scale * _DECODED[name], table=f"decode_{name.lower()}")
                yield decode.measure(source, part, rounds)
            recording = record(source, WORKLOADS[name], scale)
            print(f"{name}: {recording.rows} row changes, {recording.size / 1e6:.1f} MB", file=sys.stderr, flush=True)
            if "pull" in parts and name in pull.GOALS:
                yield pull.measure(source, recording, rounds)
            if "catch-up" in parts:
                yield catch_up.measure(source, target, recording, rounds)
            if "tidb" in parts and name in tidb.WORKLOADS:
                yield tidb.measure(source, recording, rounds)
        if "ddl" in parts:
            yield ddl.measure(source, target, min(1.0, scale / _WHOLE_SCALE), rounds)
        if "keyless" in parts:
            yield from keyless.measure(source, target, min(1.0, scale / _WHOLE_SCALE), rounds)
        if "full" in parts:
            yield from full.measure(given.full_scale, min(rounds, _FULL_ROUNDS))
        if "full-task" in parts:
            yield from full_task.measure(given.full_scale, min(rounds, _FULL_ROUNDS))
        if "growth" in parts:
            yield from growth.measure(source, target, scale, given.full_scale, min(rounds, _FULL_ROUNDS))
        if "latency" in parts:
            yield from latency.measure(source, target, rounds, _SAMPLES)
        if "memory" in parts:
            yield from memory.measure(source, target, scale * _LARGE)
        if "idle" in parts:
            yield idle.measure(source, target, _IDLE_SECONDS)
        if "shards" in parts:
            yield from shards.measure(source, target, scale)
    if "diff" in parts:
        yield diff.measure(given.full_scale * _DIFF, min(rounds, _FULL_ROUNDS))
    if "tables" in parts:
        yield from tables.measure(scale * scale)  # to make them takes most of the time


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
