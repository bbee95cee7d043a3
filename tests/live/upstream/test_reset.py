"""A source whose binlog is reset under a task that reads from it without a relay: its places mean something else."""

from __future__ import annotations

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.live.upstream.group import SCHEMA, TABLES
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for, wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

INSERT = f"INSERT INTO {SCHEMA}.keyless VALUES (1, 'same')"


def place(upstream: ThrowawayServer) -> tuple[str, int]:
    statement = "SHOW BINARY LOG STATUS" if upstream.flavor == "mysql" else "SHOW MASTER STATUS"
    ((file, offset, *_),) = upstream.query(statement)
    return str(file), int(str(offset))


def reset(upstream: ThrowawayServer) -> None:
    def second() -> int:
        return int(str(upstream.query("SELECT UNIX_TIMESTAMP()")[0][0]))

    began = second()
    wait_until(lambda: second() > began, "the new file gets a time of its own")
    upstream.execute("RESET BINARY LOGS AND GTIDS" if upstream.flavor == "mysql" else "RESET MASTER")


def stored_file(subtask: SubtaskConfig, target: ThrowawayServer) -> str:
    table = f"{subtask.meta_schema}.{subtask.task}_syncer_checkpoint"
    return str(target.query(f"SELECT table_info FROM {table} WHERE is_global")[0][0])


@pytest.mark.parametrize("flavor", ["mysql"])
def test_a_source_that_ends_before_our_place_is_not_synced(server: ServerFactory, emptied: ThrowawayServer) -> None:
    upstream = server(emptied.flavor, gtid=False)
    upstream.execute(*TABLES)
    running = RunningSync(subtask_for(upstream, emptied, SCHEMA, task="short"), None)
    upstream.execute(*[INSERT] * 3)
    running.wait_synced()
    reset(upstream)  # which says nothing to who reads already
    upstream.execute(INSERT)

    error = running.wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.retryable) == ("source-reset", False)
    assert "was applied before" in error.message


@pytest.mark.parametrize(
    ("flavor", "gtid", "idle"),
    [
        ("mysql", False, False),
        ("mariadb", True, False),
        ("mysql", True, True),
        pytest.param("mysql", True, False, marks=pytest.mark.chaos),
    ],
)
@pytest.mark.ci_sample(1)
def test_a_new_run_pauses_though_the_new_files_have_its_place_and_its_gtids(
    server: ServerFactory, emptied: ThrowawayServer, flavor: Flavor, gtid: bool, idle: bool
) -> None:
    upstream = server(flavor, gtid=gtid)
    reset(upstream)
    upstream.execute(*TABLES)
    subtask = subtask_for(upstream, emptied, SCHEMA, task=f"reset{flavor}{int(gtid)}{int(idle)}")
    with running_sync(subtask) as running:
        running.wait_synced()
        # It knows that it stands at the source's end as soon as it asks, and the file once it reads from it.
        wait_until(lambda: "created" in stored_file(subtask, emptied), "the file is stored with the checkpoint")
        if not idle:
            upstream.execute(*[INSERT] * 3)
            running.wait_synced()
    rows = emptied.query(f"SELECT COUNT(*) FROM {SCHEMA}.keyless")
    before = place(upstream)
    upstream.execute(f"DROP DATABASE {SCHEMA}")
    reset(upstream)
    upstream.execute(*TABLES, *[INSERT] * (0 if idle else 3))
    assert place(upstream) == before  # and an event begins there
    upstream.execute(INSERT)

    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.retryable) == ("source-reset", False)
    assert f"file {before[0]} was made at" in error.message
    assert emptied.query(f"SELECT COUNT(*) FROM {SCHEMA}.keyless") == rows
