"""What is left of sources and tasks that are known no more is listed, and goes when a person names it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dm.sourcelog.relaylog.layout import RelayDirectory
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER
from tests.unit.sourcelog.relaylog.relay_files import add_files
from tests.unit.worker.home import TestHome, home

FAILED = 1


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("forgotten") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source("known"), running.source("kept"))
        for source in ("known", "kept", "gone"):
            add_files(RelayDirectory(running.directory / "relay" / source), SERVER, range(1, 4))
        running.ok("operate-source", "stop", "kept", "--keep-relay")
        running.ok("start-task", running.task("t", sources=("known",)))
        for task in ("t", "old"):
            (running.directory / "work" / task / ".sync").mkdir(parents=True, exist_ok=True)
            (running.directory / "work" / task / ".sync" / "spool").write_bytes(b"rows")
        (running.directory / "work" / "theirs").mkdir()
        (running.directory / "work" / "theirs" / "shop.orders.sql").write_text("INSERT ..")
        running.file("servers.json", json.dumps({"stored": ["t", "old", "other"]}))
        yield running


def names(one: TestHome) -> set[str]:
    return {line["name"] for line in one.ok("forgotten", "list")["forgotten"]}


def test_what_nobody_is_known_for_is_listed(one: TestHome) -> None:
    assert names(one) == {"relay/kept", "relay/gone", "work/old", "work/theirs", "progress/old", "progress/other"}
    said = one.said("forgotten", "list").out
    assert "3 files, " in said
    assert "127.0.0.1:4000/dm_meta" in said
    assert "7 tables of one, two" in said


def test_a_target_that_can_not_be_asked_keeps_nothing_else_from_being_listed(one: TestHome) -> None:
    one.file("servers.json", json.dumps({"stored": ["old"], "target_gone": True}))
    said = one.said("forgotten", "list")
    one.file("servers.json", json.dumps({"stored": ["t", "old", "other"]}))
    assert (said.status, "relay/kept" in said.out) == (FAILED, True)
    assert "warning: 127.0.0.1:4000/dm_meta: the connection to downstream 127.0.0.1:4000 broke" in said.err


def test_a_file_of_a_forgotten_task_leads_to_its_target_though_its_sources_are_forgotten(one: TestHome) -> None:
    text = (one.directory / one.task("old", sources=("gone",))).read_text().replace("4000", "4001")
    said = one.said("forgotten", "list", "--file", one.file("old.yaml", text)).out
    assert "127.0.0.1:4001/dm_meta" in said
    assert "127.0.0.1:4000" not in said


def test_what_is_named_goes_and_nothing_else(one: TestHome) -> None:
    refused = one.said("forgotten", "remove", "relay/gone", "relay/known")
    assert refused.status == FAILED
    assert "there are no forgotten remains named relay/known; there are: relay/gone, " in refused.err
    assert "relay/gone" in names(one), "all or nothing"
    refused = one.said("forgotten", "remove", "progress/t")
    assert (refused.status, "named progress/t; there are: progress/old" in refused.err) == (FAILED, True)

    before = names(one)
    done = one.said("forgotten", "remove", "relay/gone", "work/old", "progress/old", "work/theirs")
    assert done.status == 0, done.err
    assert done.out.splitlines() == [
        "relay/gone is removed",
        "work/old is removed",
        "progress/old is removed; what stays: `dm_meta`.`old_loader_deferral`",
        "work/theirs is removed; what stays: shop.orders.sql",
    ]
    assert (one.directory / "removed").read_text() == "127.0.0.1:4000/dm_meta old\n"
    assert before - names(one) == {"relay/gone", "work/old"}, "the target has been told, and a person's file stays"
    assert (one.directory / "relay" / "known").is_dir()
    assert (one.directory / "work" / "t" / ".sync" / "spool").exists()


def test_stop_task_removes_what_is_stored_when_it_is_asked_to(one: TestHome) -> None:
    one.ok("start-task", one.task("brief", sources=("known",)))
    (one.directory / "work" / "brief" / ".sync").mkdir()
    answer = one.said("stop-task", "brief", "--remove-meta")
    assert answer.status == 0, answer.err
    assert "brief on known: its progress is removed" in answer.out
    assert (one.directory / "forgotten").read_text().splitlines()[-1] == "brief/known"
    assert (one.directory / "removed").read_text().splitlines()[-1] == "127.0.0.1:4000/dm_meta brief"
    assert not (one.directory / "work" / "brief" / ".sync").exists()
    assert one.said("query-status", "brief").status == FAILED


def test_what_a_known_task_or_source_uses_is_not_forgotten_under_whatever_name(one: TestHome) -> None:
    link = one.directory.parent / "link"
    link.symlink_to(one.directory / "relay")
    one.ok("operate-source", "create", one.source("linked", relay_dir=str(link)))
    add_files(RelayDirectory(one.directory / "relay" / "linked"), SERVER, range(1, 4))
    one.ok("start-task", one.task("shop.orders", sources=("known",)))
    text = (one.directory / one.task("reader", sources=("known",))).read_text()
    one.ok("start-task", one.file("reader.yaml", text + "    loader:\n      dir: ./dumps/all\n"))
    for name in ("dumped_data.shop.orders", "dumps/all.reader", "dumped_data.reader.orders"):
        (one.directory / "work" / name).mkdir(parents=True)
    found = names(one)
    assert {name for name in found if name.startswith("work/dump")} == {"work/dumped_data.reader.orders"}
    assert "relay/linked" not in found


def test_tables_with_progress_of_other_sources_stay(one: TestHome) -> None:
    one.ok("start-task", one.task("both", sources=("known",)))
    one.file("servers.json", json.dumps({"stored": ["both"]}))
    before = (one.directory / "removed").read_text() if (one.directory / "removed").exists() else ""
    one.ok("stop-task", "both", "--remove-meta")
    assert (one.directory / "forgotten").read_text().splitlines()[-1] == "both/known"
    assert ((one.directory / "removed").read_text() if (one.directory / "removed").exists() else "") == before
