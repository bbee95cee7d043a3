"""`dmctl shard-ddl-lock`: DM's JSON and flags, and what people read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.unit.worker.home import TestHome, home

ID = "merge-`a`.`t`"
BAD_USAGE = 2


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("locks") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source())
        for name, mode in (("merge", "pessimistic"), ("other", "")):
            text = running.directory.joinpath(running.task(name)).read_text() + f"shard-mode: {mode!r}\n"
            running.ok("start-task", running.file(f"{name}.yaml", text))
        yield running


@pytest.mark.parametrize("words", ["shard-ddl-lock list", "shard-ddl-lock", "shard-ddl-lock merge", "show-ddl-locks"])
def test_locks_are_listed_with_who_is_missing(one: TestHome, words: str) -> None:
    assert one.said(*words.split()).out.splitlines() == [
        f"{ID}, owner one, since 2026-01-01 10:00:00+00:00: ALTER TABLE `a`.`t` ADD c INT",
        "  missing: source three, which has not run yet",
        "  missing: two `a`.`t2`",
        "  arrived since 2026-01-01 10:00:00+00:00: one `a`.`t1`",
    ]


def test_the_json_is_dms(one: TestHome) -> None:
    answer = json.loads(one.said("shard-ddl-lock", "list", "-o", "json").out)
    (lock,) = answer["locks"]
    dms = {"ID", "task", "mode", "owner", "DDLs", "synced", "unsynced"}
    assert (answer["result"], answer["msg"], dms - set(lock)) == (True, "", set())
    answer = json.loads(one.said("shard-ddl-lock", "list", "other", "-o", "json").out)
    assert answer == {"result": True, "msg": "no DDL lock exists", "locks": []}


@pytest.mark.parametrize(
    ("flags", "decision"),
    [
        ("", "sources=(), table=None, skip=False, force_remove=False"),
        ("-a skip", "sources=(), table=None, skip=True, force_remove=False"),
        ("-s one -s two -o one --action exec", "sources=('one', 'two'), table=None, skip=False, force_remove=False"),
        ("-d a -t t2", "sources=(), table=TableName(schema='a', table='t2'), skip=False, force_remove=False"),
        ("-s two -f", "sources=('two',), table=None, skip=False, force_remove=True"),
    ],
)
def test_every_flag_of_dm_is_taken(one: TestHome, flags: str, decision: str) -> None:
    said = one.said("shard-ddl-lock", "unlock", ID, *flags.split())
    assert (said.status, said.out) == (0, f"{ID}: nobody is waited for\n")
    assert decision in (one.directory / "decided-merge").read_text()


def test_what_is_no_lock_is_said(one: TestHome) -> None:
    said = one.said("unlock-ddl-lock", "nothing-`a`.`t`")
    assert said.status == 1
    assert "Error 38019: lock with ID nothing-`a`.`t` not found" in said.err
    assert one.said("shard-ddl-lock", "unlock", ID, "-d", "a").status == BAD_USAGE
