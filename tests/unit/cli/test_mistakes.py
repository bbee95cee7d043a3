"""The mistakes of a first hour, as snapshots: what is said word by word, and the exit status.

The daemon runs with scripted units and servers. Mistakes that need a server are in tests/live/cli.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.home import TestHome, home

OK, FAILED, BAD_USAGE = 0, 1, 2

_USAGE = "Usage: dmctl [OPTIONS] COMMAND [ARGS]...\nTry 'dmctl --help' for help.\n\n"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("mistakes") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source())
        running.ok("start-task", running.task("shop"))
        yield running


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("query-stats", f"{_USAGE}Error: No such command 'query-stats'. Did you mean 'query-status'?\n"),
        ("frobnicate", f"{_USAGE}Error: No such command 'frobnicate'.\n"),
        (
            "query-status -o xml",
            "Usage: dmctl query-status [OPTIONS] [task]\nTry 'dmctl query-status --help' for help.\n\n"
            "Error: Invalid value for '--output' / '-o': 'xml' is not one of 'table', 'json'.\n",
        ),
        *(
            (
                words,
                f"{_USAGE}Error: Invalid value for '--rpc-timeout': "
                "'soon' is not a duration such as 30s, 10m or 1h30m\n",
            )
            for words in ("--rpc-timeout soon query-status", "query-status --rpc-timeout=soon")
        ),
        (
            "pause-task",
            "Error 48904: neither a task nor a source is named\n  workaround: name a task, or a source with -s\n",
        ),
        (
            "operate-source create shop.yaml",
            "Error 20900: shop.yaml: one problem\n"
            "shop.yaml:1:1: this is a task file; expected a source file; "
            "task files are for `dmctl check-task` and `dmctl start-task` [20960]\n"
            "  workaround: correct the file; nothing was changed\n",
        ),
        (
            "start-task one.yaml",
            "Error 20900: one.yaml: one problem\n"
            "one.yaml:1:1: this is a source file; expected a task file; "
            "source files are for `dmctl operate-source create` [20960]\n"
            "  workaround: correct the file; nothing was changed\n",
        ),
        (
            "check-task tab.yaml",
            "Error 20900: tab.yaml: one problem\n"
            "tab.yaml:2:1: not YAML: a tab stands here; write blanks: YAML takes no tabs here [20903]\n"
            "  workaround: correct the file; nothing was changed\n",
        ),
        (
            "check-task indent.yaml",
            "Error 20900: indent.yaml: one problem\n"
            "indent.yaml:4:3: not YAML: the indentation of this line fits no section above it; "
            "lines of one section begin in the same column [20903]\n"
            "  workaround: correct the file; nothing was changed\n",
        ),
        (
            "check-task absent.yaml",
            "Error 48900: can't read absent.yaml\n  cause: No such file or directory\n"
            "  workaround: give the path of a source or task file (YAML in UTF-8)\n",
        ),
    ],
)
def test_bad_usage(one: TestHome, words: str, said: str) -> None:
    one.file("tab.yaml", "name: t\n\ttask-mode: all\n")
    one.file("indent.yaml", "name: t\ntarget-database:\n    host: a\n  port: 1\n")
    done = one.said(*words.split())
    assert (done.status, done.out, done.err) == (BAD_USAGE, "", said)


def test_a_task_that_is_started_twice(one: TestHome) -> None:
    done = one.said("start-task", "shop.yaml")
    assert (done.status, done.out) == (FAILED, "")
    assert done.err == (
        "Error 46014: task shop already exists on source one\n"
        "  workaround: see `dmctl query-status shop`; give the new task another name, or stop the old one with "
        "`dmctl stop-task shop`\n"
    )


@pytest.mark.parametrize(
    ("place", "cause"),
    [
        ("file", "File exists: {tmp}/file"),
        ("file/home", "Not a directory: {tmp}/file/home"),
        ("/proc/home", "No such file or directory: /proc/home"),
    ],
)
def test_a_home_that_can_not_be_made(tmp_path: Path, place: str, cause: str) -> None:
    (tmp_path / "file").touch()
    where = tmp_path / place
    done = TestHome(tmp_path).dmctl("query-status", DM_HOME=str(where))
    said = (
        f"Error 40930: the state directory {where} can't be made or used\n  cause: {cause.format(tmp=tmp_path)}\n"
        "  workaround: set DM_HOME to a directory that is yours and that you may write to; the default is ~/.dm\n"
    )
    assert (done.status, done.out, done.err) == (BAD_USAGE, "", said)
    daemon = TestHome(tmp_path / "daemon", environment={"DM_HOME": str(where)})
    assert daemon.launch().wait(60) == BAD_USAGE
    printed = (daemon.directory / "daemon.log").read_text()
    assert "Traceback" not in printed
    assert f"Message: the state directory {where} can't be made or used" in printed


def test_the_hint_of_follow_names_an_option_that_is_there(one: TestHome) -> None:
    done = one.said("start-task", "shop.yaml", "--follow", "-o", "json")
    assert done.status == BAD_USAGE
    hint = done.err.splitlines()[1].partition("`dmctl ")[2].rstrip("`").replace("<task>", "shop").split()
    assert one.said(*hint).status == OK


def test_a_version(one: TestHome) -> None:
    for option in ("--version", "-V"):
        done = one.said(option)
        assert done.status == OK
        assert done.out.startswith("dmctl ")


def test_an_answer_that_does_not_come_in_time(one: TestHome) -> None:
    one.script("slow", Sync="ignore-stop")
    one.ok("start-task", one.task("slow"))
    done = one.dmctl("--rpc-timeout", "100ms", "pause-task", "slow")
    assert (done.status, done.out) == (FAILED, "")
    assert done.err == (
        f"Error 48930: dm-worker at {one.directory} did not answer within 0.1 s\n  cause: TimeoutError: timed out\n"
        "  workaround: dm-worker continues with the request: see `dmctl query-status`, or wait longer with "
        "--rpc-timeout\n"
    )


def test_a_task_that_is_refused_by_its_source(one: TestHome) -> None:
    denied = {"error": "access-denied", "role": "upstream", "address": "127.0.0.1:3306", "user": "dm"}
    one.script("refused", Sync=denied)
    error = (
        "Error 10900: upstream 127.0.0.1:3306 refuses user dm\n"
        "  workaround: check user and password in the configuration file; the cause has the server's words\n"
    )
    for words in (("start-task", one.task("refused")), ("resume-task", "refused")):
        done = one.said(*words)
        assert (done.status, done.err) == (FAILED, error)
        assert done.out == "task     source  stage \nrefused  one     Paused\n"
    done = one.said("resume-task", "refused", "--follow")
    assert done.status == FAILED
    assert "refuses user dm" in done.out


def test_all_tasks_of_a_source(tmp_path: Path) -> None:
    with home(tmp_path / "home") as two:
        two.start()
        two.ok("operate-source", "create", two.source("one"), two.source("two"))
        assert two.said("pause-task", "-s", "one").out == "no tasks on one\n"
        for name, sources in (("a", ("one",)), ("b", ("one", "two")), ("c", ("two",))):
            two.ok("start-task", two.task(name, sources=sources))
        answer = two.ok("pause-task", "-s", "one")
        assert [(task["taskName"], [source["source"] for source in task["sources"]]) for task in answer["tasks"]] == [
            ("a", ["one"]), ("b", ["one"]),
        ]  # fmt: skip
        again = two.said("pause-task", "-s", "one", "-s", "two")
        assert again.status == FAILED, "a is paused already"
        assert "Error 40908" in again.err
        assert two.stage("c")[0] == "Paused", "that one refuses keeps none of the others from it"
        assert two.said("resume-task", "-s", "one", "-s", "two").status == OK
        assert two.ok("stop-task", "-s", "two")["result"] is True
        assert [task["taskName"] for task in two.ok("query-status")["tasks"]] == ["a", "b"]
        assert "there is no source three" in two.said("stop-task", "-s", "three").err
