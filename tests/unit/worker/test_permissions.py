"""Several tokens, each with a name and a permission; TLS; and what the audit log says of whom."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import httpx
import pytest
from starlette.routing import Route

from dm.verbs.declaration import Permission, WordForm
from dm.verbs.every import VERBS
from dm.worker.api import create_app
from dm.worker.connection import MOST_CONNECTIONS
from dm.worker.dm_openapi.every import openapi_requests
from dm.worker.dm_openapi.operation import DOCUMENT
from tests.testbed.certificates import Authority
from tests.unit.worker.home import TestHome, home
from tests.unit.worker.test_api import bearer, port


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("permissions") / "home") as running:
        running.start("--listen", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0")
        running.ok("operate-source", "create", running.source())
        yield running


def created(one: TestHome, name: str, permission: str) -> dict[str, str]:
    return {"authorization": f"Bearer {one.ok('token', 'create', name, '--permission', permission)['token']}"}


def audit(one: TestHome) -> list[dict[str, Any]]:
    file = one.directory / "log" / "audit.log"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def filled(path: str) -> str:
    """What it names is not there."""
    return re.sub(r"\{\w+\}", "nothing-of-this-name", path)


def asked(client: httpx.Client, method: str, url: str, headers: dict[str, str]) -> httpx.Response:
    """A request that nothing can carry out: what it names is not there, and its body is none of ours."""
    url = filled(url)
    if method == "GET":
        return client.get(url, headers=headers)
    return client.request(method, url, json={"no": "key of ours"}, headers=headers)


# What is no verb and no operation of DM's OpenAPI, and what it asks for.
OTHERS = dict.fromkeys((("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", DOCUMENT)), Permission.READS)


def routes() -> dict[tuple[str, str], Permission]:
    """All that the application answers, by its own list of routes; raises KeyError for one that is in no table."""
    work: Any = defaultdict(lambda: lambda _: {})
    subjects = openapi_requests(MagicMock(), work)
    app = create_app(work, subjects, MagicMock(), MagicMock())
    declared = {(verb.method, verb.path): verb.permission for verb in VERBS if verb.path}
    declared |= {(each.method, each.path): each.permission for one in subjects for _, each in one.operations()}
    known = declared | OTHERS
    found: dict[tuple[str, str], Permission] = {}
    for route in cast("list[Route]", app.routes):
        for method in (route.methods or set()) - {"HEAD"}:
            found[method, route.path] = known[method, route.path]
    assert found.keys() == known.keys()
    return found


def audited(one: TestHome, before: int) -> dict[tuple[str, str], int]:
    """Who has asked for which change since then, with the answer's status."""
    lines = audit(one)[before:]
    answers = {line["number"]: line["status"] for line in lines if "request" not in line}
    return {(line["who"], line["request"]): answers[line["number"]] for line in lines if "request" in line}


def test_each_path_with_each_permission(one: TestHome) -> None:
    with httpx.Client() as client:
        _each_path_with_each_permission(one, client)


def _each_path_with_each_permission(one: TestHome, client: httpx.Client) -> None:
    address, levels = port(one, "listen"), [*Permission]
    tokens = {level: created(one, f"with-{level.value}", level.value) for level in levels}
    allowed, table, changes = 0, routes(), dict[tuple[str, str], int]()
    before = len(audit(one))
    for (method, path), permission in table.items():
        url = f"http://{address}{path}"
        assert asked(client, method, url, {}).status_code == 401, path
        for level, token in tokens.items():
            enough = levels.index(level) >= levels.index(permission)
            if enough and path.endswith("shutdown"):
                continue  # it has no body to be refused for
            answer = asked(client, method, url, token)
            assert (answer.status_code == 403) is not enough, (method, path, level, answer.text)
            assert answer.status_code < 500, (method, path, level, answer.text)
            allowed += enough
            if permission is not Permission.READS:
                changes[f"with-{level.value}", f"{method} {filled(path)}"] = answer.status_code
            if not enough:
                said = answer.json()
                dm = path.startswith("/api/v1/")
                assert (said["error_code"] if dm else said["error"]["ErrCode"]) == 40921
                text = said["error_msg"] if dm else said["error"]["Message"]
                assert f"needs the permission `{permission.value}`" in text
    assert allowed > len(table)
    assert audited(one, before) == changes
    for token in tokens.values():
        assert httpx.get(f"http://{port(one, 'metrics')}/metrics", headers=token).status_code == 200
    assert one.ok("operate-source", "show")["sources"][0]["source"] == "one"
    for level in levels:
        one.ok("token", "revoke", f"with-{level.value}")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("tasks/t/start", {"remove_meta": True}),
        ("tasks/t/start", {"start_time": "2026-01-01 00:00:00"}),
        ("sources/one/relay/enable", {"relay_dir": "./elsewhere"}),
        ("sources/one/relay/enable", {"relay_binlog_name": "mysql-bin.000001"}),
    ],
    ids=str,
)
def test_a_body_of_dms_openapi_may_need_more_than_its_path(one: TestHome, path: str, body: dict[str, Any]) -> None:
    token = created(one, "heidi", "operate")
    url = f"http://{port(one, 'listen')}/api/v1/{path}"
    assert httpx.post(url, headers=token, json=body).status_code == 403
    assert httpx.post(url.replace("/one/", "/none/"), headers=token, json={}).status_code == 400
    one.ok("token", "revoke", "heidi")


def test_a_token_counts_from_its_creation_to_its_end_without_a_restart(one: TestHome) -> None:
    where = f"http://{port(one, 'listen')}/api/v2/tasks"
    first, second = created(one, "anna", "read"), created(one, "bert@db-1", "operate")
    assert first != second
    file = one.directory / "tokens"
    assert file.stat().st_mode & 0o777 == 0o600
    for token in (first, second):
        assert token["authorization"].removeprefix("Bearer ") not in file.read_text(), "only hashes are kept"
        assert httpx.get(where, headers=token).status_code == 200
    told = {each["bearer"]: each["permission"] for each in one.ok("token", "list")["tokens"]}
    assert told == {"anna": "read", "bert@db-1": "operate"}
    assert "anna" in one.said("token", "list").out
    taken = one.said("token", "create", "anna")
    assert (taken.status, taken.out) == (2, "")
    assert "anna has a token already" in taken.err
    one.ok("token", "revoke", "anna")
    assert httpx.get(where, headers=first).status_code == 401
    assert httpx.get(where, headers=second).status_code == 200
    unknown = one.said("token", "revoke", "anna")
    assert unknown.status == 2
    assert "no token is of anna; there are those of bert@db-1" in unknown.err
    one.ok("token", "revoke", "bert@db-1")


@pytest.mark.parametrize("name", ["", "two words", "../x", "ä", "x" * 65, "a\nb"])
def test_a_bearer_has_a_name_that_a_log_can_tell(one: TestHome, name: str) -> None:
    refused = one.said("token", "create", name)
    assert refused.status == 2
    assert "can't be the name of a token's bearer" in refused.err


def test_a_file_of_tokens_that_cannot_be_read_opens_nothing(one: TestHome) -> None:
    where = f"http://{port(one, 'listen')}/api/v2/tasks"
    token = created(one, "clara", "change")
    file = one.directory / "tokens"
    good = file.read_text()
    for bad in ("clara change\n", good.replace(" change ", " everything "), good.replace("sha256:", "sha257:")):
        file.write_text(bad)
        assert httpx.get(where, headers=token).status_code == 401
        assert httpx.get(where, headers=bearer(one)).status_code == 200, "the daemon's own token counts on"
        refused = one.said("token", "list")
        assert refused.status == 2
        assert "the file of tokens" in refused.err
    file.write_text(good)
    file.chmod(0o644)
    assert httpx.get(where, headers=token).status_code == 401
    file.chmod(0o600)
    one.ok("token", "revoke", "clara")


def test_the_audit_log_has_who_asked_for_what_and_the_answer(one: TestHome) -> None:
    address = port(one, "listen")
    token = created(one, "dora", "operate")
    before = len(audit(one))
    httpx.get(f"http://{address}/api/v2/tasks", headers=token)
    httpx.post(f"http://{address}/api/v2/tasks/none/pause", headers=token, json={})
    httpx.post(f"http://{address}/api/v2/sources", headers=token, json={"files": [], "x": "canary-0c7e"})
    httpx.post(f"http://{address}/api/v2/tasks/none/pause", json={})
    one.ok("token", "revoke", "dora")
    lines = audit(one)[before:]
    questions = [line for line in lines if "request" in line]
    answers = {line["number"]: line for line in lines if "request" not in line}
    told = [(line["who"], line["verb"], line["request"], answers[line["number"]]["status"]) for line in questions]
    assert told == [
        ("dora", "pause-task", "POST /api/v2/tasks/none/pause", 400),
        ("dora", "operate-source create", "POST /api/v2/sources", 403),
        ("local socket", "token revoke", "DELETE /api/v2/tokens/dora", 200),
    ]
    assert [answers[line["number"]].get("code") for line in questions] == [46018, 40921, None]
    assert questions[0]["address"] == "127.0.0.1"
    text = (one.directory / "log" / "audit.log").read_text()
    assert "canary-0c7e" not in text
    assert token["authorization"].removeprefix("Bearer ") not in text


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[TestHome]:
    certificate, key = authority.signed("dm", addresses=("127.0.0.1",))
    with home(tmp_path_factory.mktemp("encrypted") / "home") as running:
        options = ("--ssl-cert", str(certificate), "--ssl-key", str(key), "--ssl-ca", str(authority.file))
        running.start("--listen", "0.0.0.0:0", "--metrics-addr", "127.0.0.1:0", *options)
        yield running


def tls_port(one: TestHome) -> int:
    log = (one.directory / "daemon.log").read_text()
    return int(log.partition('"listen": "0.0.0.0:')[2].partition('"')[0])


def test_dmctl_reaches_a_port_with_tls_by_token_or_certificate(
    encrypted: TestHome, authority: Authority, tmp_path: Path
) -> None:
    addr = ("--addr", f"127.0.0.1:{tls_port(encrypted)}")
    token = tmp_path / "token"
    token.write_text(encrypted.ok("token", "create", "erna", "-p", "read")["token"])
    by_token = ("--token-file", str(token), "--ssl-ca", str(authority.file), *addr)
    assert encrypted.dmctl(*by_token, "query-status").status == 0
    refused = encrypted.dmctl(*by_token, "operate-source", "create", encrypted.source())
    assert refused.status == 1
    assert "Error 40921: erna has the permission `read`, and this request needs the permission `change`" in refused.err
    certificate, key = authority.signed("fritz")
    by_certificate = {"DM_SSL_CA": str(authority.file), "DM_SSL_CERT": str(certificate), "DM_SSL_KEY": str(key)}
    assert "Error 40918" in encrypted.dmctl(*addr, "query-status", **by_certificate).err
    encrypted.ok("token", "create", "fritz-by-certificate", "-p", "change", "--certificate", "fritz")
    assert encrypted.dmctl(*addr, "operate-source", "create", encrypted.source(), **by_certificate).status == 0
    encrypted.ok("token", "revoke", "fritz-by-certificate")
    assert "Error 40918" in encrypted.dmctl(*addr, "query-status", **by_certificate).err
    who = [line.get("who") for line in audit(encrypted) if line.get("verb") == "operate-source create"]
    assert who == ["erna", "fritz-by-certificate"]


def test_nothing_is_sent_to_a_port_that_cannot_show_whose_it_is(
    encrypted: TestHome, authority: Authority, tmp_path: Path
) -> None:
    where = tls_port(encrypted)
    other = Authority(tmp_path, "another-ca")
    for addr, ca in ((f"127.0.0.1:{where}", other.file), (f"localhost:{where}", authority.file)):
        refused = encrypted.dmctl("--ssl-ca", str(ca), "--addr", addr, "query-status")
        assert refused.status == 1, refused.out
        assert f"Error 48935: what listens at {addr}" in refused.err
    stranger, key = other.signed("fritz")
    words = ("--ssl-ca", str(authority.file), "--ssl-cert", str(stranger), "--ssl-key", str(key))
    refused = encrypted.dmctl(*words, "--addr", f"127.0.0.1:{where}", "query-status")
    assert refused.status == 1
    missing = encrypted.dmctl("--ssl-ca", str(tmp_path / "none.pem"), "--addr", f"127.0.0.1:{where}", "query-status")
    assert missing.status == 2
    assert "Error 48938" in missing.err
    with httpx.Client() as plain, pytest.raises(httpx.HTTPError):
        plain.get(f"http://127.0.0.1:{where}/metrics")


def test_a_browser_that_compares_the_certificate_may_name_the_host_as_it_is(
    encrypted: TestHome, authority: Authority
) -> None:
    token = bearer(encrypted)
    context = ssl.create_default_context(cafile=str(authority.file))
    with httpx.Client(verify=context) as client:
        where = f"https://127.0.0.1:{tls_port(encrypted)}/api/v2/tasks"
        assert client.get(where, headers={**token, "host": "dm.example"}).status_code == 200
        assert client.get(where).status_code == 401


def test_handshakes_that_never_come_keep_nobody_out(encrypted: TestHome, authority: Authority) -> None:
    where = ("127.0.0.1", tls_port(encrypted))
    held = [socket.create_connection(where) for _ in range(MOST_CONNECTIONS + 20)]
    try:
        context = ssl.create_default_context(cafile=str(authority.file))
        with httpx.Client(verify=context) as client:
            answer = client.get(f"https://127.0.0.1:{where[1]}/metrics", headers=bearer(encrypted))
        assert answer.status_code == 200
        held[0].settimeout(60)
        assert held[0].recv(1) == b"", "the one that has waited the longest is given up"
    finally:
        for each in held:
            each.close()


def test_a_renewed_certificate_is_shown_without_a_restart(encrypted: TestHome, authority: Authority) -> None:
    where = ("127.0.0.1", tls_port(encrypted))

    def serial() -> object:
        context = ssl.create_default_context(cafile=str(authority.file))
        with socket.create_connection(where) as plain, context.wrap_socket(plain, server_hostname=where[0]) as shown:
            found: Any = shown.getpeercert()
            return found["serialNumber"]

    before = serial()
    key = authority.directory / "dm.key"
    good = key.read_bytes()
    key.write_bytes(b"no key")
    assert serial() == before, "what can't be read changes nothing"
    key.write_bytes(good)
    authority.signed("dm", addresses=("127.0.0.1",))
    assert serial() != before


@pytest.mark.parametrize("missing", ["--ssl-cert", "--ssl-key"])
def test_half_of_a_certificate_is_a_usage_error(tmp_path: Path, authority: Authority, missing: str) -> None:
    certificate, key = authority.signed("half", addresses=("127.0.0.1",))
    options = {"--ssl-cert": str(certificate), "--ssl-key": str(key)}
    del options[missing]
    one = TestHome(tmp_path / "home")
    words = [word for pair in options.items() for word in pair]
    assert one.launch("--listen", "127.0.0.1:0", *words).wait(60) == 2
    assert "needs its certificate and the key" in (one.directory / "daemon.log").read_text()


def test_a_key_that_is_none_ends_the_daemon_with_what_to_do(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.signed("spoilt")
    key.write_text("nothing")
    one = TestHome(tmp_path / "home")
    options = ("--ssl-cert", str(certificate), "--ssl-key", str(key))
    assert one.launch("--listen", "127.0.0.1:0", *options).wait(60) == 2
    said = (one.directory / "daemon.log").read_text()
    assert "40926" in said
    assert "Traceback" not in said


def test_what_brings_files_or_sql_needs_the_permission_to_change() -> None:
    """Such a parameter names programs, servers or places of the daemon's host."""
    parses_only = {"NameOfTask"}
    for verb in VERBS:
        if verb.permission is Permission.CHANGES or verb.__name__ in parses_only or not verb.path:
            continue
        for each in verb.parameters():
            reading = None if each.word is None else each.word.reading
            if each.sent and ("ConfigFile" in str(each.type) or reading in (WordForm.FILE, WordForm.DIRECTORY)):
                assert each.name in verb.changing, (verb, each.name)


@pytest.mark.parametrize(
    "brought",
    [
        {"file": {"name": "t.yaml", "text": "name: t", "directory": "/"}},
        {"where": "(SELECT 1 FROM mysql.user)"},
        {"fix_sql": "/tmp/anywhere"},
    ],
    ids=lambda one: next(iter(one)),
)
def test_a_comparison_of_what_is_configured_is_all_that_operate_allows(one: TestHome, brought: dict[str, Any]) -> None:
    token = created(one, "greta", "operate")
    where = f"http://{port(one, 'listen')}/api/v2/diffs"
    answer = httpx.post(where, headers=token, json={"task": "none", **brought})
    assert (answer.status_code, answer.json()["error"]["ErrCode"]) == (403, 40921)
    plain = httpx.post(where, headers=token, json={"task": "none"})
    assert (plain.status_code, plain.json()["error"]["ErrCode"]) == (400, 46018)
    one.ok("token", "revoke", "greta")


def test_a_client_cannot_name_another_scheme_or_address(one: TestHome) -> None:
    token = bearer(one)
    where = f"http://{port(one, 'listen')}/api/v2/tasks"
    forged = {"x-forwarded-proto": "https", "x-forwarded-for": "10.9.9.9"}
    assert httpx.get(where, headers={**token, **forged, "host": "evil.example"}).status_code == 400
    httpx.post(f"{where}/none/pause", headers={**token, **forged}, json={})
    assert [line["address"] for line in audit(one) if "address" in line][-1] == "127.0.0.1"
