"""Tasks at rest: what each of many tasks costs while its source writes nothing.

    python -m benchmarks.at_rest --tasks 1 --tasks 10 --tasks 50

One daemon, one source with a relay, one table per task. Told for each number of tasks: proportional set size (pages
that processes share are divided among them), threads, descriptors, sessions at the target, and the share of a core, of
the daemon, the process that hosts are forked from, the relay, and the average syncer.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import process_seconds
from dm.demo.servers import ThrowawayServer
from tests.testbed import figures
from tests.testbed.daemon import Daemon

_PASSWORD: Final = "rest"
_FORKS: Final = "dm.task.host_forks"
_PAGE: Final = figures.ROOT / "docs" / "service.md"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line of JSON for each number of tasks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, action="append")
    parser.add_argument("--seconds", type=float, default=20.0, help="over which the processor's time is taken")
    parser.add_argument("--settle", type=float, default=45.0, help="seconds at rest before anything is looked at")
    parser.add_argument("--keep", action="store_true", help="write docs/service.md")
    asked = parser.parse_args(arguments)
    found = []
    for count in asked.tasks or [1, 10, 50]:
        found.append(measured(count, asked.settle, asked.seconds))
        print(json.dumps(found[-1]), flush=True)
    if asked.keep:
        figures.tell(_PAGE, "at rest", f"Measured on {datetime.now(UTC):%Y-%m-%d}:\n\n{told(found)}")


def told(found: Sequence[Mapping[str, Any]]) -> str:
    """As docs/service.md has it."""
    columns = ("PSS MiB", "% of a core", "threads", "descriptors", "target sessions")
    rows = []
    for one in found:
        for name in ("dm-worker", "fork server", "relay", "a syncer"):
            rows.append((name, one["tasks"], *(one[name].get(column, "") for column in columns)))
        rows.append(("all together", one["tasks"], one["all together, PSS MiB"], *[""] * (len(columns) - 1)))
    return figures.table(("process", "tasks", *columns), rows)


def measured(count: int, settle: float, seconds: float) -> dict[str, Any]:
    """A fresh daemon with so many tasks."""
    options = {"max_connections": 5000}
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as name,
        ThrowawayServer("mariadb", Path(name) / "one", server_id=61) as source,
        ThrowawayServer("mariadb", Path(name) / "target", server_id=62, options=options) as target,
        Daemon(Path(name), fresh=True) as daemon,
    ):
        for server in (source, target):
            server.create_user("dm", _PASSWORD, "ALL ON *.*")
        began = time.monotonic()
        _start(daemon, source, target, count)
        started = time.monotonic() - began
        time.sleep(settle)
        processes = {**daemon.hosts(), "dm-worker": daemon.pid, **_server_of(daemon.pid)}
        before, at = {each: process_seconds(pid) for each, pid in processes.items()}, time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - at
        shares = {each: 100 * (process_seconds(pid) - before[each]) / passed for each, pid in processes.items()}
        sessions = int(target.query("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'dm'")[0][0])
        found = {each: {**_taken(pid), "% of a core": round(shares[each], 2)} for each, pid in processes.items()}
    syncers = [taken for each, taken in found.items() if each.startswith("sync:")]
    others = {each.partition(":")[0]: taken for each, taken in found.items() if not each.startswith("sync:")}
    mean = {what: round(sum(one[what] for one in syncers) / count, 2) for what in syncers[0]}
    total = round(sum(taken["PSS MiB"] for taken in found.values()))
    return {
        "tasks": count, "start seconds": round(started, 1), "all together, PSS MiB": total,
        "a syncer": {**mean, "target sessions": round(sessions / count, 1)}, **others,
    }  # fmt: skip


def _start(daemon: Daemon, source: ThrowawayServer, target: ThrowawayServer, count: int) -> None:
    head = f"host: 127.0.0.1, user: dm, password: {_PASSWORD}"
    (daemon.directory / "s.yaml").write_text(
        f"source-id: s\nenable-relay: true\nfrom: {{{head}, port: {source.port}}}\n"
    )
    daemon.must("operate-source", "create", "s.yaml")
    for number in range(count):
        name = f"t{number}"
        source.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
        target.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
        (daemon.directory / f"{name}.yaml").write_text(
            f"name: {name}\ntask-mode: incremental\nignore-checking-items: [all]\n"
            f"target-database: {{{head}, port: {target.port}}}\n"
            "mysql-instances: [{source-id: s, block-allow-list: l}]\n"
            f"block-allow-list: {{l: {{do-dbs: [{name}]}}}}\n"
        )
        daemon.must("start-task", f"{name}.yaml")
    for number in range(count):
        source.execute(f"INSERT INTO t{number}.t VALUES (1)", "COMMIT")
    for number in range(count):
        daemon.wait(f"t{number}", _synced, "synced", seconds=600)


def _synced(status: Mapping[str, Mapping[str, Any]]) -> bool:
    return bool((status["s"].get("sync") or {}).get("synced"))


def _server_of(daemon: int) -> dict[str, int]:
    for file in Path(f"/proc/{daemon}/task").glob("*/children"):
        for child in file.read_text(encoding="ascii").split():
            if _FORKS in Path(f"/proc/{child}/cmdline").read_text(encoding="utf-8", errors="replace"):
                return {"fork server": int(child)}
    return {}


def _taken(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    pss = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return {
        "PSS MiB": round(pss / 1024, 1),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
    }


if __name__ == "__main__":
    main()
