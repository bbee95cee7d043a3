"""Another user of the machine at a daemon's ports: he stops nobody, and a copy of Prometheus' token opens nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import httpx
import pytest

from dm.demo.private_server import free_port
from dm.worker.connection import LARGEST_BODY
from tests.attacks.other_user import as_nobody, needs_root, open_directory, running_as_nobody
from tests.testbed.daemon import Daemon

pytestmark = [pytest.mark.chaos, needs_root]

IDLE = 1100  # of each port: more than the descriptors that a process has by default


@pytest.fixture
def ports() -> Iterator[tuple[Daemon, int, int]]:
    api, metrics = free_port(), free_port()
    with open_directory() as directory:
        daemon = Daemon(directory, fresh=True)
        try:
            daemon.start("--listen", f"127.0.0.1:{api}", "--metrics-addr", f"127.0.0.1:{metrics}")
            yield daemon, api, metrics
        finally:
            daemon.stop()


_HOLD = """
held = []
for port in sys.argv[2:]:
    for number in range(int(sys.argv[1])):
        one = socket.create_connection(("127.0.0.1", int(port)))
        one.sendall(b"POST /api/v2/tasks HTTP/1.1\\r\\nHost: localhost\\r\\n" if number % 2 else b"")
        held.append(one)
print(len(held), flush=True)
sys.stdin.read()
"""


def test_idle_connections_stop_neither_the_socket_nor_the_ports(ports: tuple[Daemon, int, int]) -> None:
    daemon, api, metrics = ports
    with running_as_nobody(_HOLD, str(IDLE), str(api), str(metrics)) as holding:
        assert holding.stdout is not None
        assert holding.stdout.readline() == f"{2 * IDLE}\n"
        assert len(os.listdir(f"/proc/{daemon.pid}/fd")) < 400, "they hold few descriptors"
        assert daemon.must("query-status").status == 0
        assert daemon.must("query-status", "--addr", f"127.0.0.1:{api}").status == 0
        token = (daemon.home / "metrics-token").read_text().strip()
        answer = httpx.get(f"http://127.0.0.1:{metrics}/metrics", headers={"authorization": f"Bearer {token}"})
        assert answer.status_code == 200


_FLOOD = """
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as one:
    one.sendall(b"POST /api/v2/tasks HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n"
                b"Content-Length: 99999999999\\r\\n\\r\\n")
    answer, sent = one.recv(12), 0
    try:
        while sent < 1 << 28:
            sent += one.send(b"x" * (1 << 20))
    except OSError:
        pass
print(json.dumps([answer.decode(), sent]))
"""


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_body_without_a_token_is_not_kept(ports: tuple[Daemon, int, int]) -> None:
    daemon, api, _ = ports
    before = _resident(daemon.pid)
    answer, _ = json.loads(as_nobody(_FLOOD, str(api)))
    assert answer == "HTTP/1.1 401"
    assert _resident(daemon.pid) - before < 4 * LARGEST_BODY
    assert daemon.must("query-status").status == 0


_USE = """
token = sys.argv[2]
answers = {}
for method, path in (("POST", "api/v2/tasks"), ("POST", "api/v2/sources"), ("GET", "api/v2/config"),
                     ("POST", "api/v2/encrypt"), ("POST", "api/v2/daemon/shutdown"), ("GET", "api/v2/logs"),
                     ("GET", "openapi.json"), ("POST", "metrics"), ("GET", "metrics")):
    asked = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/{path}", method=method,
        data=b"{}" if method == "POST" else None,
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(asked) as answer:
            answers[method + " " + path] = answer.status
    except urllib.request.HTTPError as refused:
        answers[method + " " + path] = refused.code
print(json.dumps(answers))
"""


def test_who_has_prometheus_token_reads_metrics_and_does_nothing_else(ports: tuple[Daemon, int, int]) -> None:
    daemon, api, _ = ports
    token = (daemon.home / "metrics-token").read_text().strip()
    answers = json.loads(as_nobody(_USE, str(api), token))
    assert answers.pop("GET metrics") == 200
    assert set(answers.values()) == {401}, answers


_LISTEN = """
kind, address = (socket.AF_INET6, "::") if sys.argv[1] == "::" else (socket.AF_INET, sys.argv[1])
with socket.socket(kind) as listener:
    listener.bind((address, int(sys.argv[2])))
    listener.listen()
    print("listens", flush=True)
    one, _ = listener.accept()
    one.settimeout(60)
    try:
        print(json.dumps(one.recv(1 << 16).decode()), flush=True)
    except ConnectionResetError:
        print(json.dumps(""), flush=True)
"""


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_who_listens_where_a_daemon_did_gets_neither_token_nor_file(
    ports: tuple[Daemon, int, int], address: str
) -> None:
    daemon, api, _ = ports
    daemon.stop()
    (daemon.directory / "source.yaml").write_text("source-id: one\nfrom: {host: h, user: u, password: canary-7d07}\n")
    with running_as_nobody(_LISTEN, address, str(api)) as listening:
        assert listening.stdout is not None
        assert listening.stdout.readline() == "listens\n"
        refused = daemon.said("operate-source", "create", "source.yaml", "--addr", f"127.0.0.1:{api}")
        assert refused.status != 0
        assert "user nobody listens" in refused.err
        assert json.loads(listening.stdout.readline()) == "", "not a byte"
