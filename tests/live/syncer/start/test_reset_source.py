"""The source was reset, and the relay's files of the old history have the names and the sizes of the new ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.config.references import StartPoint
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.live.relay.relaying import end_of, relaying, source_of, wait_equal
from tests.live.relay.test_outages import RESET
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import RunningSync, subtask_for, wait_until

pytestmark = pytest.mark.live

NOW = "SELECT UNIX_TIMESTAMP()"
TABLE = "CREATE TABLE x.a (id INT PRIMARY KEY, v INT)"


def second_of(server: ThrowawayServer) -> int:
    return int(server.query(NOW)[0][0])


def reset(source: ThrowawayServer, flavor: Flavor, rows: int) -> None:
    """Begin a new history, in another second than the old one, with the same table and other rows."""
    began = second_of(source)
    wait_until(lambda: second_of(source) > began, "the next second")
    source.execute("DROP DATABASE x", RESET[flavor], "CREATE DATABASE x", TABLE)
    source.execute(*(f"INSERT INTO x.a VALUES ({n}, 2)" for n in range(rows)))


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("rows", [3, 40], ids=["shorter", "longer"])
def test_a_run_does_not_read_relay_files_of_a_history_that_is_gone(
    server: ServerFactory, flavor: Flavor, target: ThrowawayServer, tmp_path: Path, rows: int
) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x", TABLE)
    described = source_of(source)
    with relaying(described, tmp_path):
        source.execute(*(f"INSERT INTO x.a VALUES ({n}, 1)" for n in range(20)))
        wait_equal(tmp_path, source)
    reset(source, flavor, rows)
    target.execute("DROP DATABASE IF EXISTS x", "CREATE DATABASE x", TABLE)
    try:
        file, offset = end_of(source)
        meta = StartPoint(binlog_name=file, binlog_pos=offset)
        subtask = subtask_for(source, target, "x", task=f"reset_{rows}", meta=meta)
        for _ in range(2):  # the second run would have a checkpoint, had the first one stored any
            error = RunningSync(subtask, tmp_path).wait_ended()
            assert isinstance(error, DMError)
            assert error.name == "relay-of-other-history", str(error)
            assert error.retryable
        assert target.query("SELECT * FROM x.a") == ()
    finally:
        target.execute("DROP DATABASE x", f"DROP DATABASE IF EXISTS meta_reset_{rows}")
