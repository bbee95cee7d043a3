"""The API as other programs of this machine meet it: through the loopback port, and only as intended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import pytest

from tests.unit.worker.home import TestHome, home, until


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("api") / "home") as running:
        running.start("--listen", "127.0.0.1:0")
        running.ok("operate-source", "create", running.source())
        yield running


@pytest.fixture(scope="module")
def address(one: TestHome) -> str:
    """Where it listens, as its log says."""
    log = one.directory / "daemon.log"
    found = until(lambda: re.search(r'"listen": "(127\.0\.0\.1:\d+)"', log.read_text()))
    assert not found[1].endswith(":0")
    return found[1]


def test_the_port_answers_like_the_socket(one: TestHome, address: str) -> None:
    assert one.ok("operate-source", "show", "--addr", address) == one.ok("operate-source", "show")


@pytest.mark.parametrize("method", ["post", "put"])
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", None])
def test_what_a_web_page_could_send_changes_nothing(address: str, method: str, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    answer = httpx.request(method, f"http://{address}/api/v1/daemon/shutdown", content=b"{}", headers=headers)
    assert answer.status_code == 415


def test_a_name_that_was_made_to_point_here_is_refused(address: str) -> None:
    answer = httpx.get(f"http://{address}/api/v1/tasks", headers={"host": "evil.example"})
    assert answer.status_code == 400


def test_what_is_no_request_of_ours_gets_a_clear_no_without_its_content(address: str) -> None:
    body = {"file": {"name": "t", "text": 5, "password": "canary-1c0d"}}
    answer = httpx.post(f"http://{address}/api/v1/tasks", json=body)
    assert answer.status_code == 422
    assert json.loads(answer.text)["result"] is False
    assert "canary-1c0d" not in answer.text
    assert httpx.get(f"http://{address}/api/v1/nothing").json() == {"result": False, "msg": "Not Found"}
    assert httpx.get(f"http://{address}/docs").status_code == 404


def test_names_in_the_path_are_names_and_no_paths(one: TestHome) -> None:
    done = one.dmctl("query-status", "../sources")
    assert done.status != 0
