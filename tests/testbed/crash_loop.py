"""The crash loop: a hot workload, a syncer (and its relay) that die at drawn points, and in the end equal rows.

One loop is a series of lives. In each life one process is armed with one fault point and a number of passages, killed or
frozen there, and the next one starts at once, often still inside the safe-mode window of the one before. A frozen process
is thawed while its successor works: it must change nothing any more. The last life is clean; then every row is compared.

A loop that did not hurt proves nothing, so it also counts: kills inside a target transaction, conflicts, batches, rows in
safe mode. And `WITHOUT` takes one safeguard out of the process under test; the loop must notice each.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dm.demo.compare import compare, pair_tables
from dm.demo.hot_keys import HotKeys
from dm.demo.servers import ThrowawayServer
from dm.demo.workload import Writer
from dm.faults import POINTS
from dm.unit import JSON
from tests.testbed.sync import RelayProcess, SyncProcess, subtask_for, wait_until

SYNC_POINTS = tuple(sorted(point for point in POINTS if point.startswith("syncer.")))
RELAY_POINTS = tuple(sorted(point for point in POINTS if point.startswith("relay.")))
DDL_POINTS = frozenset({"syncer.before_intent", "syncer.before_ddl", "syncer.after_ddl", "syncer.after_ddl_record"})
INSIDE = frozenset({"syncer.after_lane_row", "syncer.inside_transaction", "syncer.before_commit"})
# Passed once in a life, or once in a second; all others are passed with every target transaction.
RARE_POINTS = DDL_POINTS | {"syncer.bound_persisted", "syncer.before_checkpoint", "syncer.after_checkpoint"}

# Each patch takes one safeguard out of a sync process; the names are those of the model.
WITHOUT: Mapping[str, str] = {
    "conflict detector": """
import itertools
from dm.syncer.conflict_detector import ConflictDetector
turn = itertools.count()
ConflictDetector.place = lambda self, keys: next(turn) % self._workers
""",
    "bound": """
from dm.target.progress.takeover import Takeover
Takeover.bound = lambda self: None
""",
    "epoch": """
from dm.target.progress import lanes, takeover
from dm.target.progress.fence import Fence
Fence.take = lambda self, connection, lane: None
def take_without_waiting(connection, key, names):
    if not lanes.read_lanes(connection, key):
        lanes._insert_missing(connection, key, names, epoch=1)
    return 1, lanes.read_lanes(connection, key)
takeover.raise_epoch = take_without_waiting
def unguarded(self, connection, position):
    self.batch += 1
    values = [self.batch, *lanes.position_columns(position)] if position else [self.batch]
    columns = ["batch", "binlog_name", "binlog_pos", "binlog_gtid", "server_uuid"][: len(values)]
    connection.execute(
        f"UPDATE {self.key.worker.sql} SET " + ", ".join(f"{column} = %s" for column in columns)
        + " WHERE id = %s AND lane = %s", (*values, self.key.source_id, self.lane))
lanes.LaneClaim.advance = unguarded
""",
    "keyless position": """
from dm.target.progress.takeover import Takeover
Takeover.keyless_done = lambda self: None
""",
}


@dataclass
class LoopResult:
    """What one loop did and found."""

    seed: int
    flavor: str
    lives: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    inside_transaction: int = 0
    thawed: int = 0
    rows: int = 0
    batches: int = 0
    conflicts: int = 0
    safe_mode_rows: int = 0
    ddl: int = 0
    problem: str = ""  # empty: the target is identical and nobody complained

    @property
    def identical(self) -> bool:
        """Whether the loop ended as it must."""
        return not self.problem

    def add(self, status: Mapping[str, JSON]) -> None:
        """Take the counters of a life that is over."""

        def number(name: str) -> int:
            value = status.get(name)
            return value if isinstance(value, int) else 0

        self.rows += number("totalRows")
        self.batches += number("batches")
        self.conflicts += number("conflicts")
        self.safe_mode_rows += number("safeModeRows")
        self.ddl += number("ddlExecuted")


class CrashLoop:
    """One loop on one pair of servers."""

    def __init__(
        self,
        upstream: ThrowawayServer,
        target: ThrowawayServer,
        schema: str,
        directory: Path,
        *,
        seed: int,
        relay: bool,
        without: str | None = None,
        points: Sequence[str] = SYNC_POINTS,
        freezing: float = 0.4,
    ) -> None:
        self._upstream = upstream
        self._target = target
        self._schema = schema
        self._chance = random.Random(seed)
        self._log = directory / "faults.log"
        self._relay_directory = directory / "relay" if relay else None
        self._patch = WITHOUT[without] if without else ""
        self._points = list(points)
        self._freezing = freezing
        self._subtask = subtask_for(upstream, target, schema, task=schema, workers=4)
        self._frozen: SyncProcess | None = None  # stands still inside a transaction
        self._ghost: SyncProcess | None = None  # was frozen, goes on beside its successor
        self.result = LoopResult(seed, upstream.flavor)

    def run(self, lives: int, *, rate: float = 150.0) -> LoopResult:
        """Run that many armed lives and a clean one, then compare."""
        scene = HotKeys(self._schema)
        for server in (self._upstream, self._target):
            server.execute(*scene.create())
        relay: RelayProcess | None = None
        try:
            if self._relay_directory is not None:
                relay = RelayProcess(self._subtask.source, self._relay_directory)
            # The task's first checkpoint is its start, so it must exist before the first row.
            first = self._process("")
            try:
                first.wait_synced()
            finally:
                first.close()
            with Writer(self._upstream, scene, seed=self.result.seed, rate=rate) as writer:
                for _ in range(lives):
                    relay = self._life(writer, relay)
                    if self.result.problem:
                        return self.result
            self._last_life()
        finally:
            for process in (self._frozen, self._ghost):
                if process is not None:
                    process.close(kill=True)
            if relay is not None:
                relay.close()
        return self.result

    def _process(self, faults: str) -> SyncProcess:
        return SyncProcess(
            self._subtask, relay_directory=self._relay_directory, faults=faults, fault_log=self._log, patch=self._patch
        )

    def _life(self, writer: Writer, relay: RelayProcess | None) -> RelayProcess | None:
        result = self.result
        point = self._chance.choice(self._points)
        passages = 1 if point in RARE_POINTS else self._chance.randrange(1, 60)
        freeze = self._frozen is None and point in INSIDE and self._chance.random() < self._freezing
        if relay is not None and self._chance.random() < 0.3:
            relay.close(kill=True)
            relay_point = self._chance.choice(RELAY_POINTS)
            relay = RelayProcess(
                self._subtask.source,
                self._relay_directory,
                faults=f"{relay_point}=kill@{self._chance.randrange(1, 10)}",
                fault_log=self._log,
            )
        before = self._fired()
        process = self._process(f"{point}={'stop' if freeze else 'kill'}@{passages}")
        result.lives += 1
        if point in DDL_POINTS or self._chance.random() < 0.2:
            writer.alter()
        status: Mapping[str, JSON] = {}

        def struck() -> bool:
            return self._fired() != before and (freeze or process.process.poll() is not None)

        def over() -> bool:
            nonlocal status
            if self._frozen is not None and "checkpoint" in status:
                self._thaw()
            if relay is not None:
                relay.revive()
            if struck() or process.process.poll() is not None:
                return True
            status = process.poll_status() or status
            return False

        # A point may not be passed often enough in a life; then the life ends by a kill at an arbitrary moment.
        try:
            wait_until(over, f"fault point {point}", seconds=self._chance.uniform(8, 15))
        except AssertionError:
            process.process.kill()
        if freeze and struck():
            self._frozen = process
            result.fired[point] += 1
            result.inside_transaction += 1
        else:
            code = process.process.wait(30)
            if self._fired() != before:
                result.fired[point] += 1
                result.inside_transaction += point in INSIDE
            if code != -signal.SIGKILL:
                result.problem = f"a sync process ended by itself ({code}): {process.errors()[-2000:]}"
            process.close()
            self._lay_ghost()
        result.add(status)
        return relay

    def _fired(self) -> int:
        """How many strikes of sync points were logged."""
        if not self._log.exists():
            return 0
        return sum(line.startswith("syncer.") for line in self._log.read_text().splitlines())

    def _thaw(self) -> None:
        """Let the frozen process go on beside its successor."""
        assert self._frozen is not None
        os.kill(self._frozen.process.pid, signal.SIGCONT)
        self._ghost, self._frozen = self._frozen, None
        self.result.thawed += 1

    def _lay_ghost(self) -> None:
        """The thawed process must have found that it was replaced; without that safeguard it is just ended."""
        ghost, self._ghost = self._ghost, None
        if ghost is None:
            return
        if self._patch:
            ghost.close(kill=True)
            return
        if ghost.process.wait(30) != 1:
            self.result.problem = f"a process that was replaced ended with {ghost.process.returncode}"
        ghost.close()

    def _last_life(self) -> None:
        result = self.result
        process = self._process("")
        try:
            status = process.wait_synced(120)
            if self._frozen is not None:
                self._thaw()
                self._lay_ghost()
                status = process.wait_synced(120)
            result.add(status)
        except AssertionError as error:
            result.problem = str(error)
            return
        finally:
            process.close()
        report = compare(pair_tables([self._upstream], [self._schema]), self._target)
        if not report.identical:
            result.problem = str(report)
