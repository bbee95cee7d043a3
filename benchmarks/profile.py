"""`python -m benchmarks.profile`: where a row's microseconds go, while it is decoded and while dm catches up.

The programs are those of the benchmark. Each runs twice: as it is, which gives the microseconds of all, and under a
profiler, which gives the shares. Beside dm's own microseconds stand the target's.

`--part dump` does the same for a dump: what one of its workers does, without Spark, whose start no row pays for. The
sum of a row's parts is that of a table in one chunk. Compressing is a part of pyarrow's work, which a profiler of
Python does not take apart; so it is what the profile has there less without compression.

`--part ddl` takes the statements of the benchmark's part `ddl` instead of rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import catch_up, ddl, decode, full
from benchmarks.measure import run_program, run_python, server_seconds
from benchmarks.pull import pull_ours
from benchmarks.recording import SOURCE_OPTIONS, Recording, record
from benchmarks.thread_profiles import Booked, ThreadProfiles
from benchmarks.workload import WORKLOADS
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON

_DUMP = "benchmarks.dump_ours"
_DISPATCHER = "dispatcher"  # the thread that executes statements, one after the other
_LEAST_SHARE = 0.02  # of what has a line of its own
# What a module's work is called: the longest beginning that fits.
STAGES: Mapping[str, str] = {
    "dm.sourcelog.relaylog": "relay files",
    "dm.mysql.binlog": "events",
    "dm.mysql.binlog.decode": "row images",
    "dm.mysql.binlog.image": "row images",
    "dm.mysql.binlog.json_decoder": "row images",
    "dm.rules": "filters and routes",
    "dm.mysql.schema": "structures",
    "dm.mysql.sql": "structures",
    "dm.changes": "rows to statements",
    "dm.syncer": "dispatch",
    "dm.syncer.apply.conflict_detector": "order of keys",
    "dm.sourcelog.stream.assembler": "transactions",
    "dm.downstream": "sending to the target",
    "dm.progress": "progress",
    "dm.sourcelog.upstream": "questions to the source",
    "dm.clock": "waiting",
    "dm.gtid": "events",
    "dm.mysql.binlog.value": "row images",
    "benchmarks": "measuring",
    "pymysql": "sessions",
    "ssl": "sessions",
    "dm.position": "events",
    "socket": "reading the socket",
    "sqlglot": "structures",
    "dm.dumpfiles.text_rows": "rows to columns",
    "pyarrow": "Parquet and compressing",
    "dm.dumper.chunk_file": "checksum of the file",
    "dm.dumpfiles": "writing the file",
    "dm.dumper": "reports",
}
_PARQUET = "pyarrow"  # what compresses


class Profile:
    """What a program of the benchmark used, by thread and module."""

    def __init__(self) -> None:
        self.booked: Booked = {}

    def run(self, module: str, order: JSON) -> JSON:
        """Run it as `run_python` does, and book what it uses."""
        done = run_program([sys.executable, "-m", "benchmarks.profile_ours", module], given=json.dumps(order))
        *_, answer, booked = done.output.splitlines()
        for thread, name, seconds in json.loads(booked):
            self.booked[thread, name] = self.booked.get((thread, name), 0.0) + seconds
        found: JSON = json.loads(answer)
        return found

    def seconds(self, beginning: str) -> float:
        """CPU seconds of the modules whose names begin so."""
        return sum(seconds for (_, name), seconds in self.booked.items() if name.startswith(beginning))

    def lines(self, microseconds: float, of: str = "row") -> Iterator[str]:
        """A table of what a row costs in all: the greatest first, what is small together at the end."""
        total = sum(self.booked.values())
        yield f"| stage | module | thread | us per {of} | share |"
        yield "|---|---|---|---|---|"
        rest = 0.0
        for (thread, name), seconds in sorted(self.booked.items(), key=lambda item: -item[1]):
            if seconds < total * _LEAST_SHARE:
                rest += seconds
            else:
                yield _line((_stage(name), name, thread), seconds / total, microseconds)
        yield _line(("what is below 2 %", "", ""), rest / total, microseconds)
        yield _line(("all", "", ""), 1.0, microseconds)

    def stages(self, thread: str, microseconds: float, of: str) -> Iterator[str]:
        """A table of what one thread does: its stages, of which others may wait for each."""
        total = sum(self.booked.values())
        found: dict[str, float] = defaultdict(float)
        for (its, name), seconds in self.booked.items():
            if its == thread:
                found[_stage(name)] += seconds
        yield f"| the {thread}'s stage | us per {of} | share |"
        yield "|---|---|---|"
        for stage, seconds in sorted(found.items(), key=lambda item: -item[1]):
            yield _line((stage,), seconds / total, microseconds)
        yield _line(("all of it",), sum(found.values()) / total, microseconds)


def _stage(module: str) -> str:
    fitting = [beginning for beginning in STAGES if f"{module}.".startswith(f"{beginning}.")]
    return STAGES[max(fitting, key=len)] if fitting else "Python"


def _line(names: Sequence[str], share: float, microseconds: float) -> str:
    return f"| {' | '.join(names)} | {microseconds * share:.2f} | {share:.0%} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of each workload."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description="where a row's microseconds go")
    parser.add_argument(
        "--part", choices=("rows", "ddl", "dump"), default="rows", help="decode and catch-up, statements, or a dump"
    )
    parser.add_argument("--scale", type=float, default=0.5, help="size of workloads and tables (default 0.5)")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), action="append", help="only this workload")
    given = parser.parse_args(arguments)
    if not ThreadProfiles.possible():
        print("the profile needs Python 3.11: later ones have one profiler for all threads", file=sys.stderr)
        return 1
    if given.part == "dump":
        with full.servers() as where:
            for table in (full.SYSBENCH, full.WIDE):
                filled = full.fill(where.source, table, int(table.rows * given.scale))
                for options in ({}, table.dump_with) if table.dump_with else ({},):
                    _show_dump(where, filled, options)
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
        ThrowawayServer("mysql", Path(directory) / "source", server_id=71, options=SOURCE_OPTIONS) as source,
    ):
        if given.part == "ddl":
            _show_ddl(source, record(source, ddl.WORKLOAD, given.scale), Path(directory))
            return 0
        for name in given.workload or sorted(WORKLOADS):
            recording = record(source, WORKLOADS[name], given.scale)
            _show(source, recording, Path(directory) / name)
    return 0


def _show(source: ThrowawayServer, recording: Recording, directory: Path) -> None:
    title = f"{recording.workload.name}, {recording.workload.what}, {recording.rows} row changes"
    order = decode.order_of_ours(source, recording)
    plain = run_python("benchmarks.decode_ours", order)
    assert isinstance(plain, dict)
    profile = Profile()
    profile.run("benchmarks.decode_ours", order)
    print(f"\n## {title}: decode\n")
    print("\n".join(profile.lines(float(str(plain["seconds"])) * 1e6 / recording.rows)), flush=True)
    relay = directory / "relay"
    pull_ours(source, recording, relay)
    profile = Profile()
    with catch_up.target_server(directory) as target:
        _, cost = catch_up.run_ours(source, target, recording, directory / "plain", relay)
        catch_up.run_ours(source, target, recording, directory / "profiled", relay, profile.run)
    print(f"\n## {title}: catch-up\n")
    print("\n".join(profile.lines(cost["client"])))
    print(f"\nBeside it the target's own CPU: {cost['server']} us per row.", flush=True)


def _show_ddl(source: ThrowawayServer, recording: Recording, directory: Path) -> None:
    count = ddl.statements(recording)
    relay = directory / "relay"
    pull_ours(source, recording, relay)
    profile = Profile()
    with catch_up.target_server(directory) as target:
        seconds, cost = catch_up.run_ours(source, target, recording, directory / "plain", relay)
        catch_up.run_ours(source, target, recording, directory / "profiled", relay, profile.run)
        alone, peer = catch_up.run_replica(source, target, recording, workers=1)
    print(f"\n## {count} CREATE and ALTER TABLE\n")
    print("\n".join(profile.lines(cost["client"] / count, "statement")))
    print()
    print("\n".join(profile.stages(_DISPATCHER, cost["client"] / count, "statement")))
    print(f"\nBeside it the target's own CPU: {cost['server'] / count:.0f} us per statement.")
    print(f"As a replica it takes {peer['server'] / count:.0f}.")
    print(f"Statements per second: {count / seconds:.1f}, the replica {count / alone:.1f}.", flush=True)


def _show_dump(where: full.Servers, filled: full.Filled, options: Mapping[str, JSON]) -> None:
    each = 1e6 / filled.rows
    order: dict[str, JSON] = {"subtask": where.subtask(filled, options).to_wire(), "schema": filled.schema}
    order["plain"] = False
    busy = server_seconds(where.source)
    answer = run_python(_DUMP, order)
    busy = server_seconds(where.source) - busy
    assert isinstance(answer, dict)
    seconds = float(str(answer["seconds"]))
    profile, without = Profile(), Profile()
    profile.run(_DUMP, order)
    without.run(_DUMP, {**order, "plain": True})
    compressing = (profile.seconds(_PARQUET) - without.seconds(_PARQUET)) / profile.seconds("")
    what = ", ".join((filled.table.what, *(f"{name}: {value}" for name, value in options.items())))
    print(f"\n## {what}, {filled.rows} rows: dump\n")
    print("\n".join(profile.lines(seconds * each)))
    peer, _ = where.dump_peer(filled)
    print(f"\n- compressing, of the above: {compressing * seconds * each:.2f} us per row")
    print(f"- the source's own CPU: {busy * each:.2f} us per row")
    print(f"- mydumper: {peer.client * each:.2f} us per row, the source {peer.server * each:.2f}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
