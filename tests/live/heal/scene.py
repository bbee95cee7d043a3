"""A task of one or more sources that rests, and heals of it: so few rows that they need no Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dm.config.subtask import SubtaskConfig
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.progress.healed import HEAL
from dm.progress.tables import existing_tables
from dm.spark.session import SparkProvider
from dm.task.payload import HealPayload
from dm.task.progress import key_of
from dm.tools.errands import HealedSubtask, HealRequest
from dm.tools.heal.unit import HealUnit
from tests.testbed.sync import running_sync, wait_until


@dataclass
class Scene:
    """The task's subtasks, and their places."""

    upstreams: Sequence[ThrowawayServer]
    target: PrivateServer
    subtasks: Sequence[SubtaskConfig]
    directory: Path

    def request(self, *only: int, **options: Any) -> HealRequest:
        """What a daemon asks of a host: to heal all sources, or those of these numbers."""
        chosen = only or range(len(self.subtasks))
        healed = tuple(HealedSubtask(self.subtasks[each], None, self._main(self.subtasks[each])) for each in chosen)
        others = tuple(each for number, each in enumerate(self.subtasks) if number not in chosen)
        return HealRequest(healed, others, rows=20, **options)

    def _main(self, subtask: SubtaskConfig) -> Path:
        return self.directory / subtask.source_id

    def heal(self, *only: int, **options: Any) -> dict[str, Any]:
        """What it reports."""
        spark = SparkProvider("local[1]", {}, scratch=self.directory / "spark")
        unit = HealUnit(self.request(*only, **options), spark)
        unit.run(threading.Event())
        report = dict(unit.status())
        assert report["over"], report
        return report

    def heal_is_killed(self, point: str, *only: int) -> None:
        """By SIGKILL, in a process of its own."""
        payload = HealPayload(self.request(*only), self.directory / "spark")
        killed = subprocess.run(
            [sys.executable, "-m", "tests.live.heal.killed"],
            input=json.dumps(payload.to_wire()),
            env=os.environ | {"DM_FAULTS": point},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr

    def unfinished(self) -> list[str]:
        """Sources of which a heal was begun and has not ended."""
        with closing(TargetConnection(self.subtasks[0].target)) as connection:
            keys = [key_of(each) for each in self.subtasks]
            return [
                key.source_id
                for key in keys
                if key.worker in existing_tables(connection, key)
                and connection.query(
                    f"SELECT 1 FROM {key.worker.sql} WHERE id = %s AND lane = %s", (key.source_id, HEAL)
                )
            ]

    def follow(self) -> None:
        """All sources' syncers come to the ends of their binlogs."""
        with ExitStack() as stack:
            running = [
                stack.enter_context(running_sync(each, work_directory=self._main(each))) for each in self.subtasks
            ]
            for each in running:
                each.wait_synced(120)

    def demand_equal(self, tables: dict[str, Sequence[str]]) -> None:
        """Tables of the target have the rows of these tables of the sources, each as often; a heal finds nothing."""
        for table, origins in tables.items():
            there = sorted(self.target.query(f"SELECT * FROM {table}"), key=repr)
            here = [
                row for upstream, origin in zip(self.upstreams, origins, strict=False) if origin
                for row in upstream.query(f"SELECT * FROM {origin}")
            ]  # fmt: skip
            assert there == sorted(here, key=repr), table
        found = self.heal(dry_run=True)
        assert (found["tables"], found["whole"], found["differingChunks"]) == ({}, {}, 0)


@contextmanager
def writing(upstreams: Sequence[ThrowawayServer], schema: str, changes: Sequence[str]) -> Iterator[None]:
    """Changes of numbered rows at all sources while the block runs; `{n}`: a number, `{s}`: which source."""
    over, number, failures = threading.Event(), [1000], list[BaseException]()

    def write() -> None:
        try:
            while not over.wait(0.01):
                number[0] += 1
                for each, upstream in enumerate(upstreams):
                    rows = {"n": number[0], "s": each, "old": number[0] - 7, "low": number[0] % 40 + 1}
                    upstream.execute(f"USE `{schema}`", *(change.format(**rows) for change in changes))
        except BaseException as error:  # raised at the end of the block
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        wait_until(lambda: number[0] > 1003 or bool(failures), "rows are written")
        yield
    finally:
        over.set()
        thread.join()
    if failures:
        raise failures[0]
