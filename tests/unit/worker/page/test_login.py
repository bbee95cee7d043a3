"""Who gets in, for how long, and what a session opens."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request

from dm.verbs.declaration import Permission
from dm.worker.access import NamedTokens, Tokens
from dm.worker.connection import CertificateFiles
from dm.worker.home import Home
from dm.worker.page.sessions import IDLE_SECONDS, LONGEST_SECONDS, MOST, MOST_OF_ONE, Sessions, proof_of_token
from tests.testbed.certificates import Authority
from tests.testbed.fake_clock import FakeClock
from tests.testbed.staged_daemon import StagedDaemon, staged
from tests.unit.worker.page.conftest import Visitor

PAGES = (
    "/page/", "/page/tasks/task-000", "/page/tasks/task-000/errors", "/page/sources", "/page/ddl", "/page/timeline",
    "/page/logs", "/page/settings", "/page/tasks/task-000/do/pause", "/page/sources/one/do/start",
    "/page/settings/do/log-level", "/page/script.js", "/page/files/task/task-000", "/page/files/source/one",
)  # fmt: skip
FORMS = ("/page/tasks/task-000/do/pause", "/page/sources/one/do/start", "/page/settings/do/log-level", "/page/logout")


def test_without_a_session_there_is_the_login_alone(many: StagedDaemon) -> None:
    with httpx.Client(base_url=many.url) as client:
        for headers in ({}, {"authorization": f"Bearer {many.token}"}, {"cookie": "dm-session-1=x; dm-session=y"}):
            for path in ("/", "/page", *PAGES, "/page/nothing"):
                answer = client.get(path, headers=headers)
                assert answer.status_code in (303, 401), path
                assert "task-0" not in answer.text
                assert answer.headers.get("location", "/page/login").startswith("/page/login"), path
            for path in (*FORMS, "/page/nothing"):
                assert client.post(path, headers=headers, data={"form_token": "x"}).status_code == 401, path
        for path in ("/page/login", "/page/style.css", "/page/icon.svg"):
            assert client.get(path).status_code == 200, path


def test_each_answer_holds_the_browser_to_this_origin(many: StagedDaemon, reader: Visitor) -> None:
    with httpx.Client(base_url=many.url) as client:
        answers = [client.get(path) for path in ("/page/", "/page/login", "/page/style.css")]
    answers += [reader.client.get(path) for path in (*PAGES, "/page/nothing", "/page/tasks/none")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';"), answer.url
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")
        for inline in (" style=", "onclick", "javascript:", "http://", "https://", "<style"):
            assert inline not in answer.text or "svg" in answer.headers["content-type"], (answer.url, inline)
        assert answer.text.count("<script") == answer.text.count('<script src="/page/script.js" defer>'), answer.url


def test_a_session_opens_the_page_and_not_the_api(many: StagedDaemon, changer: Visitor) -> None:
    assert changer.client.get("/page/").status_code == 200
    assert changer.client.get("/api/v2/tasks").status_code == 401
    assert changer.client.get("/metrics").status_code == 401
    assert changer.client.get("/openapi.json").status_code == 401
    shutdown = changer.client.post("/api/v2/daemon/shutdown", json={})
    assert shutdown.status_code == 401
    assert many.token not in "".join(changer.client.get(path).text for path in PAGES)


def test_the_cookie_is_kept_from_scripts_other_origins_and_other_ports(many: StagedDaemon) -> None:
    with httpx.Client(base_url=many.url) as client:
        cookie = client.post("/page/login", data={"token": many.token}).headers["set-cookie"]
    port = many.address.rpartition(":")[2]
    assert cookie.startswith(f"dm-session-{port}=")
    words = {word.strip().lower() for word in cookie.split(";")[1:]}
    assert words == {"httponly", "samesite=strict", "path=/"}


def test_over_tls_the_cookie_is_secure_and_a_certificate_logs_in(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.signed("dm", addresses=("127.0.0.1",))
    files = CertificateFiles(certificate, key, authority.file)
    with staged(tmp_path / "home", {"t": ("one",)}, files) as one:
        NamedTokens(one.home.tokens).create("fritz", Permission.READS, 0.0, certificate="fritz")
        with httpx.Client(base_url=one.url, verify=_context(authority)) as client:
            cookie = client.post("/page/login", data={"token": one.token}).headers["set-cookie"]
            assert cookie.startswith("__Host-dm-session-")
            assert "secure" in cookie.lower()
            assert client.get("/page/").status_code == 200
            assert client.post("/page/login", data={"token": ""}).status_code == 401
        shown = _context(authority)
        shown.load_cert_chain(*authority.signed("fritz"))
        with httpx.Client(base_url=one.url, verify=shown) as client:
            assert "your certificate logs you in as fritz" in client.get("/page/login").text
            assert client.get("/page/").status_code == 303, "a certificate alone opens no page: any page could send it"
            assert client.post("/page/login", data={"token": ""}).status_code == 303
            assert "fritz, read" in client.get("/page/").text
            NamedTokens(one.home.tokens).revoke("fritz")
            assert client.get("/page/").status_code == 303


@pytest.mark.parametrize(
    "token", ["", "canary-55d0", " ", "x" * 5000, "\ud800".encode("utf-16", "surrogatepass").hex()]
)
def test_another_token_gets_nobody_in_and_is_not_repeated(many: StagedDaemon, token: str) -> None:
    with httpx.Client(base_url=many.url) as client:
        answer = client.post("/page/login", data={"token": token})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert "canary" not in answer.text


def test_the_token_of_prometheus_is_no_login(many: StagedDaemon) -> None:
    with httpx.Client(base_url=many.url) as client:
        assert client.post("/page/login", data={"token": many.home.metrics_token.read_text()}).status_code == 401


def test_a_session_ends_with_its_token_and_with_the_logout(many: StagedDaemon) -> None:
    names = NamedTokens(many.home.tokens)
    with httpx.Client(base_url=many.url) as client:
        client.post("/page/login", data={"token": names.create("ida", Permission.CHANGES, 0.0)})
        assert "ida, change" in client.get("/page/").text
        secret = Visitor(client).form_token()
        names.revoke("ida")
        assert client.get("/page/").status_code == 303
        assert client.post("/page/tasks/task-001/do/pause", data={"form_token": secret}).status_code == 401
        client.post("/page/login", data={"token": many.token})
        kept = dict(client.cookies)
        assert client.post("/page/logout").status_code == 403
        assert Visitor(client).send("/page/logout").headers["location"] == "/page/login"
        client.cookies.update(kept)
        assert client.get("/page/").status_code == 303, "the old cookie opens nothing"


@pytest.mark.parametrize(
    ("wanted", "led"),
    [
        ("/page/tasks/task-000", "/page/tasks/task-000"),
        ("https://evil.example/", "/page/"),
        ("//evil.example", "/page/"),
        ("/page//evil.example", "/page/"),
        ("/page/\\evil", "/page/"),
        ("/page/\r\nset-cookie: a=b", "/page/"),
        ("/api/v2/tasks", "/page/"),
    ],
)
def test_a_login_leads_to_the_page_that_was_asked_for_and_never_elsewhere(
    many: StagedDaemon, wanted: str, led: str
) -> None:
    with httpx.Client(base_url=many.url) as client:
        assert client.post("/page/login", data={"token": many.token, "next": wanted}).headers["location"] == led


def _context(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.file))


def _request(cookie: str) -> Request:
    headers = [(b"cookie", f"dm-session-8261={cookie}".encode())]
    return Request({
        "type": "http", "scheme": "http", "server": ("127.0.0.1", 8261), "headers": headers, "path": "/page/",
        "query_string": b"",
    })  # fmt: skip


def test_sessions_end_in_time_and_are_bounded(tmp_path: Path) -> None:
    home, clock = Home(tmp_path / "home"), FakeClock()
    home.create()
    tokens = Tokens.kept(home)
    sessions = Sessions(tokens, clock)
    own = proof_of_token(tokens.own.text)
    first = sessions.begin(own)
    clock.now += IDLE_SECONDS + 1
    assert sessions.of(_request(first)) is None
    second = sessions.begin(own)
    for _ in range(int(LONGEST_SECONDS / IDLE_SECONDS) * 2):
        assert sessions.of(_request(second)) is not None
        clock.now += IDLE_SECONDS / 2
    clock.now += 1
    assert sessions.of(_request(second)) is None
    cookies = [sessions.begin(own) for _ in range(MOST_OF_ONE + 3)]
    assert [sessions.of(_request(each)) is not None for each in cookies] == [False] * 3 + [True] * MOST_OF_ONE
    for number in range(2 * MOST):
        sessions.begin(f"certificate:{number}")
    assert len(sessions) == MOST
    assert not any(each in repr(vars(sessions)) for each in cookies), "only hashes are kept"


def test_logins_are_logged_without_the_token(many: StagedDaemon, capfd: pytest.CaptureFixture[str]) -> None:
    with httpx.Client(base_url=many.url) as client:
        client.post("/page/login", data={"token": "canary-a1b2"})
        client.post("/page/login", data={"token": many.token})
    said = "".join(capfd.readouterr())
    assert "a login at the page was refused" in said
    assert "canary-a1b2" not in said
    assert many.token not in said
    assert json.dumps(many.token) not in said
