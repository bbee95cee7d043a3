"""A source whose `log_bin` is changed under a task that reads from it, without a relay."""

from __future__ import annotations

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.live.upstream.group import SCHEMA, TABLES, Following, Load, endpoint_at, source_at, subtask_of
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def renamed(upstream: ThrowawayServer, *, one_index: bool) -> None:
    upstream.stop()
    # A careful administrator keeps one index for files of both names; else the server forgets the old ones.
    upstream.options |= {"log_bin": "other"} | ({"log_bin_index": "binlog.index"} if one_index else {})
    upstream.start()
    assert str(upstream.query("SHOW BINARY LOGS")[-1][0]).startswith("other.")


def equal(upstream: ThrowawayServer, target: ThrowawayServer) -> None:
    report = compare(pair_tables([upstream], [SCHEMA]), target)
    assert report.identical, str(report)


# A MariaDB that forgets its old files forgets its GTID state too, and is another history.
@pytest.mark.parametrize(
    ("flavor", "one_index"),
    [
        ("mysql", True),
        pytest.param("mysql", False, marks=pytest.mark.chaos),
        pytest.param("mariadb", True, marks=pytest.mark.chaos),
    ],
)
def test_the_task_goes_on_in_the_new_files(server: ServerFactory, emptied: ThrowawayServer, one_index: bool) -> None:
    upstream = server(emptied.flavor)
    upstream.execute(*TABLES)
    load = Load()
    subtask = subtask_of(source_at(endpoint_at(upstream)), upstream, emptied, "renamed")
    with Following(subtask, emptied, None) as following:
        following.wait_applied(upstream)
        load.write(upstream, 20)
        following.wait_applied(upstream)
        renamed(upstream, one_index=one_index)
        load.write(upstream, 20)
        following.wait_applied(upstream)
    assert set(following.errors) <= {"binlog-renamed"}
    equal(upstream, emptied)

    with running_sync(subtask) as again:  # its checkpoint is in a file of the new name
        upstream.execute("FLUSH BINARY LOGS")
        load.write(upstream, 5)
        again.wait_synced()
    equal(upstream, emptied)


@pytest.mark.parametrize("flavor", ["mysql"])
@pytest.mark.chaos
@pytest.mark.parametrize("one_index", [True, False])
def test_without_gtids_the_task_pauses(server: ServerFactory, emptied: ThrowawayServer, one_index: bool) -> None:
    upstream = server(emptied.flavor, gtid=False)
    upstream.execute(*TABLES)
    subtask = subtask_for(upstream, emptied, SCHEMA, task=f"nogtid{int(one_index)}")
    with running_sync(subtask) as running:
        running.wait_synced()
    renamed(upstream, one_index=one_index)
    upstream.execute(f"INSERT INTO {SCHEMA}.keyed VALUES (1, 'x')")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.retryable) == ("binlog-renamed-without-gtid", False)
    assert "other.000001" in error.message
