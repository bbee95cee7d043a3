"""What the pages show, and that looking asks no server."""

from __future__ import annotations

import html
from types import SimpleNamespace

import pytest

from dm.errors import DMError
from dm.unit import JSON
from dm.worker.elsewhere import HeardSubtask, StoredSubtask
from dm.worker.page.curve_drawing import clock_time, near_time
from dm.worker.query_status import heard
from tests.testbed.staged_daemon import StagedDaemon, syncing
from tests.unit.worker.page.conftest import HOSTILE, Visitor

LOOKED = (
    "", "tasks/task-000", "tasks/paused-task", "sources", "ddl", "timeline", "logs", "settings", "files/task/task-000",
    "files/source/one",
)  # fmt: skip


@pytest.mark.usefixtures("paused")
def test_the_overview_begins_with_what_is_in_trouble(reader: Visitor) -> None:
    page = reader.client.get("/page/").text
    assert "102 subtasks: 1 paused by an error, 0 waiting, 0 paused by a person, 1 behind." in page
    first = page.index("<article")
    assert page.index("paused-task") - first < page.index("task-001") - first
    assert "Paused by error 36910" in page
    assert "Cause: Duplicate column" in page
    assert "<code>dmctl resume-task paused-task</code>" in page
    assert "Follows one; 42 s behind." in page
    assert "Follows one; everything is applied." in page
    assert "caught up at" in page


@pytest.mark.usefixtures("paused")
def test_names_of_others_are_text(reader: Visitor) -> None:
    pages = [
        reader.client.get(path).text
        for path in ("/page/", "/page/tasks/task-000", "/page/tasks/paused-task", "/page/timeline")
    ]
    for page in pages:
        assert HOSTILE not in page
        assert "alert(1)" not in page or html.escape(HOSTILE, quote=False) in page
    assert html.escape(f"{HOSTILE}.orders", quote=False) in pages[1]
    assert html.escape(HOSTILE, quote=False) in pages[2]
    for hostile in ("<b>", "%3Cscript%3Ealert(1)%3C/script%3E", "a'\"><img src=x onerror=alert(1)>"):
        for path in (f"/page/timeline?task={hostile}", f"/page/tasks/{hostile}", f"/page/logs?task={hostile}"):
            answer = reader.client.get(path)
            assert answer.status_code in (200, 400, 404), path
            for tag in ("<b>", "<img", "<script>"):
                assert tag not in answer.text.replace("<b>", "", answer.text.count("</b>"))


def test_all_tables_of_a_task_are_there(reader: Visitor) -> None:
    page = reader.client.get("/page/tasks/task-000").text
    assert page.count("<tr><td>") == 500
    assert "100 inserted, 40 updated, 2 deleted" in page
    assert "<td>equal</td><td>2023-11-14 22:13 UTC</td>" in page
    assert "450 tables equal, 0 different" in page


def test_looking_asks_no_server(many: StagedDaemon, reader: Visitor) -> None:
    before = many.hosts.questions
    for path in LOOKED:
        assert reader.client.get(f"/page/{path}").status_code == 200
    assert many.hosts.questions == before
    assert reader.client.get("/page/tasks/none").status_code == 404


def test_a_statement_under_way_has_its_age_and_one_that_ended_its_time(many: StagedDaemon, reader: Visitor) -> None:
    recent: list[JSON] = [
        {"number": 1, "text": "ALTER TABLE a.done ADD d INT", "ended": 1_700_000_000.0, "seconds": 2.5}
    ]
    running = syncing(3.0, blockingDDLs=["ALTER TABLE a.t ADD c INT"], blockingDDLSeconds=77, recentDDLs=recent)
    many.say("task-003", "one", running)
    try:
        page = reader.client.get("/page/ddl").text
        assert page.index("for 77 s") < page.index("2023-11-14 22:13:20 UTC, 2.5 s")
        assert "Runs DDL at the target for 77 s: ALTER TABLE a.t ADD c INT" in reader.client.get("/page/").text
    finally:
        many.say("task-003", "one", syncing())


def test_what_a_source_will_purge_soon_is_told(many: StagedDaemon, reader: Visitor) -> None:
    many.say("task-004", "one", syncing(32_400.0, binlogPurgedAt=many.clock.time() + 3600 + 150))
    try:
        page = reader.client.get("/page/tasks/task-004").text
        assert "keeps what is read next for 1.0 h more" in page
        assert "Its binlog has what task-004 reads next for 1.0 h more." in reader.client.get("/page/sources").text
        assert "reads next" not in reader.client.get("/page/tasks/task-005").text
    finally:
        many.say("task-004", "one", syncing())


def test_passwords_are_on_no_page(reader: Visitor) -> None:
    for path in LOOKED:
        assert "canary" not in reader.client.get(f"/page/{path}").text, path


def test_a_relay_that_rests_is_what_the_task_waits_for(many: StagedDaemon, changer: Visitor) -> None:
    assert changer.send("/page/sources/three/do/start").status_code == 303
    relay = many.operations.look(lambda supervisor: supervisor.sources["three"].relay)
    assert relay is not None
    error = DMError("access-denied", role="upstream", address="10.0.0.1:3306", user="dm").report()
    many.loop.call(lambda: relay.unit_failed(error, retryable=False))
    page = changer.client.get("/page/sources").text
    assert f"Error {error['ErrCode']}" in page
    assert "<code>dmctl resume-relay -s three</code>" in page
    broken = changer.send("/page/sources/three/do/stop")
    assert (broken.status_code, "Traceback" in broken.text) == (500, False), "the stage has no server to ask"
    assert "ended with AssertionError" in broken.text


def test_a_time_of_another_day_has_its_date() -> None:
    noon = 1_800_014_400.0
    assert near_time(noon - 3600, noon) == clock_time(noon - 3600)
    assert near_time(noon - 86_400, noon) == f"2027-01-14 {clock_time(noon)}"


def test_subtasks_of_other_members_are_on_the_page(
    many: StagedDaemon, reader: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = many.loop.call(lambda: heard(many.supervisor))
    status, subtask = seen[0]
    there = ({**status, "source": "far", "worker": "b"}, {**subtask, "name": "far-task"})
    gone = StoredSubtask("far-task", "gone", "Running", "Sync", "c", "c:8262", "member c was heard 42 s ago")

    def look(task: str = "") -> tuple[list[HeardSubtask], list[StoredSubtask]]:
        return ([there], [gone]) if task in ("", "far-task") else ([], [])

    monkeypatch.setattr(many.operations, "_elsewhere", SimpleNamespace(look=look))
    overview = reader.client.get("/page/").text
    assert '<a href="/page/tasks/far-task">far-task</a> <span class="on">on far</span>' in overview
    assert 'on gone: Running Sync; member c was heard 42 s ago: <a href="//c:8262/page/tasks/far-task">' in overview
    page = reader.client.get("/page/tasks/far-task").text
    assert "on far" in page
    assert "member c was heard 42 s ago" in page
    assert "/page/tasks/far-task/do/pause" in page
    assert reader.client.get("/page/sources").status_code == reader.client.get("/page/ddl").status_code == 200
    assert "far" not in reader.client.get("/page/tasks/task-000").text.replace("farther", "")
