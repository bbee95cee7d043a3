"""Halves of surrogate pairs, said in JSON or as bytes that are no UTF-8, get a no from a daemon's API and harm nothing.

The requests of the unit test, for all verbs, at a daemon as users start it.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dm.demo.private_server import HOST, free_port
from tests.testbed.daemon import Daemon
from tests.unit.worker.test_hostile_requests import requests_with

pytestmark = pytest.mark.chaos

HALVES = ("\ud800", "\udfff", "a\udc80b", "\udc00\ud800")


@pytest.fixture
def reached(tmp_path: Path) -> Iterator[tuple[Daemon, int, str]]:
    port = free_port()
    daemon = Daemon(tmp_path)
    try:
        daemon.start("--listen", f"{HOST}:{port}")
        yield daemon, port, (daemon.home / "token").read_text().strip()
    finally:
        daemon.stop()


@pytest.mark.parametrize("text", HALVES, ids=ascii)
def test_what_is_half_a_pair_in_json(text: str, reached: tuple[Daemon, int, str]) -> None:
    daemon, port, token = reached
    failed = []
    with httpx.Client(base_url=f"http://{HOST}:{port}", headers={"authorization": f"Bearer {token}"}) as client:
        for method, address, content in requests_with(client.get("/openapi.json").json(), text):
            body = None if content is None else json.dumps(content).encode()
            answer = client.request(method, address, content=body, headers={"content-type": "application/json"})
            if answer.status_code >= 500:
                failed.append(f"{method} {address}: {answer.status_code} {answer.text[:200]}")
    assert failed == []
    assert "internal error" not in daemon.log.read_text(encoding="utf-8")
    assert daemon.must("query-status").status == 0


def test_what_is_half_a_pair_in_bytes(reached: tuple[Daemon, int, str]) -> None:
    """As no client of HTTP would send it: in the path, in a header, in the token, in the body."""
    daemon, port, token = reached
    half = b"\xed\xa0\x80"
    head = b"Host: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    allowed = b"Authorization: Bearer " + token.encode() + b"\r\n"
    body = b'{"task": "' + half + b'", "sources": ["' + half + b'"]}'
    length = b"Content-Length: %d\r\n" % len(body)
    requests = (
        b"GET /api/v2/tasks/" + half + b" HTTP/1.1\r\n" + head + allowed + b"\r\n",
        b"GET /api/v2/tasks?task=" + half + b" HTTP/1.1\r\n" + head + allowed + b"\r\n",
        b"GET /api/v2/tasks HTTP/1.1\r\n" + head + allowed + b"X-Name: " + half + b"\r\n\r\n",
        b"GET /api/v2/tasks HTTP/1.1\r\n" + head + b"Authorization: Bearer " + half + b"\r\n\r\n",
        b"POST /api/v2/tasks HTTP/1.1\r\n" + head + allowed + length + b"\r\n" + body,
        half + b" /api/v2/tasks HTTP/1.1\r\n" + head + allowed + b"\r\n",
    )
    for request in requests:
        with socket.create_connection((HOST, port), timeout=60) as one:
            one.sendall(request)
            answer = b"".join(iter(lambda: one.recv(1 << 16), b""))
        assert answer == b"" or answer[9:10] in (b"2", b"4"), (request, answer)
        assert daemon.must("query-status").status == 0
