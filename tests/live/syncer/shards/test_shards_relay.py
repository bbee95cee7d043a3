"""Shards whose source is read from relay files: the files that held rows are in stay until they were read again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.sourcelog.relaylog.hold import Hold, needs
from tests.live.syncer.shards.test_shards import held, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RelayProcess, running_sync, wait_until

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mariadb")
def test_held_rows_are_read_again_from_relay_files(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    relay, work = tmp_path / "relay", tmp_path / "work"
    hold = Hold(relay, subtask.task)
    hold.create()

    def file_needed() -> str:
        (need,) = needs(relay)
        return need.file

    def unrelated() -> bool:
        return target.query(f"SELECT COUNT(*) FROM {name}.u") == ((2,),)

    with closing(RelayProcess(subtask.source, relay)):
        with running_sync(subtask, relay, work, hold) as sync:
            sync.wait_synced()
            upstream.execute(f"ALTER TABLE {name}.s1 ADD COLUMN w INT", f"INSERT INTO {name}.s1 VALUES (1, 1, 1)")
            (group,) = held(sync)
            upstream.execute(
                f"INSERT INTO {name}.u VALUES (1)", "FLUSH BINARY LOGS", f"INSERT INTO {name}.u VALUES (2)"
            )
            wait_until(unrelated, "rows of the other table")
        first = file_needed()
        assert str(group["firstLocation"]).startswith(f"({first},")
        upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT", f"INSERT INTO {name}.s2 VALUES (2, 2, 2)")
        with running_sync(subtask, relay, work, hold) as sync:
            wait_for_rows(target, name, 2, sync)
            sync.wait_synced()
        assert file_needed() > first
    merged([upstream], target, name)
