"""Whether a task can read on from its source without the relay, asked of real servers."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from dm.task.progress import demand_readable
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live


def test_only_while_the_source_has_what_the_task_reads_next(
    server: ServerFactory, flavor: Flavor, target: ThrowawayServer
) -> None:
    upstream = server(flavor)
    name = f"reading_on_{flavor}"
    for each in (upstream, target):
        each.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    try:
        subtask = subtask_for(upstream, target, name, task=name)
        demand_readable(subtask)  # it has not begun
        with running_sync(subtask) as sync:
            sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.t VALUES (1)", "FLUSH BINARY LOGS")
        demand_readable(subtask)
        upstream.execute(f"INSERT INTO {name}.t VALUES (2)", "FLUSH BINARY LOGS")
        last = upstream.query("SHOW BINARY LOGS")[-1][0]
        before = upstream.query("SHOW BINARY LOGS")[0][0]

        def purged() -> bool:  # a server keeps a file while the session of the syncer, which is ending, has it open
            upstream.execute(f"PURGE BINARY LOGS TO '{last}'")
            return bool(upstream.query("SHOW BINARY LOGS")[0][0] != before)

        wait_until(purged, "the files are purged")
        first = upstream.query("SHOW BINARY LOGS")[0][0]
        with pytest.raises(DMError, match=f"has no binlog before {first} any more") as raised:
            demand_readable(subtask)
        assert raised.value.name == "relay-holds-more"
    finally:
        target.execute(f"DROP DATABASE {name}")
