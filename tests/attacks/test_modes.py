"""What dm writes is its user's alone, wherever it writes and whatever the shell allows; its processes leave no core."""

from __future__ import annotations

import os
import resource
import signal
import stat
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.attacks.other_user import NOBODY, as_nobody, needs_root, open_directory
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.looks import looks

pytestmark = [pytest.mark.chaos, pytest.mark.live, pytest.mark.spark]


@contextmanager
def careless_shell() -> Iterator[None]:
    """Whose programs write for everybody, and dump core."""
    mask, limits = os.umask(0), resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    try:
        yield
    finally:
        os.umask(mask)
        resource.setrlimit(resource.RLIMIT_CORE, limits)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with open_directory() as directory:
        running = Daemon(directory, fresh=True)
        try:
            with careless_shell(), chdir(directory):  # a core is written to where its process stands
                running.start()
            yield running
        finally:
            running.stop()


def follow(daemon: Daemon, server: ThrowawayServer, schema: SchemaFactory) -> None:
    """Have it copy a table, with files in a directory that every user may enter, and follow with a relay there."""
    name, meta = schema(server), schema(server)
    server.execute(f"CREATE TABLE `{name}`.t (id INT PRIMARY KEY)", f"INSERT INTO `{name}`.t VALUES (1), (2)")
    login = f"{{host: 127.0.0.1, port: {server.port}, user: {server.user}, password: '{server.password}'}}"
    (daemon.directory / "source.yaml").write_text(
        f"source-id: one\nenable-relay: true\nrelay-dir: {daemon.directory}/relay\nfrom: {login}\n"
    )
    (daemon.directory / "task.yaml").write_text(
        f"name: t\ntask-mode: all\nclean-dump-file: false\nmeta-schema: {meta}\ntarget-database: {login}\n"
        f"mysql-instances: [{{source-id: one, block-allow-list: b, route-rules: [r],"
        f" loader: {{dir: {daemon.directory}/dumped}}}}]\n"
        f"block-allow-list: {{b: {{do-dbs: [{name}]}}}}\n"
        f"routes: {{r: {{schema-pattern: {name}, target-schema: {name}_there}}}}\n"
    )
    daemon.must("operate-source", "create", "source.yaml")
    daemon.must("start-task", "task.yaml")
    daemon.wait("t", lambda status: status["one"]["unit"] == "Sync", "it follows")
    server.execute(f"DROP DATABASE `{name}_there`")


_LIST = """
seen = []
for directory, _, files in os.walk(sys.argv[1]):
    for file in files:
        try:
            seen.append(open(os.path.join(directory, file), "rb").read(1) and file)
        except OSError:
            pass
print(*sorted(seen))
"""


def of_processes(daemon: Daemon, line: str, file: str) -> set[str]:
    """What /proc says of the daemon and its hosts."""
    found = set()
    for pid in (daemon.pid, *daemon.hosts().values()):
        text = Path(f"/proc/{pid}/{file}").read_text()
        found |= {" ".join(each.split()) for each in text.splitlines() if each.startswith(line)}
    return found


@needs_root
def test_nothing_that_a_task_writes_can_be_read_by_another_user(
    daemon: Daemon, mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    follow(daemon, mariadb, schema)
    dumped = {path.parent.name for path in daemon.directory.rglob("*.parquet")}
    assert dumped == {"dumped.t"}
    assert list((daemon.directory / "relay").rglob("*.000001"))
    ours = [path for path in daemon.directory.rglob("*") if not path.name.endswith((".yaml", ".out"))]
    open_to_others = [path for path in ours if not path.is_socket() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert open_to_others == []
    assert as_nobody(_LIST, str(daemon.directory)).split() == ["daemon.out", "source.yaml", "task.yaml"]
    assert of_processes(daemon, "Umask:", "status") == {"Umask: 0077"}
    assert of_processes(daemon, "Max core file size", "limits") == {"Max core file size 0 0 bytes"}


def test_a_process_that_crashes_leaves_no_core(daemon: Daemon, mariadb: ThrowawayServer, schema: SchemaFactory) -> None:
    follow(daemon, mariadb, schema)
    before = daemon.hosts()
    for pid in before.values():
        os.kill(pid, signal.SIGSEGV)
    assert any(set(daemon.hosts().values()).isdisjoint(before.values()) for _ in looks(60))
    assert not [path for path in daemon.directory.rglob("core*") if path.is_file()]


@needs_root
@pytest.mark.parametrize("name", [".", "lock", "token", "relay"])
def test_a_home_that_another_user_can_change_is_refused(name: str, daemon: Daemon) -> None:
    daemon.stop()
    path = daemon.home / name
    path.touch(mode=0o600)
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(AssertionError, match=f"belongs to user {NOBODY}"):
        daemon.start("--listen", "127.0.0.1:0")
