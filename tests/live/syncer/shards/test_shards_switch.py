"""Shards that are held while another server takes the source's place: the second pass ends where the stream waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.progress.tables import SubtaskKey
from tests.live.relay.relaying import newest
from tests.live.syncer.shards.test_shards import KEYED, KEYLESS, held, merged, subtasks_of, wait_for_rows
from tests.live.upstream.group import endpoint_at, executed, replicate, source_at, wait_caught_up
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.proxy import FaultProxy
from tests.testbed.sync import RelayProcess, SyncProcess, running_sync, wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

WAYS = [
    pytest.param(KEYED, True, id="keyed, relay"),
    pytest.param(KEYLESS, False, id="keyless, no relay"),
    pytest.param(KEYLESS, True, id="keyless, relay", marks=pytest.mark.chaos),
    pytest.param(KEYED, False, id="keyed, no relay", marks=pytest.mark.chaos),
]


class Shards:
    """Two shards of a source that is a group of two servers behind one address."""

    def __init__(
        self, server: ServerFactory, schema: SchemaFactory, target: ThrowawayServer, columns: str, relay: Path | None
    ) -> None:
        self.first, self.second = server(target.flavor), server(target.flavor)
        self.target, self._ended = target, ExitStack()
        replicate(self.first, self.second, fresh=True)
        self.name = schema(self.first, target)
        (subtask,) = subtasks_of(self.name, [self.first], target, columns=columns)
        self.way = self._ended.enter_context(FaultProxy(self.first.host, self.first.port))
        source = source_at(endpoint_at(self.first, self.way.port)).model_copy(
            update={"source_id": subtask.source.source_id}
        )
        self.subtask, self.relay = subtask.model_copy(update={"source": source}), relay
        if relay is not None:
            self._ended.enter_context(closing(RelayProcess(source, relay)))

    def close(self) -> None:
        self._ended.close()

    def switch(self) -> None:
        """A planned switch: nothing is written any more, and the other server has everything."""
        wait_caught_up(self.first, self.second)
        self.second.execute("STOP REPLICA")
        before = None if self.relay is None else newest(self.relay).server_uuid
        self.way.lead_to(self.second.host, self.second.port)
        if (relay := self.relay) is not None:
            wait_until(lambda: newest(relay).server_uuid != before, "the relay reads the other server")

    def hold_first(self) -> None:
        """The first shard waits for the other one; all of its source is read."""
        with running_sync(self.subtask, self.relay) as sync:
            sync.wait_synced()
            self.first.execute(
                f"INSERT INTO {self.name}.s1 VALUES (1, 1)",
                f"ALTER TABLE {self.name}.s1 ADD COLUMN w INT DEFAULT 7",
                f"INSERT INTO {self.name}.s1 VALUES (2, 2, 2)",
                f"INSERT INTO {self.name}.u VALUES (1)",
            )
            held(sync)
            wait_until(lambda: self.target.query(f"SELECT COUNT(*) FROM {self.name}.u") == ((1,),), "the other table")

    def killed(self, point: str) -> None:
        process = SyncProcess(self.subtask, relay_directory=self.relay, faults=f"{point}=kill")
        try:
            assert process.wait_killed(), process.errors()
        finally:
            process.close()

    def write_more(self, server: ThrowawayServer, first: int) -> None:
        """After the place where the pass ends, for shards and others."""
        server.execute(
            f"INSERT INTO {self.name}.s1 VALUES ({first}, 1, 1)",
            f"INSERT INTO {self.name}.s2 VALUES ({first + 1}, 1, 1)",
            f"UPDATE {self.name}.s1 SET v = v + 10 WHERE id = 2",
            f"INSERT INTO {self.name}.u VALUES ({first})",
        )

    def arrive(self, server: ThrowawayServer) -> None:
        server.execute(
            f"INSERT INTO {self.name}.s2 VALUES (3, 3)",
            f"ALTER TABLE {self.name}.s2 ADD COLUMN w INT DEFAULT 7",
            f"INSERT INTO {self.name}.s1 VALUES (4, 4, 4)",
        )

    def complete(self, rows: int) -> None:
        with running_sync(self.subtask, self.relay) as sync:
            wait_for_rows(self.target, self.name, rows, sync)
            sync.wait_synced()
        merged([self.second], self.target, self.name)


@contextmanager
def made(
    server: ServerFactory, schema: SchemaFactory, target: ThrowawayServer, columns: str, relay: Path | None
) -> Iterator[Shards]:
    with closing(Shards(server, schema, target, columns, relay)) as shards:
        yield shards


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(("columns", "relay"), WAYS)
@pytest.mark.ci_sample(1)
def test_a_pass_that_is_stored_ends_at_the_old_servers_place(
    server: ServerFactory, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, columns: str, relay: bool
) -> None:
    with made(server, schema, target, columns, tmp_path / "relay" if relay else None) as shards:
        shards.hold_first()
        shards.arrive(shards.first)
        shards.killed("shard.pass_begun")
        shards.switch()
        shards.write_more(shards.second, 11)
        shards.killed("shard.before_return")  # the next run begins where the pass ends, at the new server's place
        shards.complete(6)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize(("columns", "relay"), WAYS)
def test_a_shard_held_at_the_old_server_goes_on_at_the_new_one(
    server: ServerFactory, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, columns: str, relay: bool
) -> None:
    with made(server, schema, target, columns, tmp_path / "relay" if relay else None) as shards:
        shards.hold_first()
        shards.switch()
        shards.arrive(shards.second)
        shards.killed("shard.pass_begun")
        shards.write_more(shards.second, 11)
        shards.complete(6)


def in_order(server: ThrowawayServer, before: str, statements: dict[int, str]) -> None:
    """Execute these as the transactions with these numbers after a GTID set of one server."""
    uuid, _, numbers = before.partition(":")
    last = int(numbers.rpartition("-")[2])
    for number, statement in statements.items():
        server.execute(f"SET gtid_next = '{uuid}:{last + number}'", statement, "SET gtid_next = 'AUTOMATIC'")


@pytest.mark.parametrize("flavor", ["mysql"])
@pytest.mark.parametrize("columns", [KEYED, KEYLESS])
@pytest.mark.ci_sample(1)
def test_what_main_has_read_is_after_its_place_at_the_new_server(
    server: ServerFactory, target: ThrowawayServer, schema: SchemaFactory, columns: str
) -> None:
    """A pass pauses there however often it begins again, and goes on where the address leads back.

    A relay has what main has read, in the same order.
    """
    with made(server, schema, target, columns, None) as shards:
        name, first, second, subtask = shards.name, shards.first, shards.second, shards.subtask
        wait_caught_up(first, second)
        second.execute("STOP REPLICA")
        before = executed(first)
        shards.hold_first()
        first.execute(f"INSERT INTO {name}.s2 VALUES (3, 3)", f"ALTER TABLE {name}.s2 ADD COLUMN w INT DEFAULT 7")
        shards.killed("shard.pass_begun")
        in_order(
            second,
            before,
            {
                1: f"INSERT INTO {name}.s1 VALUES (1, 1)",
                2: f"ALTER TABLE {name}.s1 ADD COLUMN w INT DEFAULT 7",
                4: f"INSERT INTO {name}.u VALUES (1)",
                5: f"INSERT INTO {name}.s2 VALUES (3, 3)",
                6: f"ALTER TABLE {name}.s2 ADD COLUMN w INT DEFAULT 7",
            },
        )
        # Main has read the third transaction at the old server, and came to wait at the new one before it.
        file, offset, *_ = second.query("SHOW BINARY LOG STATUS")[0]
        ((uuid,),) = second.query("SELECT @@server_uuid")
        key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)
        target.execute(
            f"UPDATE {key.checkpoint.sql} SET server_uuid = '{uuid}', binlog_name = '{file}', binlog_pos = {offset}"
            f" WHERE id = '{key.source_id}' AND is_global"
        )
        in_order(second, before, {3: f"INSERT INTO {name}.s1 VALUES (2, 2, 2)"})
        shards.way.lead_to(second.host, second.port)
        for _ in range(2):
            error = running_sync(subtask).wait_ended()
            assert isinstance(error, DMError), error
            assert error.name == "shard-pass-elsewhere"
        shards.way.lead_to(first.host, first.port)
        first.execute(f"INSERT INTO {name}.s1 VALUES (4, 4, 4)")
        with running_sync(subtask) as sync:
            wait_for_rows(target, name, 4, sync)
            sync.wait_synced()
        merged([first], target, name)
