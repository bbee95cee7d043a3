"""What the registry holds is there after a crash, and never half of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.sourcelog.stream.until import UntilGtids, UntilTime
from dm.stored_format import REGISTRY
from dm.verbs.declaration import ConfigFile
from dm.worker.registry import Registry, SubtaskRecord

FILE = ConfigFile("task.yaml", "name: t\n", "/somewhere", {"PASSWORD": "secret"})


def reopened(path: Path, registry: Registry) -> Registry:
    registry.close()
    return Registry(path)


def test_everything_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "registry.sqlite"
    registry = Registry(path)
    registry.put_sources({"one": FILE, "two": FILE})
    registry.set_relay("two", asked=True, intent="paused")
    end = UntilGtids(GtidSet.parse("0-1-7"))
    registry.put_task("t", FILE, {"one": end, "two": None})
    registry.record("t", "one", SubtaskRecord("paused", "Paused", "Sync", {"errors": []}))

    registry = reopened(path, registry)
    assert registry.tasks() == {"t": FILE}
    assert registry.sources()["two"].relay_asked
    assert registry.sources()["two"].relay_intent == "paused"
    assert registry.subtasks() == {
        ("t", "one"): SubtaskRecord("paused", "Paused", "Sync", {"errors": []}, end),
        ("t", "two"): SubtaskRecord("running", "New", None, None),
    }
    registry.close()


def test_a_registry_of_before_there_was_an_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "registry.sqlite"
    registry = Registry(path)
    registry.put_sources({"one": FILE})
    registry.put_task("t", FILE, {"one": None})
    registry.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE subtask DROP COLUMN until")
        database.execute("PRAGMA user_version = 0")  # nor numbers of formats
    registry = Registry(path)
    assert registry.subtasks() == {("t", "one"): SubtaskRecord("running", "New", None, None)}
    registry.put_task("u", FILE, {"one": UntilTime(7, "then")})
    assert registry.subtasks()["u", "one"].until == UntilTime(7, "then")
    registry.close()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (REGISTRY.number,)


def test_an_update_of_a_source_keeps_what_is_wanted_of_its_relay(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry.sqlite")
    registry.put_sources({"one": FILE})
    registry.set_relay("one", asked=True, intent="running")
    registry.put_sources({"one": ConfigFile("new.yaml", "x", "/")})
    assert registry.sources()["one"].file.name == "new.yaml"
    assert registry.sources()["one"].relay_asked
    registry.close()


def test_a_task_goes_with_its_last_subtask(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry.sqlite")
    registry.put_sources({"one": FILE, "two": FILE})
    registry.put_task("t", FILE, {"one": None, "two": None})
    registry.remove_subtask("t", "one")
    assert list(registry.tasks()) == ["t"]
    registry.remove_subtask("t", "two")
    assert registry.tasks() == {}
    registry.close()


def test_a_subtask_that_exists_is_not_added_again_and_nothing_is_half_done(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry.sqlite")
    registry.put_sources({"one": FILE, "two": FILE})
    registry.put_task("t", FILE, {"one": None})
    with pytest.raises(DMError):
        registry.put_task("t", ConfigFile("other.yaml", "", "/"), {"two": None, "one": None})
    assert list(registry.subtasks()) == [("t", "one")]
    assert registry.tasks()["t"] == FILE
    registry.close()


def test_a_file_that_is_no_registry_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "registry.sqlite"
    path.write_text("something else, long enough to be read as a header")
    with pytest.raises(DMError, match="can't be used"):
        Registry(path)


def test_secrets_do_not_print() -> None:
    assert "secret" not in repr(FILE)
