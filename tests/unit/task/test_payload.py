"""What a unit is given comes whole through the pipe to its process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dm.config import SubtaskConfig
from dm.gtid import GtidSet
from dm.position import Position
from dm.sourcelog.stream.until import UntilGtids, UntilPosition, UntilTime
from dm.task.payload import (
    DiffPayload,
    FlashbackPayload,
    Payload,
    RelayPayload,
    ReplayPayload,
    UnitPayload,
    ValidatorPayload,
)
from dm.tools.errands import DiffRequest, FlashbackRequest, RelayedSubtask, ReplayRequest
from tests.unit.config.texts import task

HERE = Path("/work")
GTIDS = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7:9")
PLACE = Position("3e11fa47-71ca-11e1-9e33-c80aa9429562", "bin.000003", 154, GTIDS)
MARIADB = Position("1", "bin.000003", 154, GtidSet.parse("", "mariadb"))


def subtask() -> SubtaskConfig:
    # Without the warnings of the file's reader, which stay where it was read.
    return SubtaskConfig.from_wire(task().subtask("mysql-01").to_wire())


@pytest.mark.parametrize(
    "payload",
    [
        lambda config: RelayPayload(config.source, HERE),
        lambda config: UnitPayload(config, None, HERE),
        *(
            lambda config, until=until: UnitPayload(config, HERE / "relay", HERE, HERE / "hold", until)
            for until in (UntilPosition(Position("u", "bin.000001", 4)), UntilGtids(GTIDS), UntilTime(7, "then"))
        ),
        *(
            lambda config, start=start: ValidatorPayload(config, None, HERE, HERE, start)
            for start in (None, PLACE, MARIADB)
        ),
        lambda config: DiffPayload(
            (config, config), DiffRequest(("a.b",), rows=7, resume=True), HERE, HERE, {}, (config,)
        ),
        lambda config: FlashbackPayload((RelayedSubtask(config, HERE),), FlashbackRequest("b", tables=("a.b",)), HERE),
        lambda config: ReplayPayload(ReplayRequest(config, HERE, HERE, HERE, "end", cancel=True), HERE),
    ],
)
def test_a_payload_is_the_same_at_the_other_end(payload: object) -> None:
    assert callable(payload)
    sent: Payload = payload(subtask())
    assert type(sent).from_wire(json.loads(json.dumps(sent.to_wire()))) == sent


def test_passwords_come_along_and_stand_in_no_error() -> None:
    wire = UnitPayload(subtask(), None, HERE).to_wire()
    assert '"password": "' in json.dumps(wire)
    with pytest.raises(ValueError, match="work_directory") as raised:
        UnitPayload.from_wire({**wire, "work_directory": ["canary-93a1"]})
    assert "canary-93a1" not in str(raised.value)
