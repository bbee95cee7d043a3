"""A daemon of many tasks in this process, and a browser's way to its page without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from dm.errors import DMError
from dm.unit import JSON
from dm.verbs.declaration import Permission
from dm.worker.access import NamedTokens
from tests.testbed.staged_daemon import StagedDaemon, counted_table, staged, syncing

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="package")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StagedDaemon]:
    """A hundred tasks; the first one has 500 tables, of which one has a hostile name."""
    tasks = {f"task-{number:03}": ("one",) for number in range(99)}
    others = {"paused-task": ("one", "two"), "relayed-task": ("three",)}
    with staged(tmp_path_factory.mktemp("page") / "home", {**tasks, **others}) as one:
        compared: list[JSON] = [
            {"table": f"shop.table_{number}", "verdict": "equal", "partly": False, "began": 1_700_000_000.0}
            for number in range(450)
        ]
        tables: list[JSON] = [counted_table(f"shop.t{number}") for number in range(49)]
        tables.append(counted_table(f"{HOSTILE}.orders"))
        one.say("task-000", "one", syncing(42.0, tables=tables, compared=compared))
        for task in list(tasks)[1:]:
            one.say(task, "one", syncing())
        one.say("paused-task", "two", syncing())
        one.say("relayed-task", "three", syncing())
        yield one


@pytest.fixture
def paused(many: StagedDaemon) -> None:
    """One task rests on an error, whatever another test has done with it."""
    if many.operations.look(lambda one: one.tasks["paused-task"].jobs["one"].subtask.stage) == "Running":
        statement = f"ALTER TABLE `{HOSTILE}`.t ADD c INT"
        error = DMError("ddl-failed", statement=statement, position="(mysql-bin.000003, 154)", cause="Duplicate column")
        many.fail("paused-task", "one", error.report())


@dataclass
class Visitor:
    """Somebody with a browser that keeps cookies."""

    client: httpx.Client

    def form_token(self) -> str:
        """The secret of the session's pages."""
        return secret_in(self.client.get("/page/settings").text)

    def send(self, path: str, **fields: str) -> httpx.Response:
        """A form with its secret."""
        return self.client.post(path, data={"form_token": self.form_token(), **fields})

    def told(self, path: str, **fields: str) -> str:
        """The page that a form leads to."""
        answer = self.send(path, **fields)
        assert answer.status_code == 303
        return self.client.get(answer.headers["location"]).text


def secret_in(page: str) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', page)
    assert found is not None, page
    return found[1]


def logged_in(one: StagedDaemon, permission: Permission, name: str) -> Iterator[Visitor]:
    """A visitor with a token of this permission."""
    names = NamedTokens(one.home.tokens)
    token = names.create(name, permission, 0.0)
    with httpx.Client(base_url=one.url) as client:
        assert client.post("/page/login", data={"token": token}).status_code == 303
        yield Visitor(client)
    names.revoke(name)


@pytest.fixture
def reader(many: StagedDaemon) -> Iterator[Visitor]:
    yield from logged_in(many, Permission.READS, "rita")


@pytest.fixture
def operator(many: StagedDaemon) -> Iterator[Visitor]:
    yield from logged_in(many, Permission.OPERATES, "otto")


@pytest.fixture
def changer(many: StagedDaemon) -> Iterator[Visitor]:
    yield from logged_in(many, Permission.CHANGES, "carla")
