"""With a limit of a replica's delay a batch goes as the pace lets it, and may end in the middle."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from dm.clock import SystemClock
from dm.config.pace import PaceConfig
from dm.config.references import StartPoint
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.pace.governor import Governor
from dm.pace.shared import SharedPace
from dm.syncer.shards.sharded import sync_unit
from dm.syncer.unit import SyncUnit
from tests.live.relay.relaying import end_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for, wait_until
from tests.testbed.unit_thread import UnitThread

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]

ROWS, FEW, STOPS_AFTER = 100, 3, 25


class _Few(Governor):
    """Lets a few transactions through at a time; then none, after so many questions."""

    def __init__(self, path: Path) -> None:
        config = PaceConfig(replica_lag=5.0, replicas=("db-7",))
        super().__init__(SharedPace.begun(path, config, SystemClock()), None, SystemClock())
        self.offered: list[int] = []
        self.holds = threading.Event()
        self._counting = threading.Lock()

    def ask_first(self, pieces: Sequence[tuple[int, int]], stop: threading.Event) -> int:
        with self._counting:
            self.offered.append(len(pieces))
            held = len(self.offered) > STOPS_AFTER
        if held:
            self.holds.set()
            stop.wait()
            return 0
        return min(FEW, len(pieces))


@pytest.mark.ci_sample(2)
@pytest.mark.parametrize("columns", ["(id INT PRIMARY KEY)", "(id INT)"], ids=["keyed", "keyless"])
def test_a_batch_is_applied_as_far_as_the_pace_lets_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, columns: str
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE `{name}`.t {columns}")
    file, offset = end_of(upstream)
    meta = StartPoint(binlog_name=file, binlog_pos=offset)
    subtask = subtask_for(upstream, target, name, task=name, meta=meta)
    upstream.execute(f"USE `{name}`", *(f"INSERT INTO t VALUES ({number})" for number in range(ROWS)))
    governor = _Few(tmp_path / "task")
    with UnitThread(_paced(subtask, governor, tmp_path / "work")) as paced:
        wait_until(lambda: governor.holds.is_set() or paced.ended, "the pace holds all that is left")
    there = target.query(f"SELECT COUNT(*), COUNT(DISTINCT id) FROM `{name}`.t")
    let = sum(min(FEW, offered) for offered in governor.offered[:STOPS_AFTER])
    assert there == ((let, let),)
    if "KEY" in columns:
        assert max(governor.offered) > FEW, "a batch was offered whole"
    with running_sync(subtask) as sync:
        sync.wait_synced()
    assert target.query(f"SELECT COUNT(*), COUNT(DISTINCT id) FROM `{name}`.t") == ((ROWS, ROWS),)


def _paced(subtask: SubtaskConfig, governor: Governor, work: Path) -> SyncUnit:
    unit = sync_unit(subtask, relay_directory=None, work_directory=work, pace=lambda: governor)
    return cast("SyncUnit", unit)
