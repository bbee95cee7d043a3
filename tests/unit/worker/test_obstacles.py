"""What keeps a task from getting on beside its own process is told wherever a person looks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from dm.downstream.connection import TargetConnection
from dm.downstream.session_lock import words_while_asking
from dm.mysql.dialect import dialect, flavor_of
from dm.verbs.sources import ShowSources
from tests.unit.worker.home import TestHome, home, until

REBUILT = {"error": "source-changed-without-gtid", "now": "b", "before": "a"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("obstacles") / "home") as running:
        running.start("--metrics-addr", "127.0.0.1:0")
        yield running


@pytest.fixture
def one(daemon: TestHome) -> Iterator[TestHome]:
    daemon.ok("operate-source", "create", daemon.source())
    yield daemon
    for task in daemon.ok("query-status")["tasks"]:
        daemon.ok("stop-task", task["taskName"])
    daemon.ok("operate-source", "stop", "one")


def relay_does(one: TestHome, action: object) -> None:
    directory = one.directory / "relay" / "one"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "script.json").write_text(json.dumps({"Relay": action}))


def scraped(one: TestHome) -> str:
    found = re.search(r'"metrics": "([^"]+)"', (one.directory / "daemon.log").read_text())
    assert found is not None
    token = (one.directory / "token").read_text().strip()
    return httpx.get(f"http://{found[1]}/metrics", headers={"authorization": f"Bearer {token}"}).text


def test_a_relay_in_error_is_an_error_of_the_task_that_reads_it(one: TestHome) -> None:
    relay_does(one, "run")
    one.ok("start-relay", "-s", "one")
    one.script("t", Sync="behind")  # as one that has come to the end of the relay's files
    one.ok("start-task", one.task())
    until(lambda: one.trace("t"))
    assert (one.directory / "work" / "t" / "reads").read_text() == "the relay"
    assert not one.subtask()["relayRests"]

    one.ok("pause-relay", "-s", "one")
    until(lambda: one.ask(ShowSources())["sources"][0]["relayStatus"]["stage"] == "Paused")
    relay_does(one, REBUILT)
    refused = one.said("resume-relay", "-s", "one")
    assert (refused.status, "relay of one: error 30034: the source is now server b" in refused.out) == (1, True)

    assert one.subtask()["relayRests"]
    shown = one.said("query-status", "t")
    assert (shown.status, "Running, relay Paused" in shown.out, "error 30034" in shown.out) == (1, True, True)
    assert one.ok("query-status")["tasks"][0]["taskStatus"].startswith("Error - Relay status is Paused")
    waited = one.said("wait", "t", "--synced", "--timeout", "600")
    assert (waited.status, "the relay that it reads rests" in waited.out) == (1, True)
    followed = one.said("query-status", "t", "--follow")
    assert (followed.status, "error 30034" in followed.out) == (1, True)
    assert 'dm_worker_task_relay_rests{source_id="one",task="t"} 1.0' in scraped(one)

    for words in ((), ("--follow",)):
        name = f"load{len(words)}"
        started = one.said("start-task", one.task(name, "all"), *words)
        assert started.status == 1
        assert "30034: the source is now server b" in started.out + started.err
        if not words:
            assert "put right: `dmctl resume-relay -s one`" in started.err
    assert one.trace("load0") == [], "its dump waits for the relay"


def test_a_load_says_why_its_relay_does_not_receive(one: TestHome) -> None:
    relay_does(one, {"waits": "connection-failed", "role": "source", "address": "127.0.0.1:3306", "user": "dm"})
    said = one.said("start-relay", "-s", "one")
    assert (said.status, "error 10002: can't connect to source" in said.out) == (0, True), "it tries again by itself"
    started = one.said("start-task", one.task("load", "all"))
    assert started.status == 0
    waits = (
        "waits for the relay of source one to receive, which has error 10002: can't connect to source 127.0.0.1:3306"
    )
    assert f"load on one: {waits}" in started.err
    assert f"load on one: {waits}" in one.said("query-status", "load").out
    assert 'dm_relay_source_answers{source_id="one"} 0.0' in scraped(one)


def test_a_load_that_asks_a_cluster_for_its_sessions_says_so(one: TestHome) -> None:
    """Where a firewall is in between, each question takes its whole limit, and nothing is loaded meanwhile."""
    tidb = dialect(flavor_of("8.0.11-TiDB-v8.5.1"))
    words = words_while_asking(cast(TargetConnection, SimpleNamespace(dialect=tidb, address="127.0.0.1:4000")))
    one.script("load", Load={"says": {"waiting": words}})
    one.ok("start-task", one.task("load", "full"))
    until(lambda: one.subtask("load")["load"]["waiting"])
    assert f"load on one: waits: {words}" in one.said("query-status", "load").out
    assert "status ports" in words


@pytest.mark.parametrize(("role", "side"), [("source", "sourceAnswers"), ("target", "targetAnswers")])
def test_a_server_that_can_not_be_reached_is_told_until_it_answers(one: TestHome, role: str, side: str) -> None:
    one.script("t")
    metric = f'dm_worker_{role}_answers{{source_id="one",task="t"}}'
    one.ok("start-task", one.task())
    status = until(lambda: one.subtask() if one.subtask()[side] is not None else None)
    assert (status["sourceAnswers"], status["targetAnswers"], status["sync"]["secondsBehindMaster"]) == (
        True,
        True,
        "0",
    )
    assert f"{metric} 1.0" in scraped(one)
    one.ok("pause-task", "t")
    assert one.subtask()[side] is None, "nobody asks"
    assert metric not in scraped(one)
    lost = {"error": "connection-lost", "role": role, "address": "127.0.0.1:1"}
    one.script("t", Sync=lost)
    one.tried("resume-task", "t")
    until(lambda: one.stage() == ("Paused", "Sync"))
    status = until(lambda: one.subtask() if one.subtask()[side] is False else None)
    other = "targetAnswers" if role == "source" else "sourceAnswers"
    assert status[other] is None
    assert (status["sync"]["secondsBehindMaster"] is None) == (role == "source")
    one.ok("pause-task", "t")
    one.script("t")
    one.ok("resume-task", "t")
    until(lambda: one.subtask()[side])
