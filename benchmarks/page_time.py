"""How long the daemon takes for each page, with 100 tasks, of which one has 500 tables.

Run it with `.venv/bin/python -m benchmarks.page_time`. The daemon is in this process, its units are staged, and the
client is on the same machine. Printed are the median and the longest of some rounds, in milliseconds, and how many
questions to servers all rounds have asked.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

import httpx

from dm.unit import JSON
from tests.testbed.staged_daemon import counted_table, staged, syncing

TASKS: Final = 100
TABLES: Final = 500
ROUNDS: Final = 30
PATHS: Final = ("", "tasks/task-000", "tasks/task-001", "sources", "ddl", "timeline", "logs", "settings")


def main() -> None:
    """Print a line for each page."""
    tasks = {f"task-{number:03}": ("one",) for number in range(TASKS)}
    tables: list[JSON] = [counted_table(f"shop.t{number}") for number in range(50)]
    compared: list[JSON] = [
        {"table": f"shop.c{number}", "verdict": "equal", "partly": False, "began": 1.7e9}
        for number in range(TABLES - 50)
    ]
    with tempfile.TemporaryDirectory() as directory, staged(Path(directory) / "home", tasks) as one:
        for number, task in enumerate(tasks):
            one.say(task, "one", syncing(float(number % 5), tables=tables, compared=[] if number else compared))
        with httpx.Client(base_url=one.url) as client:
            client.post("/page/login", data={"token": one.token})
            for path in PATHS:
                client.get(f"/page/{path}").raise_for_status()  # templates are compiled once
                took = []
                for _ in range(ROUNDS):
                    began = time.perf_counter()
                    client.get(f"/page/{path}").raise_for_status()
                    took.append(1000 * (time.perf_counter() - began))
                print(f"/page/{path:16} median {statistics.median(took):6.1f} ms, longest {max(took):6.1f} ms")
        print(f"questions to servers: {one.hosts.questions}")


if __name__ == "__main__":
    main()
