"""Another user of the machine gets nothing from a daemon: not by its files, its socket or its port."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dm.demo.private_server import free_port
from tests.attacks.other_user import as_nobody, needs_root, open_directory
from tests.testbed.daemon import Daemon

pytestmark = [pytest.mark.chaos, needs_root]


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with open_directory() as directory:
        running = Daemon(directory, fresh=True)
        try:
            yield running
        finally:
            running.stop()


_LOOK = """
seen = {}
for path in (sys.argv[1], *sys.argv[2:]):
    try:
        seen[path] = os.listdir(path) if os.path.isdir(path) else open(path, "rb").read().hex()
    except OSError as error:
        seen[path] = errno.errorcode[error.errno]
with socket.socket(socket.AF_UNIX) as local:
    try:
        local.connect(sys.argv[1] + "/dm-worker.sock")
        seen["socket"] = "connected"
    except OSError as error:
        seen["socket"] = errno.errorcode[error.errno]
print(json.dumps(seen))
"""


def test_the_home_and_its_socket_are_closed_to_others(daemon: Daemon) -> None:
    daemon.start()
    names = [str(daemon.home / name) for name in ("registry.sqlite", "token", "lock", "log/dm-worker.log")]
    seen = json.loads(as_nobody(_LOOK, str(daemon.home), *names))
    assert set(seen.values()) == {"EACCES"}, seen


_ASK = """
answers = []
for path in ("api/v2/sources", "api/v2/tasks", "metrics"):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/{path}") as answer:
            answers.append(answer.status)
    except urllib.request.HTTPError as refused:
        answers.append(refused.code)
print(json.dumps(answers))
"""


def test_the_port_answers_nobody_without_the_token(daemon: Daemon) -> None:
    port = free_port()
    daemon.start("--listen", f"127.0.0.1:{port}")
    assert json.loads(as_nobody(_ASK, str(port))) == [401, 401, 401]
