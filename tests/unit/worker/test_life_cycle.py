"""The daemon with real processes: verbs, kills of hosts and of the daemon itself, and what comes back."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dm.sourcelog.relaylog.hold import needs
from tests.unit.worker.home import TestHome, home, until

LOST = {"error": "connection-lost", "role": "upstream", "address": "127.0.0.1:3306"}
DENIED = {"error": "access-denied", "role": "upstream", "address": "127.0.0.1:3306", "user": "dm"}


def test_a_task_runs_through_its_units_and_can_be_paused_resumed_and_stopped(one: TestHome) -> None:
    one.ok("start-task", one.task(mode="all"))
    until(lambda: one.trace("t") == ["Dump one", "Load one", "Sync one"])
    assert one.stage() == ("Running", "Sync")

    one.ok("pause-task", "t")
    assert one.subtask()["stage"] == "Paused"
    assert one.subtask()["result"] == {"isCanceled": True, "errors": [], "detail": ""}

    one.ok("resume-task", "t")
    until(lambda: one.stage() == ("Running", "Sync"))
    one.ok("stop-task", "t")
    assert one.ok("query-status")["tasks"] == []


def test_a_task_of_several_sources_and_a_verb_for_one_of_them(one: TestHome) -> None:
    one.ok("operate-source", "create", one.source("two"))
    one.ok("start-task", one.task(sources=("one", "two")))
    until(lambda: len(one.trace("t")) == 2)
    one.ok("pause-task", "t", "-s", "two")
    stages = {
        source["sourceStatus"]["source"]: source["subTaskStatus"][0]["stage"]
        for source in one.ok("query-status", "t")["sources"]
    }
    assert stages == {"one": "Running", "two": "Paused"}
    assert one.ok("query-status")["tasks"] == [{"taskName": "t", "taskStatus": "Paused", "sources": ["one", "two"]}]
    one.ok("stop-task", "t", "-s", "one")
    assert len(one.ok("query-status", "t")["sources"]) == 1
    assert [task["taskName"] for task in one.ok("query-status", "-s", "two")["tasks"]] == ["t"]
    assert one.ok("query-status", "-s", "one")["tasks"] == []


def test_a_task_has_one_file_on_all_its_sources(one: TestHome) -> None:
    one.ok("operate-source", "create", one.source("two"))
    one.ok("start-task", one.task())
    until(lambda: one.trace("t"))
    elsewhere = one.said("start-task", one.task(sources=("two",)))
    assert elsewhere.status == 1
    differs = "task t runs on source one, and the file differs from the running task's:"
    assert f"{differs} `mysql-instances` without one" in elsewhere.err
    text = (one.directory / one.task(sources=("one", "two"))).read_text()
    other = one.said("start-task", one.file("t.yaml", text.replace("port: 4000", "port: 4001")), "-s", "two")
    assert f"{differs} `target-database`" in other.err
    assert one.ok("query-status")["tasks"] == [{"taskName": "t", "taskStatus": "Running", "sources": ["one"]}]
    one.ok("start-task", one.file("t.yaml", text), "-s", "two")
    assert one.ok("query-status")["tasks"][0]["sources"] == ["one", "two"]


def test_nothing_takes_the_place_of_a_task_file_that_is_not_understood_any_more(one: TestHome) -> None:
    one.ok("operate-source", "create", one.source("two"))
    one.ok("start-task", one.task())
    until(lambda: one.trace("t"))
    one.stop()
    with closing(sqlite3.connect(one.directory / "registry.sqlite")) as registry, registry:
        registry.execute("UPDATE task SET text = 'name: [t'")
    one.start()
    file = one.task(sources=("one", "two"))
    assert "its file can't be read any more" in one.said("start-task", file, "-s", "two").err
    one.ok("stop-task", "t")
    one.ok("start-task", file)
    assert one.ok("query-status")["tasks"][0]["sources"] == ["one", "two"]


def test_the_status_of_a_source_that_is_not_there_is_an_error_that_names_those_that_are(one: TestHome) -> None:
    one.ok("operate-source", "create", one.source("two"))
    said = one.said("query-status", "-s", "nine")
    assert (said.status, "there is no source nine (known are: one, two)" in said.err) == (1, True)


def test_all_dumps_and_loads_of_a_task_share_a_process_and_every_syncer_has_its_own(one: TestHome) -> None:
    one.ok("operate-source", "create", one.source("two"))
    one.script("t", Dump="run")
    one.ok("start-task", one.task(mode="all", sources=("one", "two")))
    until(lambda: len(one.trace("t")) == 2)
    assert len(_pids(one, "t")) == 1
    one.ok("stop-task", "t")
    one.ok("start-task", one.task("u", sources=("one", "two")))
    until(lambda: len(one.trace("u")) == 2)
    assert len(_pids(one, "u")) == 2


def test_a_killed_host_comes_back_by_itself(one: TestHome) -> None:
    one.ok("start-task", one.task())
    until(lambda: one.trace("t"))
    os.kill(one.pid_of("t"), signal.SIGKILL)
    until(lambda: len(one.trace("t")) == 2)
    until(lambda: one.stage() == ("Running", "Sync"))
    detail = one.subtask()["result"]["detail"]
    assert "killed by SIGKILL" in detail, "for a while it is said why it was started again"


def test_a_frozen_host_is_killed_when_it_should_rest(one: TestHome) -> None:
    one.ok("start-task", one.task())
    until(lambda: one.trace("t"))
    os.kill(one.pid_of("t"), signal.SIGSTOP)
    one.ok("pause-task", "t")
    status = one.subtask()
    assert status["stage"] == "Paused"
    assert "did not stop within 2" in status["result"]["errors"][0]["Message"]


def test_synced_is_what_a_unit_says_now_or_nothing(one: TestHome) -> None:
    """Who switches over to the target when it is synced must not go by what was true before an outage."""
    one.ok("start-task", one.task())
    until(lambda: one.subtask().get("sync", {}).get("synced"))
    now = one.subtask()["sync"]
    assert now["lagSeconds"] == 0
    one.ok("pause-task", "t")
    resting = one.subtask()["sync"]
    assert resting["syncerBinlog"] == now["syncerBinlog"]
    assert resting["synced"] is False
    until(lambda: one.subtask()["sync"]["lagSeconds"] > resting["lagSeconds"])
    one.ok("resume-task", "t")
    until(lambda: one.subtask().get("sync", {}).get("synced"))
    os.kill(one.pid_of("t"), signal.SIGSTOP)
    try:
        silent = one.subtask()
    finally:
        os.kill(one.pid_of("t"), signal.SIGCONT)
    assert silent["stage"] == "Running"
    assert silent["sync"]["synced"] is False
    until(lambda: one.subtask()["sync"]["synced"])


def test_a_task_with_an_end_keeps_it_through_a_kill_and_finishes_there(one: TestHome) -> None:
    one.ok("start-task", one.task(), "--until", "mysql-bin.000009:7")
    until(lambda: one.trace("t"))
    assert one.subtask()["until"] == "(b.000009, 7)"
    assert "t on one: ends at (b.000009, 7)" in one.said("query-status", "t").out
    one.kill()
    one.script("t", Sync="finish")
    one.start()
    until(lambda: one.stage() == ("Finished", "Sync"))
    assert one.until_given("t") == {"kind": "position", "server": "a-server", "file": "b.000009", "offset": 7}
    for _ in range(2):
        detail = one.subtask()["result"]["detail"]
        assert detail.startswith("stopped at the place asked for: (mysql-bin.000001, 154)")
        assert one.said("wait", "t", "--finished").status == 0
        one.kill()
        one.start()


def test_a_place_that_can_t_be_the_end_starts_nothing(one: TestHome) -> None:
    one.ok("operate-source", "create", one.source("two"))
    several = one.said("start-task", one.task(sources=("one", "two")), "--until", "b.000001:4")
    assert (several.status, "means nothing in the others" in several.err) == (2, True)
    (one.directory / "servers.json").write_text('{"passed": true}')
    refused = one.said("start-task", one.task(), "--until", "b.000001:4")
    assert (refused.status, "the task can't end at b.000001:4" in refused.err) == (1, True)
    assert one.ok("query-status")["tasks"] == []
    (one.directory / "servers.json").unlink()
    one.ok("start-task", one.task(sources=("one", "two")), "--until", "2026-11-21 10:00:00")


def test_a_stopped_task_says_where_it_is(one: TestHome) -> None:
    one.ok("start-task", one.task())
    until(lambda: one.subtask().get("sync"))
    stopped = one.said("stop-task", "t").out
    assert "t on one: stopped at (mysql-bin.000003, 154), GTID set none" in stopped
    assert "target 127.0.0.1:4000: its binlog ends at (binlog.000002, 99), GTID set none" in stopped
    one.ok("start-task", one.task())
    until(lambda: one.subtask().get("sync"))
    (one.directory / "servers.json").write_text('{"target_gone": true}')
    answer = one.ok("stop-task", "t")["sources"][0]
    assert "broke" in answer["placeProblem"]
    assert answer["syncerBinlog"] == "(mysql-bin.000001, 154)", "as the unit said last"


def test_a_task_starts_while_its_target_is_down_and_holds_all_relay_files(one: TestHome) -> None:
    answers = one.directory / "servers.json"
    answers.write_text('{"target_denied": true}')
    assert one.said("start-task", one.task()).status == 1, "no time heals this"
    answers.write_text('{"target_gone": true}')
    for needed in (("--remove-meta",), ("--start-time", "2026-11-21T10:00:00")):
        assert one.said("start-task", one.task(), *needed).status == 1, "that needs the target now"
    assert one.ok("query-status")["tasks"] == []
    relay = one.directory / "relay" / "one"
    assert needs(relay) == []
    started = one.ok("start-task", one.task())
    assert "its relay keeps all its files" in started["warnings"][0]
    assert [(need.everything, need.begins) for need in needs(relay)] == [(True, False)]


def test_who_asks_for_a_task_in_error_is_told_by_the_exit_status(one: TestHome) -> None:
    one.script("t", Sync=DENIED)
    one.tried("start-task", one.task())
    until(lambda: one.stage() == ("Paused", "Sync"))
    for form in ("table", "json"):
        assert one.said("query-status", "t", "-o", form).status == 1
    assert one.said("query-status").status == 0, "the list of all tasks is no question about one"
    assert one.said("wait", "t", "--synced").status == 1
    one.script("t")
    assert one.said("resume-task", "t", "--follow").status == 0
    assert one.said("query-status", "t").status == 0
    assert one.said("wait", "t", "--synced", "--timeout", "60").status == 0


def test_an_outage_keeps_the_progress_of_a_load(one: TestHome) -> None:
    one.script("t", Load="run")
    one.ok("start-task", one.task(mode="full"))
    rows = until(lambda: int(one.subtask().get("load", {}).get("totalRows", 0)))
    one.script("t", Load="starting")
    os.kill(one.pid_of("t"), signal.SIGKILL)
    until(lambda: one.trace("t").count("Load one") == 2)
    until(lambda: one.subtask()["load"]["waiting"] == "the target")
    assert int(one.subtask()["load"]["totalRows"]) >= rows


def test_a_retryable_error_is_retried_and_said_meanwhile(one: TestHome) -> None:
    one.script("t", Sync=LOST)
    one.tried("start-task", one.task())
    result = until(lambda: one.subtask()["result"])  # one look: the next run may have none yet
    assert "the connection to upstream 127.0.0.1:3306 broke" in str(result)
    until(lambda: len(one.trace("t")) >= 3)
    one.script("t")
    until(lambda: one.stage() == ("Running", "Sync"))


def test_a_pause_wins_over_auto_resume(one: TestHome) -> None:
    one.script("t", Sync=LOST)
    one.tried("start-task", one.task())
    until(lambda: len(one.trace("t")) >= 2)
    until(lambda: one.dmctl("pause-task", "t").status == 0)  # refused only while it is just coming to rest
    tries = len(one.trace("t"))
    one.script("t")
    until(lambda: (one.subtask()["result"] or {}).get("isCanceled"))
    one.kill()
    one.start()
    assert one.stage() == ("Paused", "Sync"), "also after the daemon came back"
    assert len(one.trace("t")) == tries
    one.ok("resume-task", "t")
    until(lambda: one.stage() == ("Running", "Sync"))


@pytest.mark.parametrize("verb", ["start-task", "resume-task"])
def test_a_task_that_can_t_be_set_to_work_is_no_success(one: TestHome, verb: str) -> None:
    if verb == "resume-task":
        one.ok("start-task", one.task())
        one.ok("pause-task", "t")
    one.script("t", Sync=DENIED)
    done = one.said(verb, one.task(), "-o", "json")
    assert done.status == 1
    assert done.json["result"] is True
    ((line),) = done.json["sources"]
    assert (line["result"], line["stage"]) == (False, "Paused")
    assert (line["error"]["ErrCode"], line["msg"]) == (10900, line["error"]["Message"])
    one.script("t")
    assert one.ok("resume-task", "t")["sources"] == [
        {"result": True, "msg": "", "source": "one", "stage": "Running", "detail": ""}
    ]


def test_a_run_that_turns_to_the_source_for_what_the_relay_lacks_is_no_failure(one: TestHome) -> None:
    lacks = {"error": "relay-file-missing", "file": "b.1", "first": "b.7", "once": True}
    one.script("t", Sync=lacks)
    assert one.ok("start-task", one.task())["sources"][0]["stage"] == "Running"
    assert one.trace("t") == ["Sync one", "Sync one"]


def test_of_several_subtasks_the_one_that_fails_is_said(one: TestHome) -> None:
    one.ok("operate-source", "create", one.source("two"))
    one.script("t", **{"Sync two": LOST})
    done = one.said("start-task", one.task(sources=("one", "two")))
    assert done.status == 1
    assert "t on two: auto-resume tries again in" in done.err
    assert "one" not in done.err
    assert one.said("resume-task", "-s", "one", "-s", "two").status == 1


def test_an_error_that_needs_a_person_stays(one: TestHome) -> None:
    one.script("t", Sync=DENIED)
    one.tried("start-task", one.task())
    until(lambda: one.stage() == ("Paused", "Sync"))
    error = one.subtask()["result"]["errors"][0]
    assert (error["ErrCode"], error["Workaround"] != "") == (10900, True)
    summary = one.ok("query-status")["tasks"][0]["taskStatus"]
    assert summary.startswith("Error - Some error occurred in subtask")


def test_a_full_task_finishes_and_stays_finished(one: TestHome) -> None:
    one.ok("start-task", one.task(mode="full"))
    until(lambda: one.stage() == ("Finished", "Load"))
    one.kill()
    one.start()
    assert one.stage() == ("Finished", "Load")
    assert one.trace("t") == ["Dump one", "Load one"]
    assert one.ok("query-status")["tasks"][0]["taskStatus"] == "Finished"


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_the_daemon_comes_back_to_where_it_was(one: TestHome, how: str) -> None:
    one.ok("start-task", one.task(mode="all"))
    one.ok("start-task", one.task("paused"))
    until(lambda: one.trace("t")[-1:] == ["Sync one"])
    one.ok("pause-task", "paused")
    old = one.pid_of("t")
    descriptor = os.pidfd_open(old)
    one.kill() if how == "kill" else one.stop()
    until(lambda: _is_gone(descriptor))
    (one.directory / "servers.json").write_text('{"first_unit": {"t": "Sync"}}')
    one.start()
    until(lambda: one.trace("t") == ["Dump one", "Load one", "Sync one", "Sync one"])
    assert one.stage() == ("Running", "Sync")
    assert one.stage("paused") == ("Paused", "Sync")


def test_a_load_is_not_begun_anew_where_its_syncer_has_been_at_work(one: TestHome) -> None:
    """The target has lost the progress: a load over the rows there would leave those that were deleted since."""
    one.ok("start-task", one.task(mode="all"))
    until(lambda: one.trace("t") == ["Dump one", "Load one", "Sync one"])
    one.kill()
    one.start()  # the target says that the task begins with its dump
    until(lambda: one.stage()[0] == "Paused")
    assert [error["ErrCode"] for error in one.subtask()["result"]["errors"]] == [36939]
    assert one.trace("t") == ["Dump one", "Load one", "Sync one"]
    one.ok("stop-task", "t")
    one.ok("start-task", one.task(mode="all"), "--remove-meta")
    until(lambda: one.trace("t")[3:] == ["Dump one", "Load one", "Sync one"])


def test_sigterm_ends_the_daemon_in_order(one: TestHome) -> None:
    one.ok("start-task", one.task())
    until(lambda: one.trace("t"))
    assert one.stop() == 0
    assert not (one.directory / "dm-worker.sock").exists()


def test_a_killed_daemon_leaves_no_host_behind(one: TestHome) -> None:
    one.script("t", Sync="ignore-stop")
    one.ok("start-task", one.task())
    until(lambda: one.trace("t"))
    descriptor = os.pidfd_open(one.pid_of("t"))
    one.kill()
    until(lambda: _is_gone(descriptor))


def test_a_task_that_was_stopped_does_not_come_back(one: TestHome) -> None:
    one.ok("start-task", one.task())
    until(lambda: one.trace("t"))
    one.ok("stop-task", "t")
    one.kill()
    one.start()
    assert one.ok("query-status")["tasks"] == []


def test_a_source_is_updated_only_while_no_task_runs_on_it(one: TestHome) -> None:
    one.ok("start-task", one.task())
    refused = one.dmctl("operate-source", "update", one.source(enable_relay=True))
    assert refused.status == 1
    assert "task t uses source one" in refused.err
    until(lambda: one.dmctl("pause-task", "t").status == 0)
    one.ok("operate-source", "update", one.source(enable_relay=True))
    show = one.ok("operate-source", "show", "one")["sources"][0]
    assert show["relayStatus"]["stage"] == "Running"
    assert one.dmctl("operate-source", "stop", "one").status == 1, "a paused task still needs its source"


def test_a_second_daemon_in_the_same_home_is_refused(one: TestHome) -> None:
    other = one.launch()
    assert other.wait(30) == 4
    assert "another dm-worker (pid " in (one.directory / "daemon.log").read_text()
    assert one.dmctl("query-status").status == 0


def _pids(one: TestHome, task: str) -> set[str]:
    return {line.split()[-1] for line in (one.directory / "work" / task / "trace").read_text().splitlines()}


def _is_gone(descriptor: int) -> bool:
    import select

    return bool(select.select([descriptor], [], [], 0)[0])


_AFTER_LOAD = 4  # the change of stage that launches the syncer


@pytest.mark.parametrize(
    "passage",
    [1, *(pytest.param(later, marks=pytest.mark.chaos) for later in (2, 3, _AFTER_LOAD))],
)
def test_a_daemon_killed_at_any_change_of_stage_goes_on_from_there(tmp_path: Path, passage: int) -> None:
    with home(tmp_path / "home") as one:
        one.environment["DM_FAULTS"] = f"worker.after_state_change=kill@{passage}"
        one.start()
        one.ok("operate-source", "create", one.source())
        one.dmctl("start-task", one.task(mode="all"))  # it may or may not answer before it dies
        assert one.daemon is not None
        assert one.daemon.wait(120) == -signal.SIGKILL
        one.environment.clear()
        if passage == _AFTER_LOAD:  # which has written a checkpoint
            (one.directory / "servers.json").write_text('{"first_unit": {"t": "Sync"}}')
        one.start()
        until(lambda: one.stage() == ("Running", "Sync"))


def test_a_pause_that_was_promised_holds_after_a_kill(tmp_path: Path) -> None:
    with home(tmp_path / "home") as one:
        # Changes of stage: progress is looked up, the unit is launched, and the third is the pause itself.
        one.environment["DM_FAULTS"] = "worker.after_state_change=kill@3"
        one.start()
        one.ok("operate-source", "create", one.source())
        one.ok("start-task", one.task())
        until(lambda: one.trace("t"))
        one.dmctl("pause-task", "t")
        assert one.daemon is not None
        assert one.daemon.wait(120) == -signal.SIGKILL
        one.environment.clear()
        one.start()
        assert one.stage() == ("Paused", "Sync")
        assert len(one.trace("t")) == 1
