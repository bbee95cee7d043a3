"""The API as other programs of this machine meet it: through the loopback port, and only as intended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dm.verbs.every import VERBS
from tests.unit.worker.home import TestHome, home, until


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("api") / "home") as running:
        running.start("--listen", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0")
        running.ok("operate-source", "create", running.source())
        yield running


def port(one: TestHome, name: str) -> str:
    """Where it listens, as its log says."""
    log = one.directory / "daemon.log"
    found = until(lambda: re.search(rf'"{name}": "(127\.0\.0\.1:\d+)"', log.read_text()))
    assert not found[1].endswith(":0")
    return found[1]


@pytest.fixture(scope="module")
def address(one: TestHome) -> str:
    return port(one, "listen")


@pytest.fixture(scope="module")
def metrics(one: TestHome) -> str:
    return port(one, "metrics")


def bearer(one: TestHome) -> dict[str, str]:
    """The header that a request through a port needs."""
    return {"authorization": f"Bearer {(one.directory / 'token').read_text().strip()}"}


@pytest.fixture(scope="module")
def token(one: TestHome) -> dict[str, str]:
    return bearer(one)


def test_the_port_answers_like_the_socket(one: TestHome, address: str) -> None:
    assert one.ok("operate-source", "show", "--addr", address) == one.ok("operate-source", "show")


def wrong_ones(right: dict[str, str]) -> list[dict[str, str]]:
    text = right["authorization"]
    return [
        {},
        {"authorization": ""},
        {"authorization": "Bearer canary-77aa"},
        {"authorization": text[:-1]},
        {"authorization": text.removeprefix("Bearer ")},
    ]


def test_a_request_through_a_port_needs_the_token(
    one: TestHome, address: str, metrics: str, token: dict[str, str]
) -> None:
    for where in (f"{address}/api/v2/daemon", f"{address}/metrics", f"{address}/api/v2/nothing", f"{metrics}/metrics"):
        enough = "metrics-token" if where.endswith("/metrics") else "token"
        for headers in wrong_ones(token):
            answer = httpx.get(f"http://{where}", headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["error"]["ErrCode"] == 40918
            assert f"a token: that in {one.directory / enough}" in answer.json()["msg"].split(", workaround")[0]
            assert "canary" not in answer.text
        assert httpx.get(f"http://{where}", headers=token).status_code == (404 if "nothing" in where else 200)


def test_the_token_of_prometheus_reads_metrics_and_does_nothing_else(one: TestHome, address: str, metrics: str) -> None:
    text = (one.directory / "metrics-token").read_text().strip()
    assert text != (one.directory / "token").read_text().strip()
    assert (one.directory / "metrics-token").stat().st_mode & 0o777 == 0o600
    reading = {"authorization": f"Bearer {text}"}
    for where in (address, metrics):
        assert "dm_worker_info" in httpx.get(f"http://{where}/metrics", headers=reading).text
    shown = httpx.get(f"http://{address}/openapi.json", headers=wrong_ones(reading)[0])
    assert shown.status_code == 401
    paths = httpx.get(f"http://{address}/openapi.json", headers=bearer(one)).json()["paths"]
    assert len(paths) > 40
    for path, methods in paths.items():
        for method in methods:
            answer = httpx.request(method, f"http://{address}{path}", headers=reading, json={})
            assert answer.status_code == (200 if path == "/metrics" else 401), (method, path)
    for method, path in (("POST", "/metrics"), ("GET", "/metrics/"), ("GET", "/metrics/../api/v2/tasks")):
        assert httpx.request(method, f"http://{address}{path}", headers=reading, json={}).status_code == 401


def test_the_document_says_of_each_verb_what_its_declaration_says(address: str, token: dict[str, str]) -> None:
    document = httpx.get(f"http://{address}/openapi.json", headers=token).json()
    said = {(path, method): each for path, methods in document["paths"].items() for method, each in methods.items()}
    routes = {(verb.path, verb.method.lower()): verb for verb in VERBS if verb.path}
    assert {route for route in said if not route[0].startswith("/api/v1/")} == {*routes, ("/metrics", "get")}
    for route, verb in routes.items():
        operation = said[route]
        assert (operation["operationId"], operation["summary"]) == (verb.__name__, verb.__doc__)
        assert (operation["x-permission"], operation.get("x-dmctl", "")) == (verb.permission.value, verb.name)
        places = {each["name"]: each["in"] for each in operation.get("parameters", [])}
        if "requestBody" in operation:
            name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            places |= dict.fromkeys(document["components"]["schemas"][name]["properties"], "body")
        elsewhere = "query" if verb.method == "GET" else "body"
        sent = [each.name for each in verb.parameters() if each.sent]
        assert places == {name: "path" if name in verb.in_path() else elsewhere for name in sent}


def test_nothing_is_done_without_the_token(one: TestHome, address: str) -> None:
    assert httpx.post(f"http://{address}/api/v2/daemon/shutdown", json={}).status_code == 401
    assert httpx.post(f"http://{address}/api/v2/sources", json={"files": []}).status_code == 401
    assert one.daemon is not None
    assert one.ok("operate-source", "show")["sources"][0]["source"] == "one"


def test_neither_token_is_in_a_log(one: TestHome, address: str, token: dict[str, str]) -> None:
    for headers in (*wrong_ones(token), token):
        httpx.get(f"http://{address}/api/v2/daemon", headers=headers)
        httpx.request("BREW", f"http://{address}/api/v2/daemon", headers=headers)
    secret = token["authorization"].removeprefix("Bearer ")
    written = [file for file in one.directory.rglob("*") if file.is_file() and file.name != "token"]
    assert one.directory / "daemon.log" in written
    for file in written:
        assert secret.encode() not in file.read_bytes(), file
        assert b"canary-77aa" not in file.read_bytes(), file


def test_dmctl_brings_the_token_from_a_file(one: TestHome, address: str, tmp_path: Path) -> None:
    words = ("operate-source", "show", "--addr", address)
    copy = tmp_path / "copy"
    copy.write_text((one.directory / "token").read_text())
    assert one.dmctl(*words, DM_HOME=str(tmp_path), DM_TOKEN_FILE=str(copy)).status == 0
    refused = one.dmctl(*words, DM_HOME=str(tmp_path))
    assert (refused.status, refused.out) == (1, "")
    assert f"a token: that in {one.directory / 'token'}" in refused.err
    assert "DM_TOKEN_FILE" in refused.err
    missing = one.dmctl(*words, DM_TOKEN_FILE=str(tmp_path / "nothing"))
    assert missing.status != 0
    assert f"the token {tmp_path / 'nothing'} can't be used: it is not there" in missing.err


def test_the_port_for_prometheus_has_nothing_else(metrics: str, token: dict[str, str]) -> None:
    assert "dm_worker_info" in httpx.get(f"http://{metrics}/metrics", headers=token).text
    for path in ("api/v2/daemon", "api/v2/sources", "api/v2/tasks", "openapi.json"):
        assert httpx.get(f"http://{metrics}/{path}", headers=token).json().get("result") is not True
    assert httpx.post(f"http://{metrics}/api/v2/daemon/shutdown", headers=token, json={}).status_code == 404


@pytest.mark.parametrize("method", ["post", "put"])
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", None])
def test_what_a_web_page_could_send_changes_nothing(
    address: str, token: dict[str, str], method: str, kind: str | None
) -> None:
    headers = token if kind is None else {**token, "content-type": kind}
    answer = httpx.request(method, f"http://{address}/api/v2/daemon/shutdown", content=b"{}", headers=headers)
    assert answer.status_code == 415


def test_a_name_that_was_made_to_point_here_is_refused(address: str, token: dict[str, str]) -> None:
    answer = httpx.get(f"http://{address}/api/v2/tasks", headers={**token, "host": "evil.example"})
    assert answer.status_code == 400


def test_what_is_no_request_of_ours_gets_a_clear_no_without_its_content(address: str, token: dict[str, str]) -> None:
    body = {"file": {"name": "t", "text": 5, "password": "canary-1c0d"}}
    answer = httpx.post(f"http://{address}/api/v2/tasks", json=body, headers=token)
    assert answer.status_code == 422
    assert json.loads(answer.text)["result"] is False
    assert "canary-1c0d" not in answer.text
    nothing = httpx.get(f"http://{address}/api/v2/nothing", headers=token)
    assert nothing.json() == {"result": False, "msg": "Not Found"}
    assert httpx.get(f"http://{address}/docs", headers=token).status_code == 404


def test_names_in_the_path_are_names_and_no_paths(one: TestHome) -> None:
    done = one.dmctl("query-status", "../sources")
    assert done.status != 0


def test_a_token_that_others_may_read_ends_the_daemon_with_what_to_do(tmp_path: Path) -> None:
    with home(tmp_path / "home") as exposed:
        exposed.directory.mkdir()
        exposed.file("token", "x" * 43)
        (exposed.directory / "token").chmod(0o644)
        assert exposed.launch("--listen", "127.0.0.1:0").wait(60) == 2
        assert "its mode is 0644, others may use it" in (exposed.directory / "daemon.log").read_text()
        exposed.start()  # without a port nobody needs it
