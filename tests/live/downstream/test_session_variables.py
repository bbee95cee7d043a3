"""The `session` block of a file: what a server refuses is told with its line, and TiDB's part is kept from others."""

from __future__ import annotations

import pytest

from dm.config import Endpoint, read_task
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.sourcelog.upstream.connection import connect
from tests.testbed.sync import endpoint_of

pytestmark = pytest.mark.live

FILE = """\
name: t
task-mode: all
target-database:
  host: target.example
  session:
    sql_mode: ANSI_QUOTES
    {line}
mysql-instances: [{{source-id: a}}]
"""


def with_session(server: ThrowawayServer, line: str) -> Endpoint:
    task = read_task(FILE.format(line=line), file="task.yaml", environ={})
    session = task.from_wire(task.to_wire()).target_database
    return endpoint_of(server).model_copy(update={"session": session.session, "session_places": session.session_places})


@pytest.mark.parametrize(
    ("line", "variable", "number"),
    [
        ("Not_A_Variable: 1", "not_a_variable", 1193),
        ("lock_wait_timeout: soon", "lock_wait_timeout", 1232),
        ("max_connections: 5", "max_connections", 1229),
    ],
)
def test_a_variable_that_the_server_refuses_is_named_with_its_line(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, line: str, variable: str, number: int
) -> None:
    for server in (mysql, mariadb):
        endpoint = with_session(server, line)
        for open_session in (TargetConnection, connect):
            with pytest.raises(DMError, match=rf"refuses session variable `{variable}` \(task.yaml:7\)") as raised:
                open_session(endpoint)
            assert (raised.value.name, raised.value.server_errno) == ("session-variable-refused", number)


def test_what_only_tidb_knows_is_not_sent_to_others(mysql: ThrowawayServer, mariadb: ThrowawayServer) -> None:
    for server in (mysql, mariadb):
        endpoint = with_session(server, "tidb_txn_mode: optimistic")
        TargetConnection(endpoint).close()
        connect(endpoint).close()
