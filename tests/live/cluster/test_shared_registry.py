"""The registry of several hosts against that of one, which is its oracle; and its moves there and back."""

from __future__ import annotations

import random
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dm.clock import SystemClock
from dm.cluster.etcd import Etcd, KeyChange
from dm.cluster.members import ClusterRecord
from dm.cluster.mirror import CLUSTER_KEY, Mirror
from dm.errors import DMError
from dm.verbs.declaration import ConfigFile
from dm.worker.home import Home
from dm.worker.registry import Registry, SubtaskRecord, ValidatorRecord
from dm.worker.registry_moves import init, move_into_cluster, move_out_of_cluster
from dm.worker.shared_registry import SharedRegistry
from tests.testbed.etcd import EtcdServer
from tests.testbed.sync import wait_until

pytestmark = pytest.mark.live

SOURCES, TASKS = ("s/1", "s 2"), ("t", "ü")


class Side:
    """One member's registry."""

    def __init__(self, server: EtcdServer, prefix: str, directory: Path) -> None:
        self.etcd: Etcd = server.client()
        self.mirror = Mirror(self.etcd, prefix, SystemClock())
        self.mirror.begin()
        directory.mkdir(exist_ok=True)
        self.registry = SharedRegistry(directory / "cluster.sqlite", self.mirror, lambda _: None)

    def close(self) -> None:
        self.mirror.end()
        self.etcd.close()
        self.registry.close()


def file(text: object) -> ConfigFile:
    return ConfigFile("file.yaml", f"text {text}", "/somewhere", {"NAME": "värde"})


def all_of(registry: Registry) -> list[Any]:
    return [
        registry.sources(), registry.tasks(), registry.subtasks(), registry.validators(), registry.prepared_tasks(),
        registry.templates(), registry.disabled_sources(), *(registry.earlier_file(task) for task in TASKS),
    ]  # fmt: skip


def same(one: Registry, other: Registry) -> bool:
    return all_of(one) == all_of(other)


def step(chance: random.Random) -> Callable[[Registry], None]:
    """One change; the same to each registry that it is done to."""
    source, task, text = chance.choice(SOURCES), chance.choice(TASKS), chance.randrange(1000)
    record = SubtaskRecord(chance.choice(["running", "paused"]), "Paused", "Sync", {"errors": [text]})
    steps: list[Callable[[Registry], None]] = [
        lambda of: of.put_sources(dict.fromkeys(SOURCES, file(text))),
        lambda of: of.set_relay(source, asked=text % 2 == 0, intent="paused"),
        lambda of: of.put_task(task, file(text), {} if (task, source) in of.subtasks() else {source: None}),
        lambda of: of.record(task, source, record),
        lambda of: of.put_validator(task, source, ValidatorRecord("full", running=True)),
        lambda of: of.update_task(task, file(text), keep=text % 2 == 0),
        lambda of: of.remove_subtask(task, source),
        lambda of: of.put_prepared_task(task, file(text) if text % 3 else None),
        lambda of: of.put_template(task, str(text) if text % 3 else None),
        lambda of: of.set_enabled(source, enabled=text % 2 == 0),
        lambda of: of.remove_source(source),
    ]
    return chance.choice(steps)


def outcome(change: Callable[[Registry], None], registry: Registry) -> str:
    try:
        change(registry)
    except DMError as error:
        return error.name  # what refers to something that is not there
    return "done"


@pytest.fixture
def prefix(etcd: EtcdServer) -> str:
    name = f"/{secrets.token_hex(4)}/"
    init(etcd.access(), name)
    return name


@pytest.fixture
def sides(etcd: EtcdServer, prefix: str, tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    both = Side(etcd, prefix, tmp_path / "a"), Side(etcd, prefix, tmp_path / "b")
    yield both
    for each in both:
        each.close()


def test_two_members_have_what_one_host_would_have(
    etcd: EtcdServer, prefix: str, sides: tuple[Side, Side], tmp_path: Path
) -> None:
    seed = secrets.randbits(32)
    print("seed", seed)
    chance, oracle = random.Random(seed), Registry(tmp_path / "oracle.sqlite")
    done = 0
    for number in range(150):
        change, side = step(chance), sides[chance.randrange(2)]
        other = sides[1 - sides.index(side)]
        wanted = outcome(change, oracle)
        found = outcome(change, side.registry)
        if found == "registry-changed":  # the other wrote what was there already, and this one had not seen it yet
            found = outcome(change, side.registry)
        assert found == wanted, number
        done += wanted == "done"
        assert all_of(side.registry) == all_of(oracle), number
        wait_until(partial(same, other.registry, oracle), f"the other member has it, too ({number})")
    assert done > 75
    late = Side(etcd, prefix, tmp_path / "late")
    assert all_of(late.registry) == all_of(oracle)
    late.close()
    oracle.close()


def test_a_change_of_what_another_member_has_changed_is_refused_and_then_made(sides: tuple[Side, Side]) -> None:
    a, b = (each.registry for each in sides)
    a.put_sources({"s": file(1)})
    wait_until(lambda: "s" in b.sources(), "the source is known")
    sides[1].mirror._stop.set()  # its watch sees nothing any more
    sides[1].etcd.interrupt()
    sides[1].mirror._thread.join()
    a.set_relay("s", asked=True, intent="running")
    with pytest.raises(DMError, match="another member has changed the same thing"):
        b.set_relay("s", asked=False, intent="paused")
    assert b.sources()["s"].relay_asked is True
    b.set_relay("s", asked=False, intent="paused")
    wait_until(lambda: a.sources()["s"].relay_intent == "paused", "the change is told")


def test_a_change_of_another_member_right_after_ours_is_taken_over(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = sides
    publish = a.registry._publish

    def overtaken() -> Mapping[str, int]:
        written = publish()
        wait_until(lambda: "s" in b.registry.sources(), "the other member has it")
        b.registry.set_relay("s", asked=True, intent="paused")
        (key,) = written
        wait_until(lambda: a.mirror.revision(key) > written[key], "its change is told")
        return written

    with monkeypatch.context() as patched:
        patched.setattr(a.registry, "_publish", overtaken)
        a.registry.put_sources({"s": file(1)})
    assert a.registry.sources()["s"].relay_intent == "paused"
    a.registry.put_sources({"s": file(2)})
    wait_until(lambda: b.registry.sources()["s"].file == file(2), "the next change is told")
    assert b.registry.sources()["s"].relay_intent == "paused"


def test_what_could_not_be_taken_over_is_tried_again(sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = sides
    b.registry.put_sources({"s": file(1)})
    wait_until(lambda: a.mirror.below("registry/source/") != {}, "the source is told")

    def fails(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(a.registry, "_take_over", fails)
        with pytest.raises(DMError):
            a.registry.sources()
    assert [*a.registry.sources()] == ["s"]
    assert a.registry._read("PRAGMA foreign_keys") == [(1,)]
    with pytest.raises(DMError):
        a.registry.put_task("t", file(1), {"no such source": None})


def test_a_task_is_started_on_sources_of_ones_own_alone(
    etcd: EtcdServer, prefix: str, sides: tuple[Side, Side], tmp_path: Path
) -> None:
    def demand_owned(source: str) -> None:
        if source != "mine":
            raise DMError("source-without-owner", sources=source)

    registry = SharedRegistry(tmp_path / "owner.sqlite", sides[0].mirror, demand_owned)
    registry.put_sources({"mine": file(1), "gone": file(1)})
    with pytest.raises(DMError, match="gone"):
        registry.put_task("t", file(1), {"mine": None, "gone": None})
    assert registry.tasks() == {}
    registry.put_task("t", file(1), {"mine": None})
    assert [*registry.subtasks()] == [("t", "mine")]
    registry.close()


def test_more_rows_than_a_transaction_of_etcd_takes(sides: tuple[Side, Side]) -> None:
    a, b = (each.registry for each in sides)
    names = [f"source-{number}" for number in range(150)]
    a.put_sources(dict.fromkeys(names, file(1)))
    a.put_task("t", file(1), dict.fromkeys(names))
    wait_until(lambda: len(b.subtasks()) == 150, "the other member has all")
    assert all_of(a) == all_of(b)


def test_without_etcd_nothing_is_changed(own_etcd: EtcdServer, tmp_path: Path) -> None:
    init(own_etcd.access(), "/dm/")
    side = Side(own_etcd, "/dm/", tmp_path / "a")
    side.registry.put_sources({"s": file(1)})
    own_etcd.kill()
    with pytest.raises(DMError, match="etcd can't be reached"):
        side.registry.put_sources({"s": file(2)})
    with pytest.raises(DMError, match="etcd can't be reached"):
        side.registry.remove_source("s")
    assert side.registry.sources()["s"].file == file(1)
    side.registry.put_settings({"log-level": "debug"})  # of this host alone
    assert side.registry.settings() == {"log-level": "debug"}
    side.close()


def test_a_registry_moves_there_and_back(etcd: EtcdServer, tmp_path: Path) -> None:
    home, other, prefix = Home(tmp_path / "home"), Home(tmp_path / "other"), f"/{secrets.token_hex(4)}/"
    home.create()
    other.create()
    registry = Registry(home.registry)
    registry.put_sources({f"source-{number}": file(number) for number in range(150)})
    registry.put_task("t", file("t"), {f"source-{number}": None for number in range(150)})
    before = all_of(registry)
    registry.close()
    with pytest.raises(DMError, match="there is no registry at"):
        move_into_cluster(etcd.access(), prefix, other)
    number, sources = move_into_cluster(etcd.access(), prefix, home)
    assert sources == 150
    assert not home.registry.exists()
    with pytest.raises(DMError, match=f"there is a cluster already, number {number}"):
        init(etcd.access(), prefix)
    side = Side(etcd, prefix, tmp_path / "a")
    assert all_of(side.registry) == before
    side.close()
    assert move_out_of_cluster(etcd.access(), prefix, other) == 150
    registry = Registry(other.registry)
    assert all_of(registry) == before
    registry.close()
    client = etcd.client()
    assert client.read(prefix).entries == {}
    client.close()
    with pytest.raises(DMError, match="there is no cluster below"):
        move_out_of_cluster(etcd.access(), prefix, Home(tmp_path / "home"))


def test_a_cluster_with_members_stays(etcd: EtcdServer, prefix: str, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    client = etcd.client()
    client.write({}, [KeyChange(f"{prefix}member/a", "{}")])
    with pytest.raises(DMError, match="member a is online"):
        move_out_of_cluster(etcd.access(), prefix, home)
    assert ClusterRecord.read(client.read(prefix + CLUSTER_KEY).entries[prefix + CLUSTER_KEY].value).number
    client.close()
