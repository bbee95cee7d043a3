"""README's first task by hand, typed as it stands: its SQL, its commands, its files, on two fresh servers.

Where MariaDB is one of them, two names in the GRANT statements are read as the comments there say; a TiDB as the target
gets the statements but the last.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from dm.cli.client import Client
from dm.demo.private_server import PrivateServer
from dm.mysql.dialect import Flavor
from dm.verbs.program import Shutdown
from dm.verbs.sources import ShowSources
from dm.verbs.status import QueryStatus
from tests.testbed.fixtures import ServerFactory
from tests.unit.docs.document import README, ROOT, blocks, section

pytestmark = [pytest.mark.live, pytest.mark.spark]

PATIENCE_SECONDS = 120.0

_Target = Flavor | Literal["tidb"]


@dataclass
class Reader:
    """A person with a clone of the repository and a shell in it."""

    directory: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def __post_init__(self) -> None:
        self.environment |= {"DM_HOME": str(self.directory / "home"), "PYTHONPATH": str(ROOT)}
        binaries = self.directory / ".venv" / "bin"
        binaries.mkdir(parents=True)
        command = binaries / "dmctl"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m dm.cli.dmctl "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        self.client = Client(None, self.environment, lambda _: None)

    def type(self, command: str) -> None:
        """Run one line; it must succeed."""
        if command.startswith("export "):
            self.environment |= dict(word.split("=", 1) for word in shlex.split(command)[1:])
            return
        done = subprocess.run(
            command, shell=True, cwd=self.directory, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"

    def write(self, name: str, text: str, port: tuple[int, int]) -> None:
        """A file as the README shows it, with our server's port in the place of its own."""
        shown, ours = (f"port: {number}" for number in port)
        assert text.count(shown) == 1
        (self.directory / name).write_text(text.replace(shown, ours), encoding="utf-8")

    def wait_until_synced(self, task: str) -> None:
        """Ask until everything is applied."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            (source,) = self.client.ask(QueryStatus(task=task))["sources"]
            (subtask,) = source["subTaskStatus"]
            if (subtask.get("sync") or {}).get("synced"):
                return
            assert not (subtask["stage"] == "Paused" and subtask["result"]["errors"]), subtask
            assert time.monotonic() < deadline, subtask
            time.sleep(0.2)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    person = Reader(tmp_path)
    yield person
    if person.client.running():
        person.client.ask(Shutdown())


def _statements(sql: str, server: PrivateServer) -> list[str]:
    lines = [line for line in sql.splitlines() if not line.startswith("--")]
    if server.tidb:
        lines = [line for line in lines if "REPLICATION_APPLIER" not in line]
    text = " ".join(lines)
    if server.flavor == "mariadb":
        text = text.replace(", XA_RECOVER_ADMIN", "").replace("REPLICATION_APPLIER", "BINLOG REPLAY")
    return [statement.strip() for statement in text.split(";") if statement.strip()]


@pytest.mark.parametrize(
    "flavors",
    [
        ("mysql", "mysql"),
        pytest.param(("mysql", "mariadb"), marks=pytest.mark.chaos),
        pytest.param(("mariadb", "mysql"), marks=pytest.mark.chaos),
        pytest.param(("mariadb", "mariadb"), marks=pytest.mark.chaos),
        pytest.param(("mysql", "tidb"), marks=[pytest.mark.tidb, pytest.mark.chaos]),
        pytest.param(("mariadb", "tidb"), marks=[pytest.mark.tidb, pytest.mark.chaos]),
    ],
    ids="-to-".join,
)
def test_every_command_of_the_walk_through_works_as_written(
    request: pytest.FixtureRequest,
    reader: Reader,
    server: ServerFactory,
    flavors: tuple[Flavor, _Target],
) -> None:
    source, kind = server(flavors[0]), flavors[1]
    target: PrivateServer = request.getfixturevalue("own_tidb") if kind == "tidb" else server(kind)
    source.execute(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, customer VARCHAR(40) UNIQUE, total DECIMAL(10,2))",
        "INSERT INTO shop.orders VALUES (1, 'Ada', 10.50), (2, 'Grace', 20.00)",
    )
    shown = blocks(section(README.read_text(encoding="utf-8"), "A first task by hand"))
    at_source, at_target = (block for block in shown if block.language == "sql")
    source_file, task_file = (block for block in shown if block.language == "yaml")
    source.execute(*_statements(at_source.text, source))
    target.execute(*_statements(at_target.text, target))
    reader.write("source.yaml", source_file.text, (3306, source.port))
    reader.write("task.yaml", task_file.text, (3307, target.port))

    for command in (command for block in shown for command in block.commands):
        if command == "make install":
            continue
        reader.type(command)
        if " start-task " in command:
            reader.wait_until_synced("shop")
            source.execute("INSERT INTO shop.orders VALUES (3, 'Barbara', 30.25)")
        if " resume-task " in command:
            reader.wait_until_synced("shop")

    rows = "SELECT * FROM shop.orders ORDER BY id"
    assert target.query(rows) == source.query(rows)
    assert not reader.client.running() or reader.client.ask(ShowSources())["sources"] == []
