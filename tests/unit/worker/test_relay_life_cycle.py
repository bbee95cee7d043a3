"""A relay beside the tasks of its source: when it starts, when it may be stopped, and who goes on without it."""

from __future__ import annotations

from dm.verbs.sources import ShowSources
from tests.unit.worker.home import TestHome, until

LOST = {"error": "connection-lost", "role": "upstream", "address": "127.0.0.1:3306"}
DENIED = {"error": "access-denied", "role": "upstream", "address": "127.0.0.1:3306", "user": "dm"}


def test_the_relay_of_an_all_task_receives_before_the_dump_begins(one: TestHome) -> None:
    one.ok("start-task", one.task(mode="all"))
    until(lambda: one.stage() == ("Running", "Sync"))
    relay = one.ok("query-status", "t")["sources"][0]["sourceStatus"]["relayStatus"]
    assert relay["stage"] == "Running"
    traces = [one.directory / "relay" / "one" / "trace", one.directory / "work" / "t" / "trace"]
    began = [trace.stat().st_mtime_ns for trace in traces]
    assert began[0] < began[1]
    one.ok("stop-task", "t")
    until(lambda: one.ok("operate-source", "show")["sources"][0]["relayStatus"] is None)


def test_a_relay_may_be_stopped_when_the_load_has_ended_and_the_source_has_the_rest(one: TestHome) -> None:
    reads = one.directory / "work" / "t" / "reads"

    def relay() -> object:
        return one.ask(ShowSources())["sources"][0]["relayStatus"]

    one.script("t", Dump="run")
    one.ok("start-task", one.task(mode="all"))
    until(lambda: one.stage() == ("Running", "Dump"))
    refused = one.said("stop-relay", "-s", "one")
    assert (refused.status, "task t needs the relay of source one until its load has ended" in refused.err) == (1, True)
    one.ok("stop-task", "t")

    one.script("t")
    one.ok("start-task", one.task(mode="all"))
    until(lambda: one.stage() == ("Running", "Sync"))
    assert reads.read_text() == "the relay"
    (one.directory / "servers.json").write_text('{"purged": true}')
    refused = one.said("stop-relay", "-s", "one")
    assert (refused.status, "has no binlog before a.7 any more" in refused.err) == (1, True)
    assert relay() is not None

    (one.directory / "servers.json").write_text('{"first_unit": {"t": "Sync"}}')
    one.ok("stop-relay", "-s", "one")
    until(lambda: relay() is None)
    until(lambda: reads.read_text() == "the source")
    until(lambda: one.stage() == ("Running", "Sync"))
    one.kill()
    one.start()
    until(lambda: one.stage() == ("Running", "Sync"))
    assert (reads.read_text(), relay()) == ("the source", None)


def test_a_load_starts_a_relay_that_was_stopped(one: TestHome) -> None:
    one.ok("stop-relay", "-s", "one")
    one.ok("start-task", one.task(mode="all"))
    until(lambda: one.stage() == ("Running", "Sync"))
    assert (one.directory / "work" / "t" / "reads").read_text() == "the relay"
    traces = [one.directory / "relay" / "one" / "trace", one.directory / "work" / "t" / "trace"]
    began = [trace.stat().st_mtime_ns for trace in traces]
    assert began[0] < began[1]


def test_a_relay_that_runs_connects_anew_before_a_task_begins(one: TestHome) -> None:
    """What the source has done to its binlog since it connected last, it would not know."""
    one.ok("start-relay", "-s", "one")
    relay = one.directory / "relay" / "one" / "trace"
    until(lambda: one.ok("operate-source", "show")["sources"][0]["relayStatus"]["relayBinlog"])
    assert len(relay.read_text().splitlines()) == 1
    one.ok("start-task", one.task(mode="all"))
    until(lambda: one.stage() == ("Running", "Sync"))
    assert len(relay.read_text().splitlines()) == 2
    began = (one.directory / "work" / "t" / "trace").stat().st_mtime_ns
    assert relay.stat().st_mtime_ns < began


def test_relay_verbs(one: TestHome) -> None:
    def relay() -> str | None:
        status = one.ok("operate-source", "show")["sources"][0]["relayStatus"]
        return None if status is None else str(status["stage"])

    assert relay() is None
    one.ok("start-relay", "-s", "one")
    until(lambda: relay() == "Running")
    one.ok("pause-relay", "-s", "one")
    assert relay() == "Paused"  # it answers once the relay rests
    one.ok("resume-relay", "-s", "one")
    until(lambda: relay() == "Running")
    one.ok("stop-relay", "-s", "one")
    until(lambda: relay() is None)


def test_a_syncer_does_not_wait_for_a_relay_that_was_stopped(one: TestHome) -> None:
    reads = one.directory / "work" / "t" / "reads"
    one.ok("start-relay", "-s", "one")
    until(lambda: one.ok("operate-source", "show")["sources"][0]["relayStatus"]["relayBinlog"])
    one.ok("start-task", one.task())
    until(lambda: one.trace("t"))
    assert reads.read_text() == "the relay"
    one.ok("stop-relay", "-s", "one")
    until(lambda: len(one.trace("t")) == 2)
    assert reads.read_text() == "the source"
    until(lambda: one.stage() == ("Running", "Sync"))


def test_a_syncer_that_runs_reads_a_relay_that_is_started(one: TestHome) -> None:
    reads = one.directory / "work" / "t" / "reads"
    one.ok("start-task", one.task())
    until(lambda: one.trace("t"))
    assert reads.read_text() == "the source"
    one.ok("start-relay", "-s", "one")
    until(lambda: len(one.trace("t")) == 2)
    assert reads.read_text() == "the relay"
    until(lambda: one.stage() == ("Running", "Sync"))
    one.ok("start-relay", "-s", "one")
    assert len(one.trace("t")) == 2, "one that reads it already is left alone"
