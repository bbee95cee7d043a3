"""A task that ends by itself where it was asked to, on real servers: by place, GTID set and time; killed on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.progress.checkpoint import Checkpoint
from dm.sourcelog.stream.until import Until, UntilPosition
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import binlog_end, read_facts
from dm.task.progress import final_place, stored_checkpoint
from dm.task.start_and_end import AskedEnd, until_of
from tests.live.relay.relaying import endpoint_of, flush_logs, has_reached, relaying, source_of
from tests.live.worker.test_start_time import next_second
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, SyncProcess, subtask_for, wait_until

pytestmark = pytest.mark.live


def end_of(server: ThrowawayServer) -> Position:
    connection = connect(endpoint_of(server))
    try:
        return binlog_end(connection, read_facts(connection))
    finally:
        connection.close()


def last_commit(server: ThrowawayServer, file: str) -> int:
    """Where the file's last transaction ends; MariaDB may have written a checkpoint of its binlog after it."""
    return max(int(row[4]) for row in server.query(f"SHOW BINLOG EVENTS IN '{file}'") if row[2] == "Xid")


class Scene:
    """A task that is synced at row 0, and what the source does after it."""

    def __init__(self, upstream: ThrowawayServer, target: ThrowawayServer, name: str) -> None:
        self.upstream, self.target, self.name = upstream, target, name
        for server in (upstream, target):
            server.execute(f"CREATE TABLE {name}.k (id INT PRIMARY KEY, v INT)", f"CREATE TABLE {name}.l (id INT)")
        self.subtask: SubtaskConfig = subtask_for(upstream, target, name, task=name)
        sync = RunningSync(self.subtask, None)
        sync.wait_synced()
        self.write(0)
        sync.wait_synced()
        sync.stop()

    def write(self, number: int) -> None:
        """Three transactions."""
        self.upstream.execute(
            f"INSERT INTO {self.name}.k VALUES ({number}, {number})",
            f"UPDATE {self.name}.k SET v = v + 1 WHERE id = {number}",
            f"INSERT INTO {self.name}.l VALUES ({number})",
        )

    def asked(self, text: str) -> Until:
        return until_of(self.subtask, AskedEnd(text), Path("none"))

    def refused(self, text: str) -> str:
        with pytest.raises(DMError) as raised:
            self.asked(text)
        return raised.value.name

    def rows(self, table: str = "k") -> list[tuple[int, ...]]:
        return sorted(self.target.query(f"SELECT * FROM {self.name}.{table}"))

    @property
    def checkpoint(self) -> Checkpoint:
        found = stored_checkpoint(self.subtask)
        assert found is not None
        return found

    @contextmanager
    def running(self, until: Until) -> Iterator[RunningSync]:
        sync = RunningSync(self.subtask, None, until=until)
        yield sync
        assert sync.wait_ended() is None, "it ends by itself"

    def run(self, until: Until) -> None:
        with self.running(until):
            pass


@pytest.fixture
def scene(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> Scene:
    return Scene(upstream, target, schema(upstream, target))


@pytest.mark.ci_flavor("mysql")
def test_a_task_ends_at_a_place_and_what_comes_after_it_waits_for_another_start(scene: Scene) -> None:
    """Row and place at once: the rows of the place are there, the next transaction is not."""
    scene.write(1)
    place = end_of(scene.upstream)
    scene.write(2)
    flush_logs(scene.upstream)
    scene.write(3)
    scene.run(scene.asked(f"{place.file}:{place.offset}"))
    assert (scene.rows(), scene.rows("l")) == ([(0, 1), (1, 2)], [(0,), (1,)])
    stored = scene.checkpoint
    assert (stored.position.order, stored.bound) == (place.order, None)

    before = place.offset - 1
    assert scene.refused(f"({place.file}, {before})") == "until-passed"
    scene.run(scene.asked(str(place)))
    assert scene.checkpoint.position == stored.position, "a task that is there has nothing to do"

    # Inside of the last transaction: it does not end there or before.
    inside = end_of(scene.upstream)
    scene.run(scene.asked(f"{inside.file}:{last_commit(scene.upstream, inside.file) - 1}"))
    assert (scene.rows("k")[-1], scene.rows("l")) == ((3, 4), [(0,), (1,), (2,)])


def test_a_task_ends_after_the_last_transaction_of_a_gtid_set(scene: Scene) -> None:
    scene.write(1)
    gtids = end_of(scene.upstream).gtid_set
    scene.write(2)
    scene.run(scene.asked(str(gtids)))
    assert scene.rows("l") == [(0,), (1,)]
    assert scene.checkpoint.position.gtid_set == gtids
    scene.run(scene.asked(str(gtids)))
    later = end_of(scene.upstream).gtid_set
    scene.run(scene.asked(str(later)))
    assert scene.rows("l") == [(0,), (1,), (2,)]
    assert scene.refused(str(gtids)) == "until-passed"
    assert scene.refused("no place at all") == "until-unreadable"


@pytest.mark.ci_flavor("mariadb")
def test_a_task_ends_before_the_first_transaction_of_a_second(scene: Scene) -> None:
    scene.write(1)
    text, _ = next_second(scene.upstream)
    scene.write(2)
    scene.run(scene.asked(text))
    assert scene.rows("l") == [(0,), (1,)]
    scene.run(scene.asked(text))
    assert scene.rows("l") == [(0,), (1,)]
    late, _ = next_second(scene.upstream)
    scene.run(scene.asked(late))  # nothing comes: the clock of the source ends it
    assert scene.rows("l") == [(0,), (1,), (2,)]
    scene.write(3)
    sync = RunningSync(scene.subtask, None)
    sync.wait_synced()
    sync.stop()
    assert scene.refused(text) == "until-passed"


def test_a_place_that_the_source_has_not_reached_is_waited_for(scene: Scene) -> None:
    end = end_of(scene.upstream)
    flush_logs(scene.upstream)
    following = f"{end.file.rpartition('.')[0]}.{end.file_number + 1:06}"
    place = end_of(scene.upstream)
    assert place.file == following
    scene.write(1)
    size = end_of(scene.upstream).offset - place.offset
    ahead = f"{place.file}:{place.offset + 2 * size}"
    with scene.running(scene.asked(ahead)) as sync:
        wait_until(lambda: scene.rows("l")[-1] == (1,), "what is there now")
        assert sync.unit.status()["synced"] in (True, False)
        scene.write(2)
        flush_logs(scene.upstream)  # whatever the sizes were, the next file lies after the place
        scene.write(3)
    assert scene.rows("l") in ([(0,), (1,)], [(0,), (1,), (2,)])
    assert scene.checkpoint.position.file == place.file


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    "fault", ["syncer.before_commit=kill@2", "syncer.after_commit=kill@1", "syncer.after_checkpoint=kill@1"]
)
def test_a_run_that_is_killed_on_the_way_leaves_the_same_end_to_the_next(scene: Scene, fault: str) -> None:
    for number in range(1, 40):
        scene.write(number)
    place = end_of(scene.upstream)
    scene.write(40)
    until = scene.asked(str(place))
    process = SyncProcess(scene.subtask, faults=fault, until=until)
    assert process.wait_killed()
    process.close()
    scene.write(41)
    scene.run(until)
    assert scene.rows("l") == [(number,) for number in range(40)]
    assert scene.rows()[-1] == (39, 40)
    stored = scene.checkpoint
    assert (stored.position.order, stored.bound) == (place.order, None)


@pytest.mark.ci_flavor("mysql")
def test_what_an_earlier_run_has_done_after_the_place_is_found_out(scene: Scene) -> None:
    """Its checkpoint lies before the place, its rows do not: the target can't be brought there any more."""
    scene.write(1)
    place = end_of(scene.upstream)
    scene.write(2)
    process = SyncProcess(scene.subtask, faults="syncer.before_checkpoint=kill@1")
    assert process.wait_killed()
    process.close()
    assert scene.rows("l")[-1] == (2,)
    until = scene.asked(str(place))
    error = RunningSync(scene.subtask, None, until=until).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "until-passed"


def test_the_final_place_names_both_binlogs(scene: Scene) -> None:
    found = final_place(scene.subtask)
    assert found.checkpoint == scene.checkpoint.position
    assert found.target_end is not None
    assert found.target_end == end_of(scene.target)
    assert found.to_json()["syncerBinlogGtid"] == str(end_of(scene.upstream).gtid_set)


@pytest.mark.ci_flavor("mysql")
def test_a_task_that_reads_a_relay_ends_at_the_same_place(scene: Scene, tmp_path: Path) -> None:
    scene.write(1)
    place = end_of(scene.upstream)
    scene.write(2)
    flush_logs(scene.upstream)
    with relaying(source_of(scene.upstream, first=scene.checkpoint.position.file), tmp_path):
        wait_until(lambda: has_reached(tmp_path, scene.upstream), "the relay")
        sync = RunningSync(scene.subtask, tmp_path, until=scene.asked(str(place)))
        assert sync.wait_ended() is None
    assert scene.rows("l") == [(0,), (1,)]
    assert scene.checkpoint.position.order == place.order


@pytest.mark.ci_flavor("mariadb")
def test_a_place_of_another_server_and_a_set_of_the_other_flavour_are_refused(scene: Scene, flavor: Flavor) -> None:
    other = "0-1-5" if flavor == "mysql" else "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:1-5"
    assert scene.refused(other) == "until-unreadable"
    elsewhere = UntilPosition(Position("another", "b.000009", 4))
    scene.write(1)
    error = RunningSync(scene.subtask, None, until=elsewhere).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "until-elsewhere"
