"""The page in Chromium: by keyboard alone, on a phone, in the dark, while the daemon goes and comes back."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.testbed.browser import Watched, chromium
from tests.testbed.staged_daemon import StagedDaemon
from tests.unit.worker.home import TestHome, home
from tests.unit.worker.page.conftest import HOSTILE
from tests.unit.worker.test_api import port

Open = Callable[..., Watched]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    found: list[Watched] = []

    def open_one(**options: object) -> Watched:
        found.append(Watched(browser, **options))
        return found[-1]

    yield open_one
    for each in found:
        each.close()


@pytest.mark.usefixtures("paused")
def test_a_paused_task_is_read_and_resumed_by_keyboard_alone(many: StagedDaemon, opened: Open) -> None:
    visit = opened()
    visit.log_in(many.url, many.token)
    page, keys = visit.page, visit.page.keyboard

    def walk_to(text: str) -> None:
        for _ in range(60):
            keys.press("Tab")
            if page.evaluate("document.activeElement.textContent").strip() == text:
                return
        raise AssertionError(f"the keyboard does not get to {text}")

    assert "Paused by error 36910" in page.inner_text("article >> nth=0")
    walk_to("paused-task")
    keys.press("Enter")
    page.wait_for_selector("h1:has-text('Task paused-task')")
    assert "Cause: Duplicate column" in page.inner_text("main")
    walk_to("Resume")
    keys.press("Enter")
    page.wait_for_selector("text=dmctl resume-task paused-task")
    page.wait_for_selector("button:focus:has-text('Yes, resume')")
    keys.press("Enter")
    page.wait_for_selector(".notice:has-text('dmctl resume-task paused-task: done.')")
    stages = many.operations.look(lambda one: [job.subtask.stage for job in one.tasks["paused-task"].jobs.values()])
    assert stages == ["Running", "Running"]
    assert visit.hosts == {many.address}
    assert visit.complaints == []


@pytest.mark.usefixtures("paused")
def test_hostile_names_are_text_and_500_tables_fit(many: StagedDaemon, opened: Open) -> None:
    visit = opened()
    visit.log_in(many.url, many.token)
    for path in ("/page/tasks/task-000", "/page/tasks/paused-task", "/page/timeline", "/page/ddl"):
        visit.page.goto(many.url + path)
        assert visit.page.locator("main script").count() == 0
    visit.page.goto(f"{many.url}/page/tasks/task-000")
    assert visit.page.locator("tbody tr").count() == 500
    assert visit.page.locator("td", has_text=f"{HOSTILE}.orders").count() == 1
    assert visit.complaints == []


PATHS = ("", "tasks/task-000", "tasks/paused-task/do/stop", "sources", "ddl", "timeline", "logs", "settings")


@pytest.mark.parametrize(
    ("scheme", "colour", "paths"), [("light", "rgb(255, 255, 255)", PATHS), ("dark", "rgb(13, 17, 23)", PATHS[:1])]
)
def test_a_phone_shows_every_page_without_scrolling_sideways(
    many: StagedDaemon, opened: Open, scheme: str, colour: str, paths: tuple[str, ...]
) -> None:
    visit = opened(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    visit.log_in(many.url, many.token)
    for path in paths:
        visit.page.goto(f"{many.url}/page/{path}")
        assert visit.overflows() <= 0, path
        assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == colour
    assert visit.complaints == []


class _Evil(http.server.BaseHTTPRequestHandler):
    """A page that tries to read and to change things of the address in its query."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>evil</title><form method=post target=_self></form>")

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def evil() -> Iterator[str]:
    """The address of an origin on another host name, which is another site to the browser."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Evil) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()
        thread.join()


_READ = """address => { fetch(address, {credentials: "include"}).then(answer => answer.text()).then(
    text => { window.stolen = text; }, () => { window.stolen = "nothing"; }); }"""
_SEND = """address => { fetch(address, {method: "POST", mode: "no-cors", credentials: "include",
    body: new URLSearchParams({form_token: "x"})}).catch(() => 0).finally(() => { window.sent = true; }); }"""
_SUBMIT = "address => { const form = document.querySelector('form'); form.action = address; form.submit(); }"
_FRAME = """address => { const frame = document.createElement("iframe"); frame.src = address;
    frame.onload = () => { window.framed = true; }; document.body.append(frame); }"""


def test_a_page_of_another_origin_reads_and_changes_nothing(many: StagedDaemon, opened: Open, evil: str) -> None:
    visit = opened()
    visit.log_in(many.url, many.token)
    page = visit.page
    page.goto(evil)
    page.evaluate(_READ, f"{many.url}/page/")
    page.wait_for_function("window.stolen !== undefined")
    assert page.evaluate("window.stolen") == "nothing"
    pause = f"{many.url}/page/tasks/task-009/do/pause"
    page.evaluate(_SEND, pause)
    page.wait_for_function("window.sent === true")
    page.evaluate(_SUBMIT, pause)
    page.wait_for_url("**/do/pause")
    assert "log in first" in page.inner_text("body"), "the browser does not send the cookie"
    page.goto(evil)
    page.evaluate(_FRAME, f"{many.url}/page/login")
    page.wait_for_function("window.framed === true")
    assert all("Log in" not in (frame.content() if frame.url != evil else "") for frame in page.frames)
    assert many.operations.look(lambda one: one.tasks["task-009"].jobs["one"].subtask.stage) == "Running"


def test_a_page_that_is_refused_is_not_shown_as_fresh(many: StagedDaemon, opened: Open) -> None:
    visit = opened()
    visit.page.clock.install()
    visit.log_in(many.url, many.token)
    visit.page.route("**/page/**", lambda route: route.fulfill(status=500, body="no"))
    visit.page.clock.run_for(6_000)
    visit.page.wait_for_selector("#connection:has-text('dm-worker answers with status 500 since')")


def test_the_daemon_goes_and_comes_back(tmp_path: Path, opened: Open) -> None:
    with home(tmp_path / "home") as one:
        one.start("--listen", "127.0.0.1:0")
        one.ok("operate-source", "create", one.source())
        one.ok("start-task", one.task())
        address = port(one, "listen")
        visit = opened()
        visit.page.clock.install()
        visit.log_in(f"http://{address}", _token(one))
        assert "Follows one; everything is applied." in visit.page.inner_text("main")
        one.ok("pause-task", "t")
        visit.page.clock.run_for(6_000)
        visit.page.wait_for_selector("text=Paused by a person.")
        one.kill()
        visit.page.clock.run_for(6_000)
        visit.page.wait_for_selector("#connection:has-text('dm-worker does not answer since')")
        assert "Paused by a person." in visit.page.inner_text("main"), "what was seen last stays"
        (one.directory / "daemon.log").write_text("")
        one.start("--listen", address)
        visit.page.clock.run_for(6_000)
        visit.page.wait_for_url("**/page/login**")
        visit.page.wait_for_selector("#token:focus")
        visit.page.keyboard.type(_token(one))
        visit.page.keyboard.press("Enter")
        visit.page.wait_for_selector("text=Paused by a person.")
        assert visit.page.locator("#connection").is_hidden()


def _token(one: TestHome) -> str:
    return (one.directory / "token").read_text().strip()
