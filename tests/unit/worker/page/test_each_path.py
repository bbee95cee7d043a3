"""Each address of the page with each permission: the table is made from the application's own routes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from unittest.mock import MagicMock

import httpx
import pytest
from starlette.routing import Route

from dm.verbs.declaration import Permission
from dm.worker.access import NamedTokens
from dm.worker.page.application import create_page
from dm.worker.page.forms import RELAY_FORMS, SETTINGS_FORM, TASK_FORMS
from tests.testbed.staged_daemon import StagedDaemon
from tests.unit.worker.page.conftest import Visitor

# To everybody: how one gets in.
OPEN = {"/page/login", "/page/style.css", "/page/icon.svg"}
# Whoever has logged in, since each permission includes reading.
SHOWN = {
    "/", "/page", "/page/script.js", "/page/", "/page/tasks/{task}", "/page/tasks/{task}/errors", "/page/sources",
    "/page/ddl", "/page/timeline", "/page/logs", "/page/settings", "/page/files/task/{task}",
    "/page/files/source/{source}",
}  # fmt: skip
# Each form with the permission of its verb; the question that leads to it is shown to all.
FORMS = {
    "/page/tasks/{task}/do/{form}": TASK_FORMS,
    "/page/sources/{source}/do/{form}": RELAY_FORMS,
    "/page/settings/do/{form}": {"log-level": SETTINGS_FORM},
}
NOT_THERE = {"task": "not-there", "source": "not-there"}


def test_each_route_has_a_row() -> None:
    page: Any = create_page(MagicMock(), MagicMock(), MagicMock(), MagicMock())
    while not hasattr(page, "routes"):
        page = page.app
    found = {(method, each.path) for each in cast("list[Route]", page.routes) for method in each.methods or ()}
    rows = {("GET", path) for path in OPEN | SHOWN | {*FORMS}} | {("POST", path) for path in FORMS}
    assert {row for row in found if row[0] != "HEAD"} == rows | {("POST", "/page/login"), ("POST", "/page/logout")}


@pytest.fixture(scope="module")
def visitors(many: StagedDaemon) -> Iterator[dict[Permission, Visitor]]:
    names, found = NamedTokens(many.home.tokens), dict[Permission, Visitor]()
    for level in Permission:
        client = httpx.Client(base_url=many.url)
        token = names.create(f"each-path-{level.value}", level, 0.0)
        assert client.post("/page/login", data={"token": token}).status_code == 303
        found[level] = Visitor(client)
    yield found
    for level, each in found.items():
        each.client.close()
        names.revoke(f"each-path-{level.value}")


@pytest.mark.parametrize("path", sorted(SHOWN))
def test_who_has_logged_in_may_look(many: StagedDaemon, visitors: dict[Permission, Visitor], path: str) -> None:
    address = path.format(**{**NOT_THERE, "task": "task-001"})
    for each in visitors.values():
        assert each.client.get(address).status_code not in (401, 403)
    answer = httpx.get(many.url + address)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/page/login")


@pytest.mark.parametrize(("path", "form"), [(path, form) for path, forms in FORMS.items() for form in forms], ids=str)
def test_a_form_needs_the_permission_of_its_verb(
    many: StagedDaemon, visitors: dict[Permission, Visitor], path: str, form: str
) -> None:
    levels, wanted = [*Permission], FORMS[path][form].permission
    address = path.format(**NOT_THERE, form=form)
    for level, each in visitors.items():
        assert each.client.get(address).status_code == 200
        assert each.client.post(address).status_code == 403, "without the secret of the session"
        answer = each.send(address, log_level="nothing of this kind")
        enough = levels.index(level) >= levels.index(wanted)
        assert (answer.status_code == 403) is not enough or path.startswith("/page/settings"), (level, answer.text)
    assert httpx.post(many.url + address, data={"form_token": "x"}).status_code == 401
