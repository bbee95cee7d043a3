"""What a task's start costs both servers: the statements that they are sent, counted and not timed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from dm.demo.servers import ThrowawayServer
from dm.syncer.unit import SyncUnit
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.general_log import Sent, logged
from tests.testbed.sync import running_sync, subtask_for, wait_until
from tests.testbed.unit_thread import UnitThread
from tests.testbed.zones import globally

pytestmark = pytest.mark.live

ROWS: Final = 40
BATCH: Final = 4
AT_SOURCE: Final = 28
"""Statements of a start, on the flavor that needs more of them; each waits for the one before."""
AT_TARGET: Final = 78
FIRST: Final = "SET NAMES utf8mb4 COLLATE "  # begins no session of the tests
LOCKED: Final = re.compile(r"GET_LOCK\('dm:\w+:worker-")
# A batch of row events has a look that guards them, and one that shows that the table's columns are where they were;
# both are sent with the events, so nothing waits for their answers.
ASKED: Final = re.compile(r"\b(SELECT (?!1 FROM DUAL|/\* columns \*/)|SHOW )")


def _sessions(sent: Sequence[Sent]) -> dict[int, list[str]]:
    """What each session of dm has sent."""
    found: dict[int, list[str]] = {}
    for session, text in sent:
        found.setdefault(session, []).append(text)
    return {session: texts for session, texts in found.items() if texts[0].startswith(FIRST)}


@pytest.mark.ci_flavor("mariadb")
def test_a_start_asks_little_and_a_batch_nothing(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, ts TIMESTAMP NULL, v VARCHAR(20))")
    subtask = subtask_for(upstream, target, name, task=name, workers=2, batch=BATCH)
    with running_sync(subtask, work_directory=tmp_path) as sync:
        sync.wait_synced()
    upstream.execute(*(f"INSERT INTO {name}.t VALUES ({at}, NOW(), 'x')" for at in range(ROWS)))
    unit = SyncUnit(subtask, relay_directory=None, work_directory=tmp_path)
    with globally(upstream, time_zone="'-05:00'"):
        with logged(upstream) as asked, logged(target) as told, UnitThread(unit) as running:
            wait_until(lambda: running.error is not None or unit.status().get("totalRows") == ROWS, "applied")
    at_source, at_target = _sessions(asked), _sessions(told)
    for sessions in (at_source, at_target):
        for first, second, third, *_ in sessions.values():
            assert first.startswith("SET NAMES ")
            assert second.startswith("SET SESSION TRANSACTION ")
            assert not third.startswith(("SET SESSION ", "SET NAMES "))
    # The monitor asks again and again.
    begun = [text for texts in at_source.values() if "UNIX_TIMESTAMP" not in "".join(texts) for text in texts]
    assert len(begun) <= AT_SOURCE, begun
    assert not any("CONVERT_TZ" in text for text in begun), "the zone's name tells its offset"
    lanes = [number for number, texts in at_target.items() if any(map(LOCKED.search, texts))]
    assert len(lanes) == 2
    first_batch = next(at for at, (session, text) in enumerate(told) if session in lanes and text.startswith("START "))
    assert first_batch <= AT_TARGET, told[:first_batch]
    batches = [text for session, text in told[first_batch:] if session in lanes]
    assert sum("COMMIT" in text for text in batches) >= ROWS // BATCH
    assert [text for text in batches if ASKED.search(text)] == []
