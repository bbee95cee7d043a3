"""What forbids row events is looked at in each session, also where it is known which variables there are."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.row_event_session import Variables, take_row_events
from tests.live.changes.tables import endpoint_of

pytestmark = pytest.mark.live

FORBIDDING = {
    "mysql": ("SET SESSION rbr_exec_mode = 'IDEMPOTENT'", "SET SESSION rbr_exec_mode = 'STRICT'"),
    "mariadb": ("SET GLOBAL slave_exec_mode = 'IDEMPOTENT'", "SET GLOBAL slave_exec_mode = 'STRICT'"),
}


def test_each_session_is_asked(target: ThrowawayServer) -> None:
    variables = Variables()
    forbid, allow = FORBIDDING[target.flavor]
    name = forbid.split()[2]
    with ExitStack() as stack:
        first, second = (stack.enter_context(TargetConnection(endpoint_of(target))) for _ in range(2))
        assert take_row_events(first, variables) == ""
        second.execute(forbid)
        try:
            assert take_row_events(second, variables) == f"{name} is IDEMPOTENT at the target"
        finally:
            second.execute(allow)
        assert take_row_events(second, variables) == ""


def test_the_first_session_and_those_behind_it_find_the_same(target: ThrowawayServer) -> None:
    variables = Variables()
    with TargetConnection(endpoint_of(target)) as connection:
        first = variables.of(connection)
        assert first
        assert variables.of(connection) == first
