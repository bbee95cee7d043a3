"""A relay that is removed leaves nothing of its own, and all that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.errors import DMError
from dm.relay.puller import sole_writer
from dm.relay.purge import relay_size, remove_relay
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.relaylog.layout import RelayDirectory
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER
from tests.unit.sourcelog.relaylog.relay_files import add_files, binlog


def relay(root: Path) -> RelayDirectory:
    """Files of a lost history, those of the present one, and a directory that was never listed."""
    directory = RelayDirectory(root)
    add_files(directory, SERVER, range(1, 4))
    directory.set_aside()
    add_files(directory, SERVER, range(1, 3))
    (root / f"{SERVER}.000009").mkdir()
    Hold(root, "t").create()
    return directory


def test_everything_of_a_relay_goes(tmp_path: Path) -> None:
    root = tmp_path / "one"
    relay(root)
    files, size = relay_size(root)
    assert files == 5
    removed = remove_relay(root)
    assert (removed.files, removed.size, removed.left, root.exists()) == (5, size, "", False)
    assert remove_relay(root).files == 0, "nothing is there any more"


@pytest.mark.parametrize("place", ["", f"{SERVER}.000001.reset", f"{SERVER}.000002", "holds"])
def test_what_no_relay_has_made_stays(tmp_path: Path, place: str) -> None:
    relay(tmp_path)
    other = tmp_path / place / "notes.txt"
    other.write_text("of a person")
    removed = remove_relay(tmp_path)
    assert removed.files == 5
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["notes.txt"]
    assert removed.left in ("notes.txt", f"{SERVER}.000001.reset", f"{SERVER}.000002.reset", "holds")


def test_a_relay_that_runs_is_not_removed(tmp_path: Path) -> None:
    relay(tmp_path)
    with sole_writer(tmp_path), pytest.raises(DMError) as raised:
        remove_relay(tmp_path)
    assert (raised.value.name, relay_size(tmp_path)[0]) == ("relay-in-use", 5)


def test_a_directory_that_is_none_of_a_relay_stays_as_it_is(tmp_path: Path) -> None:
    sub = tmp_path / f"{SERVER}.000001"
    sub.mkdir()
    for name in (binlog(1), "other.000001"):
        (sub / name).write_bytes(b"bytes")
    with pytest.raises(DMError) as raised:
        remove_relay(tmp_path)
    assert raised.value.name == "relay-directory-foreign"
    assert len(list(sub.iterdir())) == 2
