"""The verbs of several hosts on a single one."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.unit.worker.home import TestHome, home


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("members") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source())
        yield running


def test_a_single_host_is_its_only_member(one: TestHome) -> None:
    leader, master, worker = one.said("list-member", "-o", "json").json["members"]
    (only,) = worker["worker"]["workers"]
    assert (only["name"], only["stage"], only["sources"]) == (socket.gethostname(), "bound", ["one"])
    assert [each["name"] for each in master["master"]["masters"]] == [socket.gethostname()]
    assert leader["leader"]["name"] == ""
    assert one.said("list-member", "-w", "-n", "other", "-o", "json").json["members"][0]["worker"]["workers"] == []
    assert socket.gethostname() in one.said("list-member").out


@pytest.mark.parametrize("words", ["transfer-source one other", "offline-member --name other"])
def test_what_needs_another_host_is_refused(one: TestHome, words: str) -> None:
    refused = one.said(*words.split())
    assert refused.status == 1
    assert "Error 46935: this dm-worker is no member of a cluster" in refused.err


def test_a_member_is_named(one: TestHome) -> None:
    refused = one.said("offline-member", "--worker")
    assert "no member is named" in refused.err


def test_etcd_is_named(one: TestHome) -> None:
    assert "etcd is not named" in one.said("cluster", "init").err
    refused = one.said("cluster", "import", "--cluster", "http://10.0.0.1:2379")
    assert "http://10.0.0.1:2379 has no TLS" in refused.err
    running = one.said("cluster", "import", "--cluster", "http://127.0.0.1:1")
    assert "another dm-worker (pid" in running.err
