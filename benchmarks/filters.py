"""`python -m benchmarks.filters`: what an expression filter costs that dm evaluates, and one that the target evaluates.

A syncer catches up with a workload that is in its relay: without a filter, with one that dm evaluates itself, and with
the same one of which the target is asked (`dm.downstream.filter_session`), in turn. The filter leaves out no row, so
all three runs apply the same. The target is asked once for the rows of a part of a transaction: so workload A, of four
rows each, and B, of 500, are far apart.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from benchmarks.catch_up import run_ours, target_server
from benchmarks.measure import in_turn, run_python
from benchmarks.pull import pull_ours
from benchmarks.recording import SCHEMA, SOURCE_OPTIONS, record
from benchmarks.workload import WORKLOADS
from dm.config.expression import ExpressionFilter
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON

_HERE: Final = "benchmarks.catch_up_ours"
_RUNS: Final[Mapping[str, tuple[str, bool]]] = {
    "no filter": (_HERE, False),
    "evaluated by dm": (_HERE, True),
    "evaluated by the target": ("benchmarks.filters_ours", True),
}
_KEYS: Final = ("insert_value_expr", "update_old_value_expr", "update_new_value_expr", "delete_value_expr")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table: medians of the rounds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.filters", description="what expression filters cost")
    parser.add_argument("--scale", type=float, default=0.2, help="of the workloads (default 0.2)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way is measured (default 3)")
    given = parser.parse_args(arguments)
    print(
        "| workload | filter | rows per second | us of dm's CPU per row | us of the target's |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as name:
        directory = Path(name)
        with (
            ThrowawayServer("mysql", directory / "source", server_id=71, options=SOURCE_OPTIONS) as source,
            target_server(directory) as target,
        ):
            for workload in ("A", "B"):
                _measure(source, target, workload, given.scale, given.rounds, directory / workload)
    return 0


def _measure(
    source: ThrowawayServer, target: ThrowawayServer, workload: str, scale: float, rounds: int, directory: Path
) -> None:
    recording = record(source, WORKLOADS[workload], scale)
    relay = directory / "relay"
    pull_ours(source, recording, relay)
    found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in _RUNS}
    for number in range(rounds):
        for way in in_turn(tuple(_RUNS), number):
            module, filtered = _RUNS[way]

            def run(_: str, order: JSON, module: str = module, filtered: bool = filtered) -> JSON:
                return run_python(module, _with_filter(order, recording.table) if filtered else order)

            work = directory / f"{number}-{way.replace(' ', '-')}"
            seconds, cost = run_ours(source, target, recording, work, relay, run=run)
            found[way].append((recording.rows / seconds, cost["client"], cost["server"]))
    for way, runs in found.items():
        rate, client, server = (statistics.median(each) for each in zip(*runs, strict=True))
        print(f"| {workload} | {way} | {rate:,.0f} | {client:.1f} | {server:.1f} |", flush=True)


def _with_filter(order: JSON, table: str) -> JSON:
    """An order whose subtask has filters that no row passes: each change is looked at, and none is left out."""
    told = dict(cast("dict[str, Any]", order))
    filters = tuple(
        ExpressionFilter.model_validate({"name": key, "schema": SCHEMA, "table": table, key: "k < 0"})
        for key in _KEYS
        if not key.startswith("update")
    ) + (
        ExpressionFilter.model_validate(
            {"name": "update", "schema": SCHEMA, "table": table, **dict.fromkeys(_KEYS[1:3], "k < 0")}
        ),
    )
    subtask = SubtaskConfig.from_wire(told["subtask"]).model_copy(update={"expression_filters": filters})
    return {**told, "subtask": subtask.to_wire()}


if __name__ == "__main__":
    raise SystemExit(main())
