"""`dmctl diff` beside pt-table-checksum on sysbench's table; `python -m benchmarks.diff` prints more than the table.

pt-table-checksum compares a replica with its source: it computes a chunk's checksum at the source by a statement that
the replica executes as well. So both programs compare a MariaDB with its replica, which has the same rows and is at
rest. (Debian's version says SHOW SLAVE STATUS, which MySQL 9.7 does not know any more.) It goes through a table in one
session and chooses chunks that take half a second, as it does by default. Ours has its defaults, too: chunks of
100,000 rows, four at a time, in one Spark session that is there before the clock starts, its Python workers included.

The source's share of CPU is the time that its server was at work, of the time of all processors. Memory is the most
that the process of ours and all below it held, the JVM among them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks import report
from benchmarks.full import SYSBENCH, Filled, fill
from benchmarks.measure import Comparison, Series, in_turn, run_program, server_seconds
from benchmarks.spark_process import SparkProcess
from dm.config.rules import BlockAllowList
from dm.config.source import SourceConfig
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import Option, ThrowawayServer
from dm.unit import JSON
from tests.testbed.sync import endpoint_of, wait_until

PEER: Final = "pt-table-checksum"
GOAL: Final = 1.5
ROWS: Final = 10_000_000  # of scale 1
_MB: Final = 1e6
BUFFER_POOL: Final = "1G"  # less than half of 10,000,000 rows: the others are read from the disk
_OPTIONS: Final[Mapping[str, Option]] = {
    "innodb_log_file_size": "512M", "innodb_flush_log_at_trx_commit": 2,
    "sync_binlog": 0, "max_binlog_size": 1 << 30, "gtid_strict_mode": "OFF",  # the replica has written rows of its own
}  # fmt: skip


def missing_peer() -> bool:
    """Whether it is not installed."""
    return not Path(f"/usr/bin/{PEER}").exists()


def measure(scale: float, rounds: int, buffer_pool: str = BUFFER_POOL) -> Comparison:
    """Both, in turn."""
    rows, options = int(ROWS * scale), {**_OPTIONS, "innodb_buffer_pool_size": buffer_pool}
    ours, peer = Series("dm", "rows per second"), Series(PEER, "rows per second")
    shares: dict[str, list[float]] = {"dm": [], PEER: []}
    costs: dict[str, list[list[float]]] = {"dm": [], PEER: []}
    memory = 0.0
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as name,
        ThrowawayServer("mariadb", Path(name) / "source", server_id=71, options=options) as source,
        ThrowawayServer("mariadb", Path(name) / "target", server_id=72, options=options) as target,
        SparkProcess("benchmarks.diff_ours") as process,
    ):
        filled = fill(source, SYSBENCH, rows)
        fill(target, SYSBENCH, rows)
        _replicate(source, target)
        for number in range(rounds):
            for side in in_turn((ours, peer), number):
                busy, began = (server_seconds(source), server_seconds(target)), time.monotonic()
                if side is ours:
                    answer = json.loads(process.ask(_subtask(source, target, filled).to_wire()))
                    seconds, memory = float(str(answer["seconds"])), float(str(answer["memory"]))
                    if (answer["verdict"], answer["rows"]) != ("equal", rows):
                        raise RuntimeError(f"the tables are equal, and it says {answer}")
                else:
                    _checksum(Path(name), source, target, filled)
                    seconds = time.monotonic() - began
                side.values.append(rows / seconds)
                spent = (server_seconds(source) - busy[0], server_seconds(target) - busy[1])
                shares[side.name].append(round(spent[0] / seconds / (os.cpu_count() or 1), 3))
                costs[side.name].append([round(each / rows * 1e6, 2) for each in spent])
    notes: dict[str, JSON] = {
        "rows": rows,
        "source's share of CPU": {side: list[JSON](values) for side, values in shares.items()},
        "us of CPU per row, source and target": {side: list[JSON](map(list, values)) for side, values in costs.items()},
        "memory of dm, Spark included, MB": round(memory / _MB),
    }
    return Comparison("diff", "diff, sysbench rows", ours, peer, GOAL, notes=notes)


def _subtask(source: ThrowawayServer, target: ThrowawayServer, filled: Filled) -> SubtaskConfig:
    return SubtaskConfig(
        task="bench_diff",
        source=SourceConfig(source_id="bench", endpoint=endpoint_of(source)),
        mode="full",
        target=endpoint_of(target),
        meta_schema="meta_bench_diff",
        block_allow_list=BlockAllowList(do_dbs=(filled.schema,)),
    )


def _replicate(source: ThrowawayServer, target: ThrowawayServer) -> None:
    """The target follows the source from here on, so that pt-table-checksum's statements get there."""
    source.create_user("repl", source.password, "REPLICATION SLAVE ON *.*")
    file, offset = source.query("SHOW MASTER STATUS")[0][:2]
    target.execute(
        f"CHANGE MASTER TO MASTER_HOST = '{source.host}', MASTER_PORT = {source.port}, MASTER_USER = 'repl',"
        f" MASTER_PASSWORD = '{source.password}', MASTER_LOG_FILE = '{file}', MASTER_LOG_POS = {offset}",
        "START SLAVE",
    )
    login = f"h={target.host},P={target.port},u={target.user},p={target.password}"
    source.execute(
        "CREATE DATABASE percona",
        "CREATE TABLE percona.dsns (id INT PRIMARY KEY, parent_id INT, dsn VARCHAR(255))",
        f"INSERT INTO percona.dsns VALUES (1, NULL, '{login}')",
    )
    tables = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'percona'"
    wait_until(lambda: target.query(tables) == ((1,),), "the target replicates")
    # It takes one statement although its own place is before the rows that it has; the peer waits for ever if it stops.
    source.execute("CREATE TABLE percona.last (id INT PRIMARY KEY)")
    wait_until(lambda: target.query(tables) == ((2,),), "the target goes on replicating")


def _checksum(directory: Path, source: ThrowawayServer, target: ThrowawayServer, filled: Filled) -> None:
    """Raises RuntimeError where it finds a difference, or does not compare."""
    file = directory / "source.cnf"
    file.touch(mode=0o600)
    file.write_text(f"[client]\npassword={source.password}\n", encoding="utf-8")
    where = f"h={source.host},P={source.port},u={source.user},F={file}"
    dsns = f"dsn=h={source.host},P={source.port},u={source.user},F={file},D=percona,t=dsns"
    done = run_program(
        (
            f"/usr/bin/{PEER}", where, f"--databases={filled.schema}", f"--recursion-method={dsns}",
            "--no-check-binlog-format", "--no-version-check", "--no-check-replication-filters", "--quiet",
        )
    )  # fmt: skip
    chunks, rows, equal = target.query(
        "SELECT COUNT(*), SUM(this_cnt), SUM(this_cnt = master_cnt AND this_crc = master_crc) FROM percona.checksums"
    )[0]
    if rows != filled.rows or equal != chunks:
        raise RuntimeError(f"{PEER} compared {rows} rows in {chunks} chunks, {equal} of them equal: {done.output}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the line of the table, memory and shares."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.diff", description=f"dmctl diff beside {PEER}")
    parser.add_argument("--scale", type=float, default=0.1, help="1 are 10,000,000 rows (default 0.1)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--buffer-pool", default=BUFFER_POOL, help=f"of each server (default {BUFFER_POOL})")
    given = parser.parse_args(arguments)
    if missing_peer():
        print(f"{PEER} is not installed (Debian's package is percona-toolkit)", file=sys.stderr)
        return 1
    found = measure(given.scale, given.rounds, given.buffer_pool)
    print("\n".join(report.table([found])))
    for name, value in found.notes.items():
        print(f"{name}: {json.dumps(value)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
