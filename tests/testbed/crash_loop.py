"""The crash loop: a hot workload, a syncer (and its relay) that die at drawn points, and in the end equal rows.

One loop is a series of lives. In each life a process is armed with a fault point and a number of passages, is killed or
frozen there, and the next one starts at once, often to die inside the safe-mode window of the one before. A frozen
process is thawed while its successor works, or while it takes over: it must change nothing any more, and end. A round
of lives ends with one that nobody disturbs; then every row is compared.

A loop that did not hurt proves nothing, so it counts what happened (`LoopResult.mild`). And `WITHOUT` takes one
safeguard out of the process under test; the loop must notice each.
"""

from __future__ import annotations

import random
import re
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from dm.demo.compare import compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.demo.workload import Writer
from dm.faults import POINTS
from dm.ident import Ident
from dm.progress.tables import SubtaskKey
from dm.unit import JSON
from tests.testbed.hot_keys import HotKeys
from tests.testbed.loop_result import LoopResult
from tests.testbed.sync import PreparedProcess, RelayProcess, SyncProcess, subtask_for
from tests.testbed.without import WITHOUT

SYNC_POINTS = tuple(sorted(point for point in POINTS if point.startswith("syncer.")))
RELAY_POINTS = tuple(sorted(point for point in POINTS if point.startswith("relay.")))
INSIDE = ("syncer.after_lane_row", "syncer.inside_transaction", "syncer.before_commit")
BATCH_POINTS = (*INSIDE, "syncer.before_begin", "syncer.after_commit")  # passed with every target transaction
DDL_POINTS = frozenset({"syncer.before_intent", "syncer.before_ddl", "syncer.after_ddl"})  # with every piece
ALTERED_POINTS = DDL_POINTS | {"syncer.after_ddl_record"}  # need a DDL in the life
LEAST_FOR_CONFLICTS = 1 << 20  # a quarter of the quota is for the keys that are remembered
POINT_SECONDS = 180.0  # a point that can be passed is passed in this time, also on a machine that is loaded
_PIECES = 2  # of the scene's first ALTER; later ones have more

# How the next life ends: at a drawn point, inside a transaction, right after the one before, frozen, at any time.
Kind = Literal["drawn", "inside", "again", "freeze", "ddl", "arbitrary"]
_WEIGHTS: Mapping[Kind, int] = {"drawn": 10, "inside": 1, "again": 3, "freeze": 2, "ddl": 1, "arbitrary": 2}

# It waited in vain for a row that a frozen process holds: the safeguard that ends such sessions is out. A task tries
# again after that.
_WAITED = re.compile(r"code=36926.*RawCause: 1205 ")


class CrashLoop:
    """One loop on one pair of servers; a context manager that ends what it started."""

    def __init__(
        self,
        upstream: ThrowawayServer,
        target: PrivateServer,
        schema: str,
        directory: Path,
        *,
        seed: int,
        relay: bool,
        without: str | None = None,
        agenda: Sequence[Kind] = ("inside", "again", "freeze", "ddl"),
        rate: float = 150.0,
        memory_quota: int = 128 << 20,
    ) -> None:
        self.result = LoopResult(seed, upstream.flavor, relay, spooling=memory_quota < LEAST_FOR_CONFLICTS)
        self.points = (*SYNC_POINTS, *(RELAY_POINTS if relay else ()))
        self._upstream = upstream
        self._target = target
        self._schema = schema
        self._chance = random.Random(seed)
        self._log = directory / f"{schema}.faults"
        self._log.touch()
        self._relay_directory = directory / f"{schema}.relay"
        self._patch = WITHOUT[without] if without else ""
        self._agenda: deque[Kind] = deque(agenda)
        self._subtask = subtask_for(upstream, target, schema, task=schema, workers=4, memory_quota=memory_quota)
        self._key = SubtaskKey(self._subtask.meta_schema, self._subtask.task, self._subtask.source_id)
        self._scene = HotKeys(schema, tidb=target.tidb)
        self._writer = Writer(upstream, self._scene, seed=seed, rate=rate)
        self._relay: RelayProcess | None = None
        self._frozen: SyncProcess | None = None  # stands still inside a transaction
        self._ghost: SyncProcess | None = None  # was frozen, goes on beside its successor
        self._next = PreparedProcess()

    def __enter__(self) -> Self:
        for server in (self._upstream, self._target):
            server.execute(f"DROP DATABASE IF EXISTS {Ident(self._schema).sql}", *self._scene.create())
        if self.result.relay:
            self._relay = self._relay_process()
        # The task's first checkpoint is its start, so it must exist before the first row.
        first = self._process()
        try:
            first.wait_synced()
        finally:
            first.close()
        self._writer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in (self._frozen, self._ghost, self._relay):
            if process is not None:
                process.close(kill=True)
        self._next.discard()
        self._writer.stop()

    def round(self, lives: int) -> LoopResult:
        """That many lives and a clean one, then compare; nothing happens any more once there is a problem."""
        began = time.monotonic()
        for _ in range(lives):
            if self.result.identical:
                self._life()
        if self.result.identical:
            self._writer.pause()
            self._clean_life()
            self._writer.resume()
        self.result.seconds += time.monotonic() - began
        return self.result

    def unfired(self) -> list[str]:
        """The points at which nobody died so far."""
        return [point for point in self.points if not self.result.fired[point]]

    # -- Lives

    def _life(self) -> None:
        kind = self._agenda.popleft() if self._agenda else self._draw_kind()
        point, passages, freeze = self._draw_point(kind)
        self.result.lives += 1
        if point in RELAY_POINTS:
            self._relay_life(point)
            return
        before = self._strikes()
        process = self._process(f"{point}={'stop' if freeze else 'kill'}@{passages}" if point else "")
        if point and self._frozen is not None and self._chance.random() < 0.3:
            self._thaw()  # while its successor takes over
        if self._chance.random() < 0.15:
            self._writer.alter()
        alter_due = point in ALTERED_POINTS

        def over() -> bool:
            nonlocal alter_due
            if alter_due and "checkpoint" in self._status:
                # Not before it has taken over: a predecessor that was thawed may still execute the DDL, and rightly so.
                alter_due = False
                self._writer.alter()
            return freeze and self._strikes() > before

        if not point:
            self._watch(process, lambda: False, self._chance.uniform(0, 3))
            process.process.kill()
            self.result.arbitrary += 1
        elif self._watch(process, over, POINT_SECONDS):
            if self._strikes() > before:
                self.result.fired[point] += 1
                self.result.inside_transaction += point in INSIDE
        else:
            process.process.kill()
            self.result.problem = self.result.problem or f"{point} was not passed {passages} times in {POINT_SECONDS} s"
        if freeze and not process.ended:
            self._frozen = process
        else:
            self._bury(process)

    def _relay_life(self, point: str) -> None:
        """The relay dies at a point while the syncer reads its files; both go on; then the syncer is killed."""
        assert self._relay is not None
        self._relay.close(kill=self._chance.random() < 0.5)
        before = self._strikes()
        # The first passages are those of the way back to where the relay was. A write that ends inside a transaction is
        # rare where the source sends faster than it commits.
        passages = 1 if point == "relay.inside_transaction" else self._chance.randrange(1, 6)
        relay = self._relay = self._relay_process(f"{point}=kill@{passages}")
        process = self._process()

        def died() -> bool:
            if point == "relay.rotate" and self._chance.random() < 0.2:
                self._upstream.execute("FLUSH BINARY LOGS")
            return relay.ended

        if not self._watch(process, died, POINT_SECONDS):
            self.result.problem = self.result.problem or f"{point} was not passed"
        code = relay.process.poll()
        if self._strikes() > before:
            self.result.fired[point] += 1
        if code not in (None, -signal.SIGKILL):
            self.result.problem = f"a relay process ended by itself ({code}): {relay.errors()[-2000:]}"
        relay.close()
        self._relay = self._relay_process()
        events = 0

        def goes_on() -> bool:
            nonlocal events
            seen = self._status.get("totalEvents")
            events = events or (seen if isinstance(seen, int) else 0)
            return isinstance(seen, int) and seen > events

        if not self._watch(process, goes_on, POINT_SECONDS):
            self.result.problem = self.result.problem or f"nothing is read after a relay was killed at {point}"
        self._watch(process, lambda: False, self._chance.uniform(0, 0.5))
        process.process.kill()
        self.result.arbitrary += 1
        self._bury(process)

    def _watch(self, process: SyncProcess, over: Callable[[], bool], seconds: float) -> bool:
        """Follow a life until it ends or `over`; False when time ran out first. Thaws the frozen one on the way."""
        self._status: Mapping[str, JSON] = {}
        deadline = time.monotonic() + seconds
        while not process.ended and not over():
            if time.monotonic() > deadline:
                return False
            self._status = process.poll_status() or self._status
            if self._frozen is not None and "checkpoint" in self._status:
                self._thaw()
        return True

    def _bury(self, process: SyncProcess) -> None:
        """Take what a dead process leaves: its counters, how it ended, in which state."""
        code = process.process.wait(30)
        errors = process.errors()
        if code != -signal.SIGKILL and not (self._patch and _WAITED.search(errors)):
            self.result.problem = f"a sync process ended by itself ({code}): {errors[-3000:]}"
        process.close()
        self.result.add(self._status)
        # The bound stays stored until the checkpoint covers it: it died in the window that another's death left.
        rows = self._target.query(
            f"SELECT exit_safe_binlog_name FROM {self._key.checkpoint.sql} WHERE id = %s AND is_global",
            (self._key.source_id,),
        )
        self.result.second_kills += bool(rows and rows[0][0])
        self._lay_ghost()

    def _clean_life(self) -> None:
        process = self._process()
        try:
            status = process.wait_synced(120)
            if self._frozen is not None:
                self._thaw()
                self._lay_ghost()
                status = process.wait_synced(120)
            self.result.add(status)
        except AssertionError as error:
            self.result.problem = str(error)
            return
        finally:
            process.close()
            self._lay_ghost()
        report = compare(pair_tables([self._upstream], [self._schema]), self._target)
        self.result.rounds += 1
        if not report.identical:
            self.result.problem = str(report)

    # -- What is drawn

    def _draw_kind(self) -> Kind:
        kind = self._chance.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()))[0]
        # How many of the drawn lives end in the window of another depends on the machine: 5 to 16 of the same 45.
        return "again" if self.result.lacks_second_kills and self.result.lives % 2 else kind

    def _draw_point(self, kind: Kind) -> tuple[str, int, bool]:
        """A point ("" for none), at which passage, and whether to freeze there instead of to kill."""
        chance = self._chance
        if kind == "arbitrary":
            return "", 0, False
        if kind == "freeze":
            return chance.choice(INSIDE), chance.randrange(1, 40), self._frozen is None
        if kind == "inside":
            return chance.choice(INSIDE), chance.randrange(20, 80), False
        if kind == "again":
            return chance.choice(BATCH_POINTS), chance.randrange(1, 5), False
        if kind == "ddl":
            return chance.choice(sorted(DDL_POINTS)), chance.randrange(1, _PIECES + 1), False
        point = chance.choice(self.unfired() or self.points)
        if point in BATCH_POINTS:
            return point, chance.randrange(1, 60), False
        return point, chance.randrange(1, _PIECES + 1) if point in DDL_POINTS else 1, False

    # -- Processes

    def _process(self, faults: str = "") -> SyncProcess:
        ready, self._next = self._next, PreparedProcess()
        return SyncProcess(
            self._subtask,
            relay_directory=self._relay_directory if self.result.relay else None,
            faults=faults,
            fault_log=self._log,
            patch=self._patch,
            ready=ready,
        )

    def _relay_process(self, faults: str = "") -> RelayProcess:
        return RelayProcess(self._subtask.source, self._relay_directory, faults=faults, fault_log=self._log)

    def _strikes(self) -> int:
        return self._log.read_bytes().count(b"\n")

    def _thaw(self) -> None:
        """Let the frozen process go on beside its successor."""
        assert self._frozen is not None
        self._lay_ghost()
        self._frozen.thaw()
        self._ghost, self._frozen = self._frozen, None
        self.result.thawed += 1

    def _lay_ghost(self) -> None:
        """The thawed process must have found that it was replaced; without that safeguard it is just ended."""
        ghost, self._ghost = self._ghost, None
        if ghost is None:
            return
        if not self._patch:
            try:
                code = ghost.process.wait(30)
            except subprocess.TimeoutExpired:
                self.result.problem = "a process that was replaced goes on"
            else:
                errors = ghost.errors()
                if code != 1 or "DMError" not in errors:
                    self.result.problem = f"a process that was replaced ended with {code}: {errors[-2000:]}"
        ghost.close(kill=True)
