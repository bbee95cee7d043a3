"""DM's older verbs run under their present names; those without an equal say what there is in their place."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dm.cli.dmctl import execute
from dm.cli.older_verbs import INSTEAD, INSTEAD_OF_CONFIG, RENAMED
from tests.unit.worker.home import TestHome, home

BAD_USAGE = 2


@pytest.mark.parametrize(
    ("verb", "words", "becomes"),
    [
        ("handle-error", "shop skip", "binlog skip shop"),
        ("handle-error", "-s one shop -b f.000001:4 revert", "binlog revert -s one shop -b f.000001:4"),
        ("handle-error", "-s skip shop skip", "binlog skip -s skip shop"),
        ("handle-error", "shop replace SQL", "binlog replace shop SQL"),
        ("operate-schema", "get -s one shop -d db -t tbl", "binlog-schema list shop db tbl -s one"),
        ("operate-schema", "set shop -d db -t tbl f.sql", "binlog-schema update shop db tbl f.sql"),
        ("operate-schema", "set -s one shop -d db f.sql -t tbl", "binlog-schema update shop db tbl f.sql -s one"),
        ("operate-schema", "set shop -d db -t tbl --from-source", "binlog-schema update shop db tbl --from-source"),
        ("operate-schema", "remove shop --database db --table tbl", "binlog-schema delete shop db tbl"),
        ("get-config", "task shop --file f.yaml", "config task shop --path f.yaml"),
        ("show-ddl-locks", "shop", "shard-ddl-lock list shop"),
        ("unlock-ddl-lock", "id -o one", "shard-ddl-lock unlock id -o one"),
        ("get-task-config", "shop", "config task shop"),
    ],
)
def test_an_older_name_becomes_the_present_one(verb: str, words: str, becomes: str) -> None:
    assert RENAMED[verb](words.split()) == becomes.split()


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("older") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source())
        running.ok("start-task", running.task("shop"))
        yield running


def test_handle_error_does_what_it_did_and_says_its_new_name(one: TestHome) -> None:
    done = one.said("handle-error", "shop", "skip", "-b", "mysql-bin.000001:4")
    assert done.status == 0, done.err
    assert done.err == "`handle-error` is an older name: this is `dmctl binlog skip`\n"
    asked = json.loads((one.directory / "work" / "shop" / "asked").read_text())
    assert (asked["verb"], asked["binlog_pos"]) == ("skip", "mysql-bin.000001:4")


def test_get_config_shows_the_task(one: TestHome) -> None:
    assert "name: shop" in one.said("get-config", "task", "shop").out


@pytest.mark.parametrize("words", ["--master-addr {} query-status", "query-status --master-addr=http://{} shop"])
def test_the_address_of_dms_master_is_that_of_a_worker(one: TestHome, words: str) -> None:
    said = one.said(*words.format("127.0.0.1:1").split())
    assert said.status == 1
    assert said.err.splitlines()[:2] == [
        "`--master-addr` is DM's: this is `--addr`, which names a dm-worker",
        "Error 48001: no dm-worker answers at 127.0.0.1:1",
    ]


@pytest.mark.parametrize(
    ("words", "noted"),
    [
        ("query-status shop --more", "`--more` has no effect: what validators found is always shown"),
        ("query-status --more shop -o json", "`--more` has no effect: what validators found is always shown"),
        ("pause-task --batch-size 5 shop", "`--batch-size` has no effect: all tasks of a source are asked at once"),
        ("resume-task shop --batch-size=5", "`--batch-size` has no effect: all tasks of a source are asked at once"),
        ("operate-source show -w worker-1", "`-w` has no effect: it is of `operate-source create`"),
        ("start-relay -s one worker-1", "warning: -w worker-1 has no effect: this dm-worker is no member of a cluster"),
    ],
)
def test_an_option_of_dm_without_effect_is_taken_and_said(one: TestHome, words: str, noted: str) -> None:
    done = one.said(*words.split())
    assert done.status == 0, done.err
    assert done.err.startswith(noted)


@pytest.mark.parametrize("option", ["-e 3", "--error=3", "-w 0", "--warn 3"])
def test_check_task_shows_all_findings_whatever_number_dm_would_show(one: TestHome, option: str) -> None:
    plain = one.said("check-task", one.task("shop"))
    asked = one.said("check-task", *option.split(), one.task("shop"))
    assert (asked.status, asked.out) == (plain.status, plain.out)
    assert asked.err.startswith(f"`{option.split('=')[0].split()[0]}` has no effect: all findings are shown\n")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        *((f"config {verb}", hint) for verb, hint in INSTEAD_OF_CONFIG.items()),
        ("operate-source -p", "`task-examples/` has source files, and docs/configuration.md all their keys"),
    ],
)
def test_what_dm_has_below_a_verb_says_what_to_use(words: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(words.split()) == BAD_USAGE
    assert capsys.readouterr().err == f"Error 48904: `{words}` of DM is not there\n  workaround: {hint}\n"


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("help", "--help"),
        ("help query-status", "query-status --help"),
        ("help binlog", "binlog --help"),
        ("help binlog skip", "binlog skip --help"),
    ],
)
def test_help_is_a_verb_too(words: str, same: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(words.split()) == 0
    told = capsys.readouterr()
    assert execute(same.split()) == 0
    assert (told.out, told.err) == (capsys.readouterr().out, "")
    assert told.out.strip().startswith("Usage: dmctl")


def test_help_for_a_verb_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["help", "query-stats"]) == BAD_USAGE
    assert "Did you mean 'query-status'?" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["handle-error shop", "operate-schema get shop -d db", "operate-schema take shop"])
def test_an_older_verb_that_lacks_words_is_bad_usage(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(words.split()) == BAD_USAGE
    assert "  workaround: use `dmctl binlog" in capsys.readouterr().err


@pytest.mark.parametrize("verb", sorted(INSTEAD))
def test_a_verb_without_an_equal_says_what_to_use(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([verb, "some", "--words", "-x"]) == BAD_USAGE
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"Error 48904: `{verb}` of DM is not there\n  workaround: {INSTEAD[verb]}\n"


def test_what_is_told_to_use_is_there() -> None:
    """Each `dmctl ...` in the hints names a verb that there is."""
    import re

    from dm.cli.commands import LISTED

    named = {match for hint in INSTEAD.values() for match in re.findall(r"`dmctl ([a-z-]+)", hint)}
    assert named <= LISTED.keys()
