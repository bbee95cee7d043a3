"""Where the source can't show that it has what a task needs, its relay is asked, whatever the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.gtid import GtidSet
from dm.position import Position
from dm.task.precheck import way_back
from dm.task.precheck.context import Context, open_server
from tests.testbed.sync import subtask_for
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER
from tests.unit.sourcelog.relaylog.test_continuity import store
from tests.unit.sourcelog.relaylog.writing import FIRST

pytestmark = pytest.mark.live


@pytest.mark.parametrize("flavor", ["mysql"])
@pytest.mark.parametrize(
    "gtids", [f"{SERVER}:1,ANONYMOUS", "{own}:1-999999999", ""], ids=["no GTID", "lost", "unknown"]
)
def test_the_relay_is_asked_for_what_another_server_can_not_show(
    upstream: ThrowawayServer, target: ThrowawayServer, tmp_path: Path, gtids: str
) -> None:
    subtask = subtask_for(upstream, target, "d", task="stored_place")
    store(tmp_path / "relay", [[True, False]], range(1))
    with open_server(subtask.source.endpoint, "source") as source, open_server(subtask.target, "target") as there:
        wanted = GtidSet.parse(gtids.format(own=source.facts.server_uuid), "mysql")
        place = Position(SERVER, FIRST, 4, wanted)
        alone, empty, filled = (
            way_back._missing(Context(subtask, source, there, relay=relay), place)
            for relay in (None, tmp_path / "none", tmp_path / "relay")
        )
    assert alone is not None
    assert empty is not None
    assert filled is not None
    assert "restore" not in alone.ways_out, "no binlog file is missing"
    assert (empty.why, empty.ways_out) == (f"{alone.why}; the relay does not have it", alone.ways_out)
    assert filled.why.endswith(f"the relay's files end there, and the task is at {place}"), filled
