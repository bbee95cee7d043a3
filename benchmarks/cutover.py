"""Cut-over: seconds without writes, with a comparison of all rows and with one of recent rows.

The tables are equal and compared, an hour of the workload is written, and goes on until the fence. The part `cutover`
of `make bench-large` is the case that the goals are about; `python -m benchmarks.cutover` takes other sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pymysql

from benchmarks.measure import Comparison, Series
from dm.demo.servers import ThrowawayServer
from dm.tools.cutover.machine import STATES
from tests.testbed.daemon import Daemon

GOAL_SECONDS: Final = 5.0
GOAL_FACTOR: Final = 2.0  # between the seconds that are told before a comparison of all rows and those it takes
_PASSWORD: Final = "cut-over"
_TOLD: Final = re.compile(r"comparing all rows takes about ([0-9.]+) s")
_TABLES: Final = 30
_ROWS: Final = 2_000_000
_HOUR: Final = 180_000  # transactions
_RATE: Final = 50.0


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is."""

    tables: int
    rows: int  # of all tables
    backlog: int  # transactions after the comparison
    rate: float  # transactions in a second, until the fence
    way_back: bool


class Scene:
    """Two servers, a task that follows, and an application."""

    def __init__(self, source: ThrowawayServer, target: ThrowawayServer, daemon: Daemon, size: Size) -> None:
        self.source, self.target, self.daemon, self.size = source, target, daemon, size
        self._draw = random.Random(1)
        self._each = size.rows // size.tables

    def fill(self) -> None:
        """The same rows on both sides, so that no load is needed."""
        for server in (self.source, self.target):
            server.execute("CREATE DATABASE bench", f"SET GLOBAL cte_max_recursion_depth = {self._each}")
            for number in range(self.size.tables):
                server.execute(
                    "USE bench",
                    f"CREATE TABLE t{number} (id INT PRIMARY KEY, k INT, c CHAR(60), pad VARCHAR(60))",
                    f"INSERT INTO t{number} WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i <"
                    f" {self._each - 1}) SELECT i, i * 7, LEFT(SHA2(i, 256), 60), REPEAT('x', 40) FROM n",
                )

    def _statement(self) -> str:
        table, key, what = self._draw.randrange(self.size.tables), self._draw.randrange(self._each), self._draw.random()
        if what < 0.8:
            return f"UPDATE bench.t{table} SET k = k + 1 WHERE id = {key}"
        if what < 0.9:
            return f"REPLACE INTO bench.t{table} VALUES ({self._each + key}, 1, 'new', 'row')"
        return f"DELETE FROM bench.t{table} WHERE id = {key}"

    def write_backlog(self) -> None:
        """Each statement is a transaction; they are sent together, and synced seldom."""
        with closing(self._session()) as session, session.cursor() as cursor:
            for _ in range(self.size.backlog):
                cursor.execute(self._statement())

    def _session(self) -> pymysql.Connection[pymysql.cursors.Cursor]:
        return self.source.connect(user="app", password=_PASSWORD, autocommit=True)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """At the rate, until the server refuses."""
        stop = threading.Event()

        def run() -> None:
            with closing(self._session()) as session, session.cursor() as cursor:
                while not stop.wait(1 / self.size.rate):
                    try:
                        cursor.execute(self._statement())
                    except pymysql.err.OperationalError:
                        return

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def synced(self) -> None:
        """Wait until the target has everything."""
        self.daemon.must("wait", "move", "--synced", "--timeout", "3600")

    def cut_over(self, prove: str) -> dict[str, Any]:
        """Seconds of each part."""
        words = () if self.size.way_back else ("--no-way-back",)
        told = "" if prove == "recent" else _TOLD.findall(self.daemon.said("cut-over", "move", "--dry-run", *words).out)
        with self.writing():
            done = self.daemon.must(
                "cut-over", "move", "--yes", "--prove", prove, "--timeout", "3600", "-o", "json", *words
            )
        row = done.json()["cutOver"]
        times = row["times"]
        known = [(state, times[state]) for state in STATES if state in times]
        found: dict[str, Any] = {state: round(until - since, 2) for (state, since), (_, until) in pairwise(known)}
        again = sum(each["rows"] for each in row["proof"].get("restsOn", {}).values())
        return {
            "prove": prove, "told": told, "took": row["proof"].get("seconds"), "rows again": again, "in": found,
            "without writes": round(times["switched"] - times["fencing"], 2),
            "whole": row["proof"].get("wholeBecause", {}),
        }  # fmt: skip


def measure(size: Size, proofs: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What each kind of proof takes, beginning from a comparison of all rows."""
    options = {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 0}
    for prove in proofs:
        with (
            tempfile.TemporaryDirectory(prefix="dm-bench-") as name,
            ThrowawayServer("mysql", Path(name) / "source", server_id=71, options=options) as source,
            ThrowawayServer("mysql", Path(name) / "target", server_id=72, options=options) as target,
            Daemon(Path(name), fresh=True) as daemon,
        ):
            scene = Scene(source, target, daemon, size)
            for server in (source, target):
                server.create_user("app", _PASSWORD, "ALL ON bench.*")
                server.create_user("dm", _PASSWORD, "ALL ON *.*")
            scene.fill()
            head = f"host: 127.0.0.1, user: dm, password: {_PASSWORD}"
            (daemon.directory / "source.yaml").write_text(
                f"source-id: old\nenable-relay: true\nfrom: {{{head}, port: {source.port}}}\n"
            )
            (daemon.directory / "move.yaml").write_text(
                f"name: move\ntask-mode: incremental\ntarget-database: {{{head}, port: {target.port}}}\n"
                "mysql-instances: [{source-id: old, block-allow-list: all}]\n"
                "block-allow-list: {all: {do-dbs: [bench]}}\n"
            )
            daemon.must("operate-source", "create", "source.yaml")
            daemon.must("start-task", "move.yaml")
            scene.synced()
            if prove == "recent":  # else the time is told without any record
                daemon.must("diff", "move")
            scene.write_backlog()
            scene.synced()
            yield scene.cut_over(prove)


def compare(scale: float) -> Iterator[Comparison]:
    """Seconds without writes beside the goal, and seconds that are told beforehand beside those that pass."""
    size = Size(_TABLES, int(_ROWS * scale), int(_HOUR * scale), _RATE, way_back=True)
    recent, full = measure(size, ("recent", "full"))
    title = f"cut-over of {size.tables} tables, {size.rows:,} rows"
    yield Comparison(
        "cutover.recent", f"{title}: without writes, proof of what is recent",
        Series("dm", "seconds", [recent["without writes"]]), Series("the goal", "seconds", [GOAL_SECONDS]),
        1.0, judged_by="limit", notes={"backlog": size.backlog, **recent},
    )  # fmt: skip
    low, high = sorted((float(full["told"][0]), float(full["took"])))
    yield Comparison(
        "cutover.full", f"{title}: proof of all rows, the longer beside the shorter of told and taken",
        Series("dm", "seconds", [high]), Series("dm", "seconds", [low]),
        GOAL_FACTOR, judged_by="limit", notes={"backlog": size.backlog, **full},
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line of JSON for each kind of proof."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=_TABLES)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--backlog", type=int, default=_HOUR // 10)
    parser.add_argument("--rate", type=float, default=_RATE)
    parser.add_argument("--no-way-back", dest="way_back", action="store_false")
    parser.add_argument("--prove", choices=("recent", "full"), nargs="+", default=("recent", "full"))
    asked = parser.parse_args(arguments)
    for found in measure(Size(asked.tables, asked.rows, asked.backlog, asked.rate, asked.way_back), asked.prove):
        print(json.dumps({**vars(asked), "cores": os.cpu_count(), **found}))


if __name__ == "__main__":
    main()
