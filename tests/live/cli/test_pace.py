"""`pace` in a task file and `dmctl pace`: every unit waits while a limit asks for it, says why, and goes on after it.

The limit is a query of a person's: a table at the target that tests open and close like a gate. No second is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dm.mysql.dialect import Flavor
from tests.live.cli.newcomer import AT_TARGET, Newcomer
from tests.testbed.park import ServerPark

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor]

CLOSED = "the query of `pace` gives 1, limit 0"


@pytest.fixture
def newcomer(park: ServerPark, flavor: Flavor, tmp_path: Path) -> Iterator[Newcomer]:
    one = Newcomer(park.shared(flavor, "upstream-1"), park.shared(flavor, "target"), tmp_path)
    with one.daemon:
        yield one
        one.close()


def target_user(newcomer: Newcomer) -> str:
    """An account that may ask how far replicas are, too."""
    grants = [f"{AT_TARGET} ON {schema}.*" for schema in (newcomer.schema, newcomer.meta)]
    return newcomer.user(newcomer.target, *grants, "REPLICATION CLIENT ON *.*")


def gate(newcomer: Newcomer, closed: int) -> None:
    newcomer.target.execute(f"UPDATE {newcomer.schema}.gate SET closed = {closed}")


def rows(newcomer: Newcomer) -> int:
    return int(str(newcomer.target.query(f"SELECT COUNT(*) FROM {newcomer.schema}.orders")[0][0]))


def held(unit: str, words: str) -> Any:
    return lambda status: status["here"].get(unit, {}).get("paceHolds") == words


def test_a_task_waits_at_a_limit_in_each_unit_and_a_person_changes_it_at_run_time(newcomer: Newcomer) -> None:
    must, wait, schema = newcomer.daemon.must, newcomer.daemon.wait, newcomer.schema
    newcomer.target.execute(f"CREATE TABLE {schema}.gate (closed INT)", f"INSERT INTO {schema}.gate VALUES (1)")
    must("operate-source", "create", newcomer.file("s.yaml", newcomer.source_text("here", newcomer.good_source_user())))
    text = newcomer.task_text("orders", "here", target_user(newcomer), mode="all")
    limits = f"pace: {{query: 'SELECT closed FROM {schema}.gate', query-limit: 0}}\n"
    task = newcomer.file("task.yaml", text + limits)

    must("start-task", task)
    wait("orders", held("dump", CLOSED), "the dump waits")
    assert f"waits: {CLOSED}" in must("query-status", "orders").out
    assert rows(newcomer) == 0
    gate(newcomer, 0)
    wait("orders", lambda status: status["here"].get("sync", {}).get("synced") is True, "the stream runs")
    assert rows(newcomer) == 2

    gate(newcomer, 1)
    newcomer.upstream.execute(f"INSERT INTO {schema}.orders VALUES (3, 'three')")
    wait("orders", held("sync", CLOSED), "the stream waits")
    assert rows(newcomer) == 2
    told = must("pace", "orders", "--output", "json").json()
    assert (told["fromFile"], told["holds"]) == (True, CLOSED)
    assert told["limits"] == {"query": f"SELECT closed FROM {schema}.gate", "query-limit": "0"}

    must("pace", "orders", "--none")
    wait("orders", lambda status: status["here"]["sync"]["synced"] is True, "no limit holds it")
    assert rows(newcomer) == 3
    must("pause-task", "orders")
    must("resume-task", "orders")
    newcomer.upstream.execute(f"INSERT INTO {schema}.orders VALUES (4, 'four')")
    wait("orders", lambda status: status["here"].get("sync", {}).get("synced") is True, "still no limit")
    assert rows(newcomer) == 4

    said = must("pace", "orders", "-l", "rows-per-second=100000", "-l", "replica-lag=5s", "-l", "replicas=127.0.0.1:1")
    assert "replica-lag: 5" in said.out
    newcomer.upstream.execute(f"INSERT INTO {schema}.orders VALUES (5, 'five')")
    refused = "the replica 127.0.0.1:1 can't be asked"  # before that it is yet to be measured
    wait(
        "orders", lambda status: refused in str(status["here"]["sync"].get("paceHolds")), "a replica that is not there"
    )
    must("pace", "orders", "-l", "replica-lag=", "-l", "replicas=")
    wait("orders", lambda status: status["here"]["sync"]["synced"] is True, "rows alone are limited")
    assert must("diff", task, "--output", "json").json()["report"][0]["verdict"] == "equal"

    must("stop-task", "orders")
    gate(newcomer, 0)
    must("start-task", task)
    assert must("pace", "orders", "--output", "json").json()["fromFile"] is True


def test_wrong_limits_are_named_and_change_nothing(newcomer: Newcomer) -> None:
    dmctl, must = newcomer.daemon.dmctl, newcomer.daemon.must
    must("operate-source", "create", newcomer.file("s.yaml", newcomer.source_text("here", newcomer.good_source_user())))
    text = newcomer.task_text("orders", "here", newcomer.good_target_user())
    must("start-task", newcomer.file("task.yaml", text))
    for words, part in (
        (("-l", "rows=5"), "no such limit"),
        (("-l", "rows-per-second=many"), "a whole number from 1"),
        (("-l", "rows-per-second=5", "-l", "hours=22-6"), "hours of the day such as `22:00-06:00`"),
        (("-l", "replica-lag=5s"), "write `replicas`, too"),
        (("-l", "rows-per-second=5", "--none"), "exclude each other"),
    ):
        answer = dmctl("pace", "orders", *words)
        assert answer.status != 0, str(answer)
        assert part in answer.err, str(answer)
        assert "Traceback" not in answer.err
    assert must("pace", "orders", "--output", "json").json()["limits"] == {}
    answer = dmctl("check-task", newcomer.file("bad.yaml", text + "pace: {rows-per-secnd: 5, replica-lag: 3s}\n"))
    assert "did you mean `rows-per-second`" in answer.err, str(answer)
    assert "write `replicas`, too" in answer.err, str(answer)
