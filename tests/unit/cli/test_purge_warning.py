"""A task and a relay say that the source is about to purge what they have yet to read."""

from __future__ import annotations

from typing import Any

import pytest

from dm.worker.status_text import remarks_of
from tests.unit.cli.test_output import PAUSED_BY_USER

NEAR = {"binlogLeftSeconds": 18_000, "binlogKeptSeconds": 86_400, "binlogBytesPerHour": 740 << 20}
SAID = "in 5.0 h the source may purge what is read next (it keeps its binlog for 24.0 h, and writes 740 MB per hour)"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, [SAID]),
        ({"binlogLeftSeconds": 0, "binlogBytesPerHour": None}, [f"{SAID[:3]}0.0{SAID[6:-29]})"]),
        ({"binlogLeftSeconds": 21_600}, []),
        ({"binlogLeftSeconds": None}, []),
        ({"binlogKeptSeconds": 0}, []),
    ],
)
def test_a_task_and_a_relay_say_before_the_source_purges_what_they_read(
    changed: dict[str, Any], said: list[str]
) -> None:
    status = {**NEAR, **changed}
    rests = {"name": "shop", "unit": "Sync", "stage": "Paused", "result": PAUSED_BY_USER, "sync": status}
    relay = {**status, "stage": "Running", "result": None, "relayCatchUpMaster": True, "relayBinlog": ""}
    answer = {"sources": [{"sourceStatus": {"source": "one", "relayStatus": relay}, "subTaskStatus": [rests]}]}
    found = [line for line in remarks_of(answer) if "purge" in line]
    assert found == [f"{subject}: {line}" for line in said for subject in ("shop on one", "relay of one")]


@pytest.mark.parametrize(
    ("caught_up", "file", "said"), [(False, "b.000004", 1), (True, "b.000004", 0), (False, "b.7", 0)]
)
def test_a_relay_that_reads_the_oldest_file_is_told_of(caught_up: bool, file: str, said: int) -> None:
    relay = {
        "stage": "Running", "result": None, "relayCatchUpMaster": caught_up, "relayBinlog": f"({file}, 4)",
        "binlogOldest": "b.000004",
    }  # fmt: skip
    answer = {"sources": [{"sourceStatus": {"source": "one", "relayStatus": relay}, "subTaskStatus": []}]}
    assert len(remarks_of(answer)) == said
