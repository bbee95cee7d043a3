"""`python -m benchmarks.bounds`: what bounds catching up, by the CPU time of everybody who takes part.

For each workload: the target's CPU for a row as a replica and under dm, and dm's own by its threads. Two rates follow,
which nothing exceeds on so many processors: where all of them are busy all the time with what dm and the target take
now, and where dm takes nothing. What the benchmark's catch-up lacks to the first is time in which a processor waits.

No rate is measured here. CPU time is robust: on a machine with six times its load a row took a quarter more of it, and
eight times as long.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import catch_up
from benchmarks.measure import run_python
from benchmarks.pull import pull_ours
from benchmarks.recording import SOURCE_OPTIONS, Recording, record
from benchmarks.workload import WORKLOADS
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON

_WORKERS = 4
_MICRO = 1e6


class Costs:
    """Microseconds for a row of several runs, by who took them."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._runs: dict[str, list[float]] = {}

    def per_row(self, name: str, microseconds: float) -> None:
        """Book it."""
        self._runs.setdefault(name, []).append(microseconds)

    def run(self, module: str, order: JSON) -> JSON:
        """Run ours as `run_python` does, and book what its start and its threads took."""
        answer = run_python(module, order)
        assert isinstance(answer, dict)
        threads = answer["threads"]
        assert isinstance(threads, dict)
        known = 0.0
        for name, seconds in threads.items():
            known += float(str(seconds))
            self._seconds(f"dm: {name}", float(str(seconds)))
        self._seconds("dm: threads that ended", float(str(answer["cpu"])) - known)
        self._seconds("of dm: until its parts were there", float(str(answer["start"])))
        return answer

    def median(self, name: str) -> float:
        """The figure that counts."""
        return statistics.median(self._runs[name])

    def lines(self) -> Iterator[str]:
        """A table, the least that is worth a line left out."""
        yield "| who | us of CPU per row | of each run |"
        yield "|---|---|---|"
        for name, runs in sorted(self._runs.items(), key=lambda item: -statistics.median(item[1])):
            if self.median(name) >= 0.05:
                yield f"| {name} | {self.median(name):.2f} | {', '.join(f'{each:.1f}' for each in runs)} |"

    def _seconds(self, name: str, seconds: float) -> None:
        self.per_row(name, seconds * _MICRO / self._rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table for each workload, and what follows from it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bounds", description="what bounds catching up")
    parser.add_argument("--scale", type=float, default=0.4, help="size of the workloads (default 0.4)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side (default 3)")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), action="append", help="only this workload")
    given = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
        ThrowawayServer("mysql", Path(directory) / "source", server_id=71, options=SOURCE_OPTIONS) as source,
    ):
        for name in given.workload or sorted(WORKLOADS):
            recording = record(source, WORKLOADS[name], given.scale)
            print("\n".join(_measured(source, recording, Path(directory) / name, given.rounds)), flush=True)
    return 0


def _measured(source: ThrowawayServer, recording: Recording, directory: Path, rounds: int) -> Iterator[str]:
    relay = directory / "relay"
    pull_ours(source, recording, relay)
    costs = Costs(recording.rows)
    with catch_up.target_server(directory) as target:
        for number in range(rounds):
            _, cost = catch_up.run_ours(source, target, recording, directory / f"{number}", relay, costs.run)
            costs.per_row("dm", cost["client"])
            costs.per_row("target under dm", cost["server"])
            _, cost = catch_up.run_replica(source, target, recording, _WORKERS)
            costs.per_row(f"target as a replica, {_WORKERS} workers", cost["server"])
    yield f"\n## {recording.workload.name}, {recording.workload.what}, {recording.rows:,} row changes\n"
    yield from costs.lines()
    processors, alone = len(os.sched_getaffinity(0)), costs.median("target under dm")
    yield ""
    for what, microseconds in (("as it is", costs.median("dm") + alone), ("if dm took nothing", alone)):
        rate = processors * _MICRO / microseconds
        yield f"- bound of {processors} busy processors, {what}: {rate:,.0f} rows per second"


if __name__ == "__main__":
    raise SystemExit(main())
