"""200 sources and 400 subtasks over three members: start-up, the loss of one, and what etcd is asked meanwhile."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.verbs.status import ListTasks
from dm.worker.home import Home
from dm.worker.query_status import all_tasks
from dm.worker.registry_moves import move_into_cluster
from tests.testbed.etcd import EtcdServer
from tests.testbed.staged_member import StagedMember, registry_of
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.chaos]

SOURCES, TASKS_EACH = 200, 2
LEASE_SECONDS = 600  # the test ends leases itself; so there are no renewals among the requests that it counts


@pytest.fixture
def members(etcd: EtcdServer, tmp_path: Path) -> Iterator[list[StagedMember]]:
    prefix, home = f"/{secrets.token_hex(4)}/", Home(tmp_path / "single")
    registry_of(home, SOURCES, TASKS_EACH)
    move_into_cluster(etcd.access(), prefix, home)
    made = [StagedMember(etcd, prefix, name, tmp_path, LEASE_SECONDS) for name in "abc"]
    yield made
    for each in made:
        each.end()


def requests(members: list[StagedMember]) -> int:
    return sum(each.membership.etcd.requests for each in members)


def all_run(members: list[StagedMember]) -> bool:
    return sum(len(each.running()) for each in members) == SOURCES * TASKS_EACH


def settled(members: list[StagedMember]) -> int:
    """Wait until nothing is asked of etcd any more; gives the requests up to there."""
    seen = -1

    def quiet() -> bool:
        nonlocal seen
        before, seen = seen, requests(members)
        return before == seen

    wait_until(quiet, "etcd is left alone", 60)
    return seen


def test_many_sources_and_the_loss_of_a_member(members: list[StagedMember]) -> None:
    began = time.monotonic()
    wait_until(lambda: all_run(members), "all subtasks run", 120)
    asked = settled(members)
    shares = sorted(len(each.running()) for each in members)
    print(f"start-up: {time.monotonic() - began:.1f} s, {asked} requests of etcd, subtasks per member {shares}")
    # A claim for each source, a change of the stage for each subtask; retries and what a member reads at its start.
    assert asked <= 4 * (SOURCES + SOURCES * TASKS_EACH)

    # Looking asks etcd nothing.
    for each in members:
        for _ in range(20):
            each.loop.call(lambda each=each: all_tasks(each.supervisor, ()))  # type: ignore[misc]
        assert each.operations.work[ListTasks](ListTasks())["tasks"]
    assert requests(members) == asked

    # What the page of a member shows of the others.
    every = {subtask for each in members for subtask in each.running()}
    for each in members:
        shown = {(one.task, one.source): one.member for one in each.operations.elsewhere()[1]}
        assert shown.keys() == every - each.running()
        assert each.name not in shown.values()

    lost = members.pop()
    had, before = lost.running(), requests(members)
    stayed = {each.name: each.running() for each in members}
    lost.end(clean=False)
    began = time.monotonic()
    members[0].membership.etcd.revoke(lost.membership.lease.number)
    wait_until(lambda: all_run(members), "the others have taken over", 120)
    after = settled(members) - before
    print(f"loss of {len(had)} subtasks: {time.monotonic() - began:.1f} s, {after} requests of etcd")
    assert after <= 4 * 2 * len(had)
    assert all(stayed[each.name] <= each.running() for each in members)  # nothing that ran was moved
    now = [len(each.running()) for each in members]
    assert max(now) - min(now) <= 2 * TASKS_EACH
