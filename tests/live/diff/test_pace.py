"""A comparison waits for a server that has other work, and goes on when it has none."""

from __future__ import annotations

from contextlib import closing

import pytest

from dm.demo.servers import ThrowawayServer
from dm.diff.pace import running, wait_for_rest
from dm.upstream.connection import connect
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import endpoint_of, wait_until

pytestmark = pytest.mark.live


def busy_session(server: ThrowawayServer) -> int:
    """The number of the session that sleeps; 0 without one."""
    found = server.query("SELECT id FROM information_schema.processlist WHERE info = 'SELECT SLEEP(600)'")
    return int(found[0][0]) if found else 0


@pytest.mark.chaos
@pytest.mark.parametrize("kind", ["mysql", "mariadb"])
def test_it_waits_while_more_threads_run(server: ServerFactory, kind: str) -> None:
    one = server("mysql" if kind == "mysql" else "mariadb")
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            one.execute(f"KILL {busy_session(one)}")
            wait_until(lambda: not busy_session(one), "the session ends")

    with closing(connect(endpoint_of(one))) as session, closing(connect(endpoint_of(one))) as other:
        alone = running(session)
        assert wait_for_rest([session], alone, sleep) == 0.0
        assert waits == []
        other._execute_command(3, "SELECT SLEEP(600)")  # type: ignore[attr-defined]
        wait_until(lambda: busy_session(one) > 0, "the other session sleeps")
        assert wait_for_rest([session], alone, sleep) == 1.5
        assert len(waits) == 3
