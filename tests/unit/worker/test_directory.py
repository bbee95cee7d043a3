"""Directories that can't be used are noticed before anything relies on them, and looking leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.dumpfiles import s3_client
from dm.dumpfiles.storage import unusable
from dm.worker.configuration import directories
from tests.testbed.snapshots import Snapshots
from tests.unit.config.texts import TASK, task
from tests.unit.worker.home import TestHome, home

PRECHECK_FAILED = 3
SNAPSHOTS = Snapshots(Path(__file__).parent / "said")


def test_a_directory_that_could_be_made_is_usable_and_is_not_made(tmp_path: Path) -> None:
    assert unusable(tmp_path / "a" / "b" / "c") == ""
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert unusable(tmp_path) == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/dm", "/dev/null"])
def test_why_a_directory_is_unusable_is_said_with_its_name(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    assert str(tmp_path / place).removesuffix("/below") in unusable(tmp_path / place)


def test_a_bad_relay_directory_is_told_at_create_at_start_relay_and_by_the_check(tmp_path: Path) -> None:
    with home(tmp_path / "home") as one:
        one.start()
        (one.directory / "file").touch()
        for keys in ({"relay_dir": "file/relay"}, {"relay_dir": "file/relay", "enable_relay": True}):
            refused = one.said("operate-source", "create", one.source("bad", **keys))
            SNAPSHOTS.demand("relay-directory-create", refused, home=str(one.directory))
        assert one.ok("operate-source", "show")["sources"] == []

        one.ok("operate-source", "create", one.source("one"))
        (one.directory / "relay" / "one").touch()
        refused = one.said("start-relay", "-s", "one")
        SNAPSHOTS.demand("relay-directory-start-relay", refused, home=str(one.directory))
        assert one.ok("operate-source", "show")["sources"][0]["relayStatus"] is None
        for verb in ("check-task", "start-task"):
            failed = one.said(verb, one.task("t", "all"))
            SNAPSHOTS.demand(f"relay-directory-{verb}", failed, home=str(one.directory))


def test_a_bad_dump_directory_is_told_before_the_start(tmp_path: Path) -> None:
    with home(tmp_path / "home") as one:
        one.start()
        one.ok("operate-source", "create", one.source("one"))
        (one.directory / "file").touch()
        _task(one, "t", f"{one.directory}/file/dump")
        for verb in ("check-task", "start-task"):
            failed = one.said(verb, "t.yaml")
            SNAPSHOTS.demand(f"dump-directory-{verb}", failed, home=str(one.directory))
        assert one.ok("query-status")["tasks"] == []

        (one.directory / "servers.json").write_text('{"first_unit": {"t": "Sync"}}')
        one.ok("start-task", "t.yaml")  # it has loaded already: nothing goes there any more
        one.ok("stop-task", "t")
        assert one.said("start-task", "t.yaml", "--remove-meta").status == PRECHECK_FAILED


def _task(one: TestHome, name: str, directory: str) -> None:
    text = (one.directory / one.task(name, "all")).read_text()
    text = text.replace("  - source-id: one\n", f"  - source-id: one\n    loader: {{dir: {directory}}}\n")
    one.file(f"{name}.yaml", text)


def test_a_bucket_that_can_not_be_used_is_told_by_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_client, "_ATTEMPTS", 1)
    keys = "access-key=canaryA&secret-access-key=canaryS"
    config = task(f"{TASK}    loader: {{dir: 's3://dumps/x?endpoint=http://127.0.0.1:9&{keys}'}}\n").subtask("mysql-01")
    (found,) = directories(config, tmp_path / "work", tmp_path / "relay", None)
    assert (found.item, found.state) == ("dump_directory", "failure")
    assert "object storage at s3://dumps/x/shop.mysql-01" in found.message
    assert "127.0.0.1:9" in found.message
    assert "canary" not in f"{found}"
    assert list(tmp_path.iterdir()) == []
    loaded = directories(config, tmp_path / "work", tmp_path / "relay", lambda _: "Sync")
    assert list(loaded) == [], "what is loaded needs no dump"
