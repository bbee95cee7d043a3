"""One seed of the convergence test: random tables, random statements, a syncer killed and cut off meanwhile.

The workload is one session's, so a seed plays the same statements each time; the tables themselves are made while the
syncer follows. Each life of the syncer meets a part of it, through proxies that cut its connections, with random delays
around its target transactions, and ends by a SIGKILL at a drawn point or at any time, or by the error of a cut, which
must be one that auto-resume tries again. The last life is left alone; then every row and structure is compared.

`statements.sql` in the directory of a seed says what was executed, and what was refused.
"""

from __future__ import annotations

import random
import re
import signal
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dm.config.endpoint import Endpoint
from dm.demo.compare import compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.errors.catalogue import CATALOGUE
from dm.ident import Ident
from dm.unit import JSON
from tests.testbed.crash_loop import BATCH_POINTS, SYNC_POINTS
from tests.testbed.proxy import DIRECTIONS, FaultProxy
from tests.testbed.random_table import Dialect
from tests.testbed.random_workload import RandomWorkload
from tests.testbed.sync import PreparedProcess, SyncProcess, subtask_for

WORKERS = 16
BATCHES = (1, 3, 100)
SYNC_SECONDS = 300.0  # on a machine that has other things to do
START_SECONDS = 60.0  # of a life, until it follows; one that is not left alone may also end before
# Transactions of different lanes meet in another order each time.
DELAYS = """
import random, time
from dm import faults
hit = faults.hit
def hit_late(point):
    if point in ("syncer.before_begin", "syncer.before_commit", "syncer.after_commit") and random.random() < 0.15:
        time.sleep(random.random() ** 3 * 0.1)
    hit(point)
faults.hit = hit_late
"""
_CODE = re.compile(r"\[code=(\d+):")
_RETRYABLE = {kind.code for kind in CATALOGUE.values() if kind.retryable}


def codes_of(errors: str) -> list[int]:
    """The codes of the errors in what a process wrote."""
    return [int(found) for found in _CODE.findall(errors)]


@dataclass
class ConvergenceResult:
    """The figures of one seed; `problem` is empty when the target is identical and nobody complained."""

    seed: int
    flavor: str
    lives: int = 0
    kills: int = 0
    cuts: int = 0
    cut_lives: int = 0  # lives that ended by the error of a cut
    transactions: int = 0
    ddl: int = 0
    statements: int = 0
    refused: int = 0
    applied: Counter[str] = field(default_factory=Counter)  # counters of all lives
    rows: int = 0  # that were compared
    tables: int = 0
    seconds: float = 0.0
    paused: int = 0  # the code of a pause that the documents demand of this pair of servers; nothing is compared then
    problem: str = ""

    def figures(self) -> dict[str, JSON]:
        """As they are recorded, those of many seeds added up."""
        return {
            "lives": self.lives, "kills": self.kills, "cuts": self.cuts, "lives ended by a cut": self.cut_lives,
            "transactions": self.transactions, "ddl": self.ddl, "statements": self.statements,
            "refused statements": self.refused, "applied rows": self.applied["totalRows"],
            "rows applied as events": self.applied["eventRows"],
            "rows in safe mode": self.applied["safeModeRows"], "conflicts": self.applied["conflicts"],
            "compared rows": self.rows, "compared tables": self.tables,
        }  # fmt: skip


class Convergence:
    """One seed on one pair of servers."""

    def __init__(
        self,
        upstream: ThrowawayServer,
        target: PrivateServer,
        schema: str,
        directory: Path,
        *,
        seed: int,
        lives: int = 4,
        transactions: int = 60,
        tables: int = 6,
        dialect: Dialect | None = None,
        pauses: Collection[int] = (),
    ) -> None:
        self.result = ConvergenceResult(seed, upstream.flavor)
        self._upstream = upstream
        self._target = target
        self._schema = schema
        self._directory = directory
        self._lives = lives
        self._transactions = transactions  # of each life
        self._first_tables = tables
        self._dialect = dialect
        self._pauses = pauses
        self._chance = random.Random(seed)
        self._disorder = random.Random(seed ^ 0x5EED)  # of kills and cuts, so that the workload depends on nothing else
        self._seen: Mapping[str, JSON] = {}

    def run(self) -> ConvergenceResult:
        """Everything; the servers are left with the schema."""
        began = time.monotonic()
        with (
            FaultProxy(self._upstream.host, self._upstream.port) as source,
            FaultProxy(self._target.host, self._target.port) as target,
            (self._directory / "statements.sql").open("w", encoding="utf-8") as log,
        ):
            self._source_proxy, self._target_proxy = source, target
            plain = subtask_for(
                self._upstream,
                self._target,
                self._schema,
                task=self._schema,
                workers=WORKERS,
                # Little is in the making at a time, and one lane's batch would hold it: smaller ones use all lanes.
                batch=BATCHES[self.result.seed % len(BATCHES)],
                checkpoint_flush_interval=1,
            )
            near = self._through(source, plain.source.endpoint)
            self._subtask = plain.model_copy(
                update={
                    "source": plain.source.model_copy(update={"endpoint": near}),
                    "target": self._through(target, plain.target),
                }
            )
            self._ready = PreparedProcess()
            connection = self._upstream.connect(autocommit=True)
            try:
                with connection.cursor() as cursor:
                    flavor = self._upstream.flavor
                    self._workload = RandomWorkload(cursor, self._schema, flavor, self._chance, log, self._dialect)
                    self._play()
            finally:
                result, workload = self.result, self._workload
                result.transactions, result.ddl = workload.transactions, workload.ddl
                result.statements, result.refused = workload.statements, workload.refused
                connection.close()
                self._ready.discard()
        self.result.seconds = time.monotonic() - began
        return self.result

    @staticmethod
    def _through(proxy: FaultProxy, endpoint: Endpoint) -> Endpoint:
        return endpoint.model_copy(update={"host": proxy.host, "port": proxy.port})

    def _play(self) -> None:
        process = self._process("")
        try:
            process.wait_synced(SYNC_SECONDS)  # the task's start is stored before the first table is made
            self._workload.create_tables(self._first_tables)
        except AssertionError as error:
            self.result.problem = str(error)
            process.close(kill=True)
            return
        for life in range(self._lives):
            self._life(process)
            if self._over:
                return
            process = self._process(self._draw_faults() if life + 1 < self._lives else "")
        self._last(process)

    @property
    def _over(self) -> bool:
        return bool(self.result.problem or self.result.paused)

    # -- Lives

    def _process(self, faults: str) -> SyncProcess:
        ready, self._ready = self._ready, PreparedProcess()
        self.result.lives += 1
        self._seen = {}
        return SyncProcess(self._subtask, faults=faults, patch=DELAYS, ready=ready)

    def _draw_faults(self) -> str:
        chance = self._disorder
        if chance.random() < 0.3:
            return ""
        point = chance.choice((*SYNC_POINTS, *BATCH_POINTS))
        return f"{point}=kill@{chance.randrange(1, 120) if point in BATCH_POINTS else chance.choice((1, 1, 2, 5))}"

    def _life(self, process: SyncProcess) -> None:
        """Write while it runs; cut it off now and then; kill it in the end."""
        chance = self._disorder
        cuts = {chance.randrange(self._transactions) for _ in range(chance.choice((0, 1, 1, 2)))}
        for number in range(self._transactions):
            self._workload.transaction()
            self._seen = process.poll_status() or self._seen if number % 4 == 0 else self._seen
            if number in cuts:
                self._cut()
            if process.ended:
                self._bury(process)
                if self._over:
                    return
                process = self._process("")
        latest = time.monotonic() + START_SECONDS
        while not process.ended and "checkpoint" not in self._seen and time.monotonic() < latest:
            self._seen = process.poll_status() or self._seen
        until = time.monotonic() + chance.uniform(0, 1.5)
        while not process.ended and time.monotonic() < until:
            self._seen = process.poll_status() or self._seen
        self._target_proxy.heal()
        self._source_proxy.heal()
        if not process.ended:
            process.process.kill()
        self._bury(process)

    def _cut(self) -> None:
        chance = self._disorder
        proxy = chance.choice((self._source_proxy, self._source_proxy, self._target_proxy))
        self.result.cuts += 1
        if chance.random() < 0.4:
            proxy.cut()
        else:
            proxy.truncate(chance.randrange(1, 20_000), chance.choice(DIRECTIONS))

    def _bury(self, process: SyncProcess) -> None:
        code = process.process.wait(SYNC_SECONDS)
        errors = "" if code == -signal.SIGKILL else process.errors()
        process.close()
        self._count(self._seen)
        if code == -signal.SIGKILL:
            self.result.kills += 1
            return
        codes = codes_of(errors)
        if code == 1 and codes and codes[-1] in _RETRYABLE:
            self.result.cut_lives += 1
        elif code == 1 and codes and codes[-1] in self._pauses:
            self._pause(codes[-1], errors)
        else:
            self.result.problem = f"a sync process ended by itself ({code}): {errors[-6000:]}"

    def _pause(self, code: int, errors: str) -> None:
        self.result.paused = code
        (self._directory / "paused.txt").write_text(errors, encoding="utf-8")

    def _count(self, status: Mapping[str, JSON]) -> None:
        for name in ("totalRows", "eventRows", "safeModeRows", "conflicts", "batches", "ddlExecuted"):
            value = status.get(name)
            self.result.applied[name] += value if isinstance(value, int) else 0

    def _last(self, process: SyncProcess) -> None:
        try:
            self._count(process.wait_synced(SYNC_SECONDS))
        except AssertionError as error:
            codes = codes_of(process.errors())
            if codes and codes[-1] in self._pauses:
                self._pause(codes[-1], process.errors())
            else:
                self.result.problem = str(error)
            return
        finally:
            process.close()
        report = compare(pair_tables([self._upstream], [self._schema]), self._target)
        self.result.rows, self.result.tables = report.rows, len(report.tables)
        if not report.identical:
            different = [str(table) for table in report.tables if not table.identical]
            self.result.problem = "\n".join(different + [f"{table}: only at the target" for table in report.unexpected])


def drop(upstream: ThrowawayServer, target: PrivateServer, schema: str) -> None:
    """Remove what a seed leaves at its servers."""
    upstream.execute(f"DROP DATABASE IF EXISTS {Ident(schema).sql}")
    target.execute(
        f"DROP DATABASE IF EXISTS {Ident(schema).sql}", f"DROP DATABASE IF EXISTS {Ident('meta_' + schema).sql}"
    )
