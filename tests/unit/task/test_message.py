"""Messages survive the pipe, whatever is in them."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.task.message import (
    StartUnit,
    StatusInterval,
    StopUnit,
    UnitFailed,
    UnitFinished,
    UnitStatus,
    UnitStopped,
    decode_command,
    decode_event,
    encode,
)
from dm.unit import JSON

json_values: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: cast("st.SearchStrategy[JSON]", st.lists(inner) | st.dictionaries(st.text(), inner)),
)
objects = st.dictionaries(st.text(), json_values)
REPORT = DMError("connection-lost", role="upstream", address="h:1").report()

commands = st.one_of(
    st.builds(StartUnit, st.integers(1), st.sampled_from(["Dump", "Load", "Sync", "Relay"]), objects),
    st.builds(StopUnit, st.integers(1)),
    st.builds(StatusInterval, st.floats(0.1, 10)),
)
events = st.one_of(
    st.builds(UnitStatus, st.integers(1), objects),
    st.builds(UnitFinished, st.integers(1)),
    st.builds(UnitStopped, st.integers(1)),
    st.builds(UnitFailed, st.integers(1), st.just(REPORT), st.booleans()),
)


@given(commands)
def test_commands(command: StartUnit | StopUnit | StatusInterval) -> None:
    line = encode(command)
    assert line.count(b"\n") == 1
    assert decode_command(line) == command


@given(events)
def test_events(event: UnitStatus | UnitFinished | UnitStopped | UnitFailed) -> None:
    line = encode(event)
    assert line.count(b"\n") == 1
    assert decode_event(line) == event


@pytest.mark.parametrize(
    "line",
    [
        b"noise\n", b"{}\n", b"[]\n", b"1\n", b'{"event": "command"}\n', b'{"event": ["status"], "command": []}\n',
        b'{"event": "status", "command": "stop"}\n', b'{"event": "stopped", "command": "stop", "run": 1, "more": 1}\n',
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode_event(line)
    with pytest.raises(ValueError):
        decode_command(line)
