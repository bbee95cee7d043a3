"""The purge: what goes, what stays and why, and what a SIGKILL leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dm import faults
from dm.config.source import Purge
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import Position
from dm.relay.purge import ENDS, GIB, Purged, RelayPurge
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.relaylog.layout import RelayDirectory
from tests.testbed.fake_clock import FakeClock
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER
from tests.unit.sourcelog.relaylog.relay_files import add_files, binlog, names

OTHER = "11111111-71ca-11e1-9e33-c80aa9429562"
ROOT = Path(__file__).resolve().parents[3]


def purge_of(root: Path, clock: FakeClock | None = None, free: int = 100 * GIB, **settings: object) -> RelayPurge:
    keys = Purge.model_validate({"interval": 60, **settings})
    return RelayPurge(RelayDirectory(root), keys, clock or FakeClock(), lambda _: free)


def hold(root: Path, task: str, number: int, uuid: str = SERVER, gtids: str = "") -> None:
    Hold(root, task).keep_from(Position(uuid, binlog(number), 154, GtidSet.parse(gtids)))


def left(root: Path, number: int = 1) -> list[int]:
    """The numbers of the files in the sub-directory of this number."""
    return [int(name[-6:]) for name in names(root) if f".{number:06d}/" in name]


def before(root: Path, number: int, sub: str = "") -> Purged:
    return purge_of(root).before(binlog(number), sub, "s")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A relay with the files 1 to 10."""
    add_files(RelayDirectory(tmp_path), SERVER, range(1, 11))
    return tmp_path


def test_files_before_one_go_with_their_indexes(root: Path) -> None:
    done = before(root, 4)
    assert (left(root), done.kept_back) == ([4, 5, 6, 7, 8, 9, 10], "")
    sub = RelayDirectory(root).last()
    assert sub is not None
    assert done.files == [f"{sub.name}/{binlog(number)}" for number in (1, 2, 3)]
    assert done.size > 0
    assert sorted(path.name for path in sub.path.glob("*.idx")) == [f"{binlog(number)}.idx" for number in range(4, 11)]


def test_a_task_at_file_3_keeps_it_and_all_after_it_although_another_is_at_9(root: Path) -> None:
    hold(root, "fast", 9)
    hold(root, "paused", 3)
    done = before(root, 9)
    assert left(root) == [3, 4, 5, 6, 7, 8, 9, 10]
    assert done.kept_back == f"task paused needs the files from {binlog(3)} on"
    hold(root, "paused", 8)
    assert before(root, 9).kept_back == f"task paused needs the files from {binlog(8)} on"
    assert left(root) == [8, 9, 10]
    Hold(root, "paused").remove()
    assert before(root, 9).kept_back == ""
    assert left(root) == [9, 10]


def test_a_task_without_a_checkpoint_keeps_everything(root: Path) -> None:
    Hold(root, "new").create()
    done = before(root, 9)
    assert (left(root), done.files) == (list(range(1, 11)), [])
    assert done.kept_back == "task new, which has no checkpoint yet, needs every file"


def test_a_task_that_is_ahead_of_the_relay_keeps_nothing_that_is_behind_it(root: Path) -> None:
    hold(root, "ahead", 12)
    before(root, 10)
    assert left(root) == [10]


def test_a_task_before_the_relay_or_of_an_unknown_server_keeps_everything(root: Path) -> None:
    before(root, 3)
    hold(root, "behind", 2)
    assert before(root, 9).files == []
    hold(root, "behind", 2, OTHER)
    assert before(root, 9).files == []
    assert left(root) == list(range(3, 11))


def test_a_task_of_an_unknown_server_is_found_by_its_gtids(root: Path) -> None:
    """After a switch that the relay has not seen: the newest file that begins inside of its past is the first."""
    hold(root, "switched", 2, OTHER, f"{SERVER}:1-6")
    assert before(root, 9).kept_back.startswith("task switched")
    assert left(root) == [6, 7, 8, 9, 10]


def test_the_newest_file_stays_and_so_does_the_last_one_that_has_begun(root: Path) -> None:
    clock = FakeClock()
    assert left(root)[-1] == 10
    sub = RelayDirectory(root).last()
    assert sub is not None
    sub.file(binlog(11)).write_bytes(b"\xfebi")  # created, and killed before its beginning was there
    purge_of(root, clock, free=0, remain_space=1).by_itself()
    assert left(root) == [10, 11]


@pytest.mark.parametrize(
    "file", ["../../etc/passwd", "relay.meta", "mysql-bin.000003.idx", "", "server-uuid.index", "/"]
)
def test_what_is_no_name_of_a_binlog_file_is_refused(root: Path, file: str) -> None:
    with pytest.raises(DMError) as raised:
        purge_of(root).before(file, "", "s")
    assert raised.value.name == "usage"
    assert left(root) == list(range(1, 11))


def test_a_file_or_sub_directory_that_is_not_there_is_said_to_be_missing(root: Path) -> None:
    with pytest.raises(DMError) as raised:
        before(root, 11)
    assert (raised.value.name, f"{binlog(1)} to {binlog(10)}" in raised.value.message) == (
        "relay-purge-unknown-file",
        True,
    )
    for sub in ("..", f"../{root.name}/{SERVER}.000001", f"{SERVER}.000002"):
        with pytest.raises(DMError) as raised:
            before(root, 5, sub)
        assert raised.value.name == "relay-purge-unknown-directory"
    with pytest.raises(DMError) as raised:
        before(root / "empty", 1)
    assert raised.value.name == "relay-without-files"


def test_files_go_by_age_when_nobody_wrote_to_them_for_longer(root: Path) -> None:
    clock = FakeClock(now=1_800_000_000.0)
    sub = RelayDirectory(root).last()
    assert sub is not None
    for number in range(1, 11):
        hours_ago = clock.time() - (10 - number) * 3600
        os.utime(sub.file(binlog(number)), (hours_ago, hours_ago))
    purge = purge_of(root, clock, expires=5, remain_space=0)
    purge.by_itself()
    assert left(root) == [5, 6, 7, 8, 9, 10]
    clock.now += 2 * 3600
    hold(root, "t", 6)
    assert purge.by_itself().kept_back.startswith("task t")
    assert left(root) == [6, 7, 8, 9, 10]


def test_files_go_until_enough_space_is_free_and_no_further(root: Path) -> None:
    def free(directory: Path) -> int:
        return 10 * GIB - len(names(directory)) * GIB  # each file takes one

    purge = RelayPurge(RelayDirectory(root), Purge(interval=60, remain_space=4), FakeClock(), free)
    purge.by_itself()
    assert left(root) == [5, 6, 7, 8, 9, 10]
    assert purge.by_itself().files == []


def test_an_older_sub_directory_goes_with_its_last_file(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    first = add_files(directory, SERVER, range(1, 4))
    second = add_files(directory, OTHER, range(7, 10))
    first.meta.write_text("binlog-name = 'x'\n")
    hold(tmp_path, "t", 2)
    assert before(tmp_path, 9).directories == []
    assert left(tmp_path) == [2, 3]
    hold(tmp_path, "t", 8, OTHER)
    assert before(tmp_path, 9).directories == [first.name]
    assert not first.path.exists()
    assert (tmp_path / "server-uuid.index").read_text() == f"{second.name}\n"
    assert left(tmp_path, 2) == [8, 9]


def test_a_sub_directory_that_a_task_reads_on_from_stays_without_files(tmp_path: Path) -> None:
    """A reader at the end of the old server's last file finds the new server's files through the index."""
    directory = RelayDirectory(tmp_path)
    first = add_files(directory, SERVER, range(1, 4))
    add_files(directory, OTHER, range(7, 10))
    hold(tmp_path, "t", 4)  # ahead of what the relay has of the old server
    done = before(tmp_path, 9)
    assert left(tmp_path, 1) == []
    assert (done.directories, first.path.exists()) == ([], True)
    assert left(tmp_path, 2) == [7, 8, 9]


def test_things_of_somebody_else_keep_a_sub_directory(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    first = add_files(directory, SERVER, range(1, 3))
    add_files(directory, OTHER, range(7, 9))
    (first.path / "notes.txt").write_text("mine")
    assert before(tmp_path, 8).directories == []
    assert [path.name for path in first.path.iterdir()] == ["notes.txt"]
    assert len(RelayDirectory(tmp_path).sub_directories()) == 2


def test_only_files_of_the_named_sub_directory_and_those_before_it_go(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    first = add_files(directory, SERVER, range(1, 6))
    add_files(directory, OTHER, range(1, 6))
    before(tmp_path, 3, first.name)
    assert (left(tmp_path, 1), left(tmp_path, 2)) == ([3, 4, 5], [1, 2, 3, 4, 5])
    before(tmp_path, 2)
    assert (left(tmp_path, 1), left(tmp_path, 2)) == ([], [2, 3, 4, 5])


def test_the_same_server_that_came_back_keeps_the_earlier_of_two_files_of_one_name(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    add_files(directory, SERVER, range(1, 6))
    add_files(directory, OTHER, range(1, 3))
    add_files(directory, SERVER, range(5, 9))
    hold(tmp_path, "t", 5)
    before(tmp_path, 8)
    assert [left(tmp_path, number) for number in (1, 2, 3)] == [[5], [1, 2], [5, 6, 7, 8]]
    hold(tmp_path, "t", 6)
    before(tmp_path, 8)
    assert left(tmp_path, 3) == [6, 7, 8]


def test_a_task_that_is_created_while_a_file_is_removed_loses_nothing_that_it_has_seen(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purge has looked at the holds and not yet removed: who creates one waits for that, and keeps what is left."""
    gate, struck = tmp_path / "gate", tmp_path / "struck"
    monkeypatch.setenv("DM_FAULTS_LOG", str(struck))
    faults.arm(f"purge.decided=hang:{gate}")
    outcome: list[Purged] = []
    purging = threading.Thread(target=lambda: outcome.append(before(root, 9)))
    purging.start()
    while not struck.exists():
        threading.Event().wait(0.005)
    created = threading.Event()
    seen: list[int] = []

    def create() -> None:
        Hold(root, "new").create()
        seen.extend(left(root))
        created.set()

    creating = threading.Thread(target=create)
    creating.start()
    assert not created.wait(0.2), "the hold was there between the look at the holds and the removal"
    gate.touch()
    purging.join()
    creating.join()
    assert left(root) == seen == list(range(2, 11))
    assert outcome[0].kept_back.startswith("task new")


def test_a_purge_that_is_under_way_is_the_only_one_and_ends_with_its_relay(root: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    faults.arm(f"purge.file_removed=hang:{gate}")
    purge = purge_of(root)
    outcome: list[Purged] = []
    purging = threading.Thread(target=lambda: outcome.append(purge.before(binlog(9), "", "s")))
    purging.start()
    while left(root)[0] == 1:
        threading.Event().wait(0.005)
    with pytest.raises(DMError) as raised:
        purge.before(binlog(9), "", "s")
    assert raised.value.name == "relay-purge-busy"
    ending = threading.Thread(target=purge.end)
    ending.start()
    while not purge._over.is_set():
        threading.Event().wait(0.005)
    gate.touch()
    ending.join()
    purging.join()
    assert left(root) == list(range(2, 11))
    assert (len(outcome[0].files), outcome[0].kept_back) == (1, ENDS)


PROGRAM = """
import sys
from pathlib import Path
from tests.unit.relay.test_purge import before
before(Path(sys.argv[1]), int(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("point", "passage"),
    [
        ("purge.decided", 2),
        ("purge.index_removed", 1),
        ("purge.index_removed", 4),
        ("purge.file_removed", 3),
        ("purge.directory_removed", 1),
    ],
)
def test_killed_in_between_the_directory_is_sound_and_the_next_purge_ends_it(
    tmp_path: Path, point: str, passage: int
) -> None:
    directory = RelayDirectory(tmp_path)
    add_files(directory, SERVER, range(1, 4))
    second = add_files(directory, OTHER, range(3, 9))
    all_names = names(tmp_path)

    killed = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "6"],
        env={**os.environ, "DM_FAULTS": f"{point}=kill@{passage}", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr
    found = names(tmp_path)
    assert found == all_names[len(all_names) - len(found) :], "what is left is the end of what was there"
    for sub in directory.sub_directories():
        assert {path.stem for path in sub.path.glob("*.idx")} <= set(sub.files()), "an index without its file"
    assert directory.last() == second
    assert before(tmp_path, 6).files == found[:-3]
    assert names(tmp_path) == [f"{second.name}/{binlog(number)}" for number in (6, 7, 8)]
    assert (tmp_path / "server-uuid.index").read_text() == f"{second.name}\n"
