"""A start by time, on real servers: in the source's files and in the relay's, with and without a checkpoint."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from dm.position import TimePlace
from dm.sourcelog.upstream.connection import identity_for
from dm.sourcelog.upstream.dump_stream import DumpStream
from dm.sourcelog.upstream.locate import find_time
from dm.task.progress import forget_progress
from dm.task.start_and_end import StartTime, begin_at, place_of
from tests.live.relay.relaying import endpoint_of, flush_logs, has_reached, relaying, source_of
from tests.live.relay.test_outages import RESET
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import running_sync, subtask_for, wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

NOW = "SELECT NOW(), UNIX_TIMESTAMP()"


def next_second(server: ThrowawayServer) -> tuple[str, int]:
    """A second of the source's clock before which everything so far lies: in its zone, and since the epoch."""
    began = server.query(NOW)[0][1]
    wait_until(lambda: server.query(NOW)[0][1] > began, "the next second")
    text, instant = server.query(NOW)[0]
    return str(text), int(instant)


def last_file(server: ThrowawayServer) -> str:
    return str(server.query("SHOW BINARY LOGS")[-1][0])


class Scene:
    """Rows 1 to 4 in keyed and keyless tables, each in a file and a second of its own."""

    def __init__(self, upstream: ThrowawayServer, target: ThrowawayServer, name: str) -> None:
        self.upstream, self.target, self.name = upstream, target, name
        self.seconds: dict[int, tuple[str, int]] = {}
        self.files: dict[int, str] = {}
        self.warnings: list[str] = []
        for server in (upstream, target):
            server.execute(f"CREATE TABLE {name}.k (id INT PRIMARY KEY, v INT)", f"CREATE TABLE {name}.l (id INT)")
        flush_logs(upstream)
        self.first = last_file(upstream)
        for number in range(1, 5):
            self.seconds[number] = next_second(upstream)
            self.files[number] = last_file(upstream)
            self.write(number)
            flush_logs(upstream)

    def write(self, number: int) -> None:
        self.upstream.execute(
            f"INSERT INTO {self.name}.k VALUES ({number}, {number})",
            f"UPDATE {self.name}.k SET v = v + 1 WHERE id = {number}",
            f"INSERT INTO {self.name}.l VALUES ({number})",
        )

    def subtask(self) -> SubtaskConfig:
        return subtask_for(self.upstream, self.target, self.name, task=self.name)

    def begin(self, number: int, relay: Path, *, zone: str | None = None) -> TimePlace:
        text, instant = self.seconds[number]
        if zone is not None:
            text = str(
                self.upstream.query(f"SELECT CONVERT_TZ(FROM_UNIXTIME({instant}), @@time_zone, %s)", [zone])[0][0]
            )
            text += zone
        place = place_of(self.subtask(), StartTime.parse(text), relay)
        self.warnings = begin_at(self.subtask(), place)
        return place

    def rows(self, table: str) -> list[tuple[int, ...]]:
        return sorted(self.target.query(f"SELECT * FROM {self.name}.{table}"))


@pytest.fixture
def scene(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> Scene:
    return Scene(upstream, target, schema(upstream, target))


def test_a_time_begins_a_task_at_its_first_transaction_wherever_the_files_are(scene: Scene, tmp_path: Path) -> None:
    upstream = scene.upstream
    none = tmp_path / "no relay"
    remote = {
        number: place_of(scene.subtask(), StartTime.parse(text), none) for number, (text, _) in scene.seconds.items()
    }
    assert {number: place.position.file for number, place in remote.items()} == scene.files, (
        "each in the file that it began"
    )

    relay = tmp_path / "relay"
    with relaying(source_of(upstream, first=scene.first), relay):
        wait_until(lambda: has_reached(relay, upstream), "the relay")
        for number, (text, _) in scene.seconds.items():
            stored = place_of(scene.subtask(), StartTime.parse(text), relay)
            assert stored == remote[number]
        # Before everything that the relay has: the source has more.
        earliest = place_of(scene.subtask(), StartTime.parse("2001-01-01 00:00:00"), relay)
        assert (earliest.position.file < scene.first, earliest.known) == (True, False)
        with pytest.raises(DMError) as raised:
            place_of(scene.subtask(), StartTime.parse("2037-01-01 00:00:00"), relay)
        assert raised.value.name == "start-time-too-late"

        scene.begin(3, relay)
        with running_sync(scene.subtask(), relay) as sync:
            sync.wait_synced()
        assert [row[0] for row in scene.rows("k")] == [3, 4]
        assert scene.rows("l") == [(3,), (4,)]


@pytest.mark.parametrize("rotated", ["by that session", "by another"])
def test_a_clock_that_was_set_back_hides_nothing(scene: Scene, tmp_path: Path, rotated: str) -> None:
    """A session replays old changes, and its transactions end files: their times go back."""
    upstream, relay = scene.upstream, tmp_path / "relay"
    if rotated == "by that session" and upstream.flavor == "mariadb":
        pytest.skip("to MariaDB's files their times are all there is")
    text, _ = scene.seconds[3] = next_second(upstream)
    scene.write(5)
    if rotated == "by another":
        upstream.execute("SET timestamp = 1000000000", f"INSERT INTO {scene.name}.k VALUES (6, 6)")
        flush_logs(upstream)
    else:
        upstream.execute("SET timestamp = 1000000000", f"INSERT INTO {scene.name}.k VALUES (6, 6)", "FLUSH BINARY LOGS")
        upstream.execute("SET timestamp = 1000000001", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    scene.write(7)
    flush_logs(upstream)
    first = scene.files[1]
    place = place_of(scene.subtask(), StartTime.parse(text), tmp_path / "no relay")
    assert place.known
    with relaying(source_of(upstream, first=first), relay):
        wait_until(lambda: has_reached(relay, upstream), "the relay")
        assert place_of(scene.subtask(), StartTime.parse(text), relay) == place
    scene.begin(3, relay)
    with running_sync(scene.subtask()) as sync:
        sync.wait_synced()
    assert [row[0] for row in scene.rows("k")] == [5, 6, 7]


def test_going_back_repeats_keyed_rows_and_no_keyless_ones(scene: Scene, tmp_path: Path) -> None:
    began = scene.begin(3, tmp_path)
    with running_sync(scene.subtask()) as sync:
        sync.wait_synced()
        for change in (
            lambda: begin_at(scene.subtask(), began),
            lambda: forget_progress(scene.subtask(), tmp_path),
        ):
            with pytest.raises(DMError) as raised:
                change()
            assert raised.value.name == "task-runs-elsewhere"
    scene.target.execute(f"DELETE FROM {scene.name}.k WHERE id >= 4")
    scene.write(6)
    start = scene.begin(2, tmp_path, zone="+05:30")
    assert start.position.file == scene.files[2]
    assert ["tables without a key stay as they are" in warning for warning in scene.warnings] == [True]
    with running_sync(scene.subtask()) as sync:
        sync.wait_synced()
    assert scene.rows("k") == sorted(scene.upstream.query(f"SELECT * FROM {scene.name}.k WHERE id >= 2"))
    assert scene.rows("l") == [(3,), (4,), (6,)], "up to its checkpoint nothing is done again, after it all is"
    scene.write(7)
    with running_sync(scene.subtask()) as sync:
        sync.wait_synced()
    assert scene.rows("l")[-1] == (7,)


def test_a_time_of_another_history_than_the_checkpoint_s_is_refused(
    server: ServerFactory, flavor: Flavor, target: ThrowawayServer, tmp_path: Path
) -> None:
    """What is done is counted by places in files, and those of the new history have the same names."""
    upstream = server(flavor)
    name = "another_history"
    for each in (upstream, target):
        each.execute(f"CREATE DATABASE {name}")
    try:
        upstream.execute(RESET[flavor])
        scene = Scene(upstream, target, name)
        with running_sync(scene.subtask()) as sync:
            sync.wait_synced()
            scene.write(5)
            sync.wait_synced()  # it has read of the file that its checkpoint names
        before = scene.rows("l")
        next_second(upstream)
        upstream.execute(RESET[flavor], *["FLUSH BINARY LOGS"] * 8)
        scene.seconds[6] = next_second(upstream)
        scene.write(6)
        with pytest.raises(DMError) as raised:
            scene.begin(6, tmp_path)
        assert raised.value.name == "source-reset"
        assert scene.rows("l") == before
        forget_progress(scene.subtask(), tmp_path)
        scene.begin(6, tmp_path)
        with running_sync(scene.subtask()) as sync:
            sync.wait_synced()
        assert scene.rows("l") == [*before, (6,)]
    finally:
        target.execute(f"DROP DATABASE {name}")


@pytest.mark.chaos
def test_going_forward_leaves_out_what_lies_between_and_says_so(scene: Scene, tmp_path: Path) -> None:
    scene.begin(1, tmp_path)
    assert scene.warnings == []
    scene.begin(4, tmp_path)
    assert ["is left out" in warning for warning in scene.warnings] == [True]
    with running_sync(scene.subtask()) as sync:
        sync.wait_synced()
    assert [row[0] for row in scene.rows("k")] == [4]


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_of_200_files_of_a_source_eight_are_looked_at_and_one_is_read(
    server: ServerFactory, flavor: Flavor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight first events lead to the file; one dump finds the place in it, MySQL's GTIDs take another."""
    upstream = server(flavor)
    upstream.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, second INT)")
    flush_logs(upstream)
    upstream.execute(*["INSERT INTO d.t (second) VALUES (UNIX_TIMESTAMP())", "FLUSH BINARY LOGS"] * 198)
    files = [str(row[0]) for row in upstream.query("SHOW BINARY LOGS")]
    files = files[-199:-1]  # each with one row
    seconds = [int(row[0]) for row in upstream.query("SELECT second FROM d.t ORDER BY id")]
    opened: list[str] = []
    original = DumpStream.open

    def counted(self: DumpStream) -> None:
        opened.append(self.wanted)
        original(self)

    monkeypatch.setattr(DumpStream, "open", counted)
    most = 0
    wanted = sorted(set(seconds))[1:]
    for second in random.Random(1).sample(wanted, min(6, len(wanted))):
        opened.clear()
        found = find_time(endpoint_of(upstream), identity_for("test", "s"), second)
        assert found is not None
        assert (found.position.file, found.known) == (files[seconds.index(second)], True)
        most = max(most, len(opened))
    record(f"start_time.source_files.{flavor}", {"files": len(files) + 2, "most_dumps": most})
    assert most <= 8 + 2
