"""What a form does: the verb that its line of dmctl does, for who may, from this session's pages alone."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, cast

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.cli import commands
from dm.verbs.cutover import CutOverTask
from dm.verbs.declaration import Verb
from dm.verbs.every import VERBS
from dm.verbs.history import ShowTimeline
from dm.worker.page.forms import RELAY_FORMS, SETTINGS_FORM, TASK_FORMS, Form, _told
from dm.worker.page.sessions import Notice, PageSession
from dm.worker.verb_work import Answer
from tests.testbed.staged_daemon import StagedDaemon, syncing
from tests.unit.worker.page.conftest import Visitor, secret_in

TASK = "task-007"
PAUSE = f"/page/tasks/{TASK}/do/pause"
ALL: list[tuple[str, Form]] = [
    *((f"/page/tasks/{TASK}/do/{name}", form) for name, form in TASK_FORMS.items()),
    *((f"/page/sources/one/do/{name}", form) for name, form in RELAY_FORMS.items()),
    ("/page/settings/do/log-level", SETTINGS_FORM),
]


def stage(many: StagedDaemon, task: str = TASK) -> str:
    return many.operations.look(lambda supervisor: supervisor.tasks[task].jobs["one"].subtask.stage)


@pytest.fixture(autouse=True)
def at_work(many: StagedDaemon) -> Iterator[None]:
    """Whatever a test does with the task, it is at work again then."""
    yield

    def resume() -> None:
        subtask = many.supervisor.tasks[TASK].jobs["one"].subtask
        if subtask.stage == "Paused":
            subtask.resume()

    many.loop.call(resume)
    many.settled()


def audit(many: StagedDaemon) -> list[dict[str, object]]:
    return [json.loads(line) for line in many.home.audit_log.read_text().splitlines()]


def test_a_task_is_paused_and_resumed_as_by_dmctl(many: StagedDaemon, operator: Visitor) -> None:
    question = operator.client.get(PAUSE).text
    assert f"<code>dmctl pause-task {TASK}</code>" in question
    done = operator.send(PAUSE)
    assert (done.status_code, done.headers["location"].partition("?")[0]) == (303, f"/page/tasks/{TASK}")
    assert stage(many) == "Paused"
    page = operator.client.get(done.headers["location"]).text
    assert f"dmctl pause-task {TASK}: done." in page
    assert "one: Paused" in page
    assert "Paused by a person." in page
    assert ": done." not in operator.client.get(done.headers["location"]).text, "it is said once"
    assert operator.send(f"/page/tasks/{TASK}/do/resume").status_code == 303
    assert stage(many) == "Running"
    questions = [line for line in audit(many) if line.get("who") == "otto"]
    assert [(line["verb"], line["request"]) for line in questions] == [
        ("pause-task", f"POST {PAUSE}"),
        ("resume-task", f"POST /page/tasks/{TASK}/do/resume"),
    ]
    told = many.operations.work[ShowTimeline](ShowTimeline(task=TASK))["happenings"]
    assert isinstance(told, list)
    verbs = [(each["who"], each["text"]) for each in told if isinstance(each, dict) and each["kind"] == "verb"]
    assert verbs[-2:] == [("otto", "pause-task"), ("otto", "resume-task")]


def test_one_source_of_a_task_is_meant_where_it_is_named(many: StagedDaemon, operator: Visitor) -> None:
    question = operator.client.get("/page/tasks/paused-task/do/pause?source=two").text
    assert "<code>dmctl pause-task paused-task -s two</code>" in question
    assert operator.send("/page/tasks/paused-task/do/pause", source="two").status_code == 303
    stages = many.operations.look(
        lambda supervisor: {source: job.subtask.intent for source, job in supervisor.tasks["paused-task"].jobs.items()}
    )
    assert stages == {"one": "running", "two": "paused"}
    assert operator.send("/page/tasks/paused-task/do/resume", source="two").status_code == 303
    many.settled()


def test_what_can_not_be_done_says_why(operator: Visitor) -> None:
    page = operator.told(f"/page/tasks/{TASK}/do/resume")
    assert f"dmctl resume-task {TASK}: error 40" in page
    assert "it is Running" in page or "Running" in page
    answer = operator.send("/page/tasks/none/do/pause")
    query = answer.headers["location"].partition("?")[2]
    assert "dmctl pause-task none: error 46018" in operator.client.get(f"/page/settings?{query}").text


def test_what_came_of_a_verb_is_shown_where_its_form_leads_and_in_no_other_tab(operator: Visitor) -> None:
    first, second = (operator.send(f"/page/tasks/none/do/{verb}").headers["location"] for verb in ("pause", "resume"))
    for path in (f"/page/tasks/{TASK}", "/page/settings", f"/page/tasks/{TASK}?told=", f"/page/tasks/{TASK}?told=x"):
        assert "error 46018" not in operator.client.get(path).text, path
    for location, verb in ((second, "resume"), (first, "pause")):
        query = location.partition("?")[2]
        assert f"dmctl {verb}-task none: error 46018" in operator.client.get(f"/page/tasks/{TASK}?{query}").text


def test_notices_that_nobody_looks_at_are_not_kept_for_good() -> None:
    session = PageSession("proof", 0.0, 0.0)
    keys = [session.keep(Notice(str(number), done=True)) for number in range(100)]
    kept = [key for key in keys if session.taken_notice(key) is not None]
    assert kept == keys[-16:]


def test_a_verb_whose_work_goes_on_after_its_answer_has_begun() -> None:
    assert {name for name, form in TASK_FORMS.items() if form.begins} == {"compare", "reload"}
    for answer, begins, said in (
        ({"number": 1}, True, "begun"),
        ({"task": "t", "driven": True, "state": "fencing"}, False, "begun"),
        ({"task": "t", "driven": False, "state": "aborted"}, False, "done"),
        ({"sources": [{"source": "one", "result": False, "msg": "no"}]}, True, "not begun everywhere"),
        ({"sources": [{"source": "one", "result": False, "msg": "no"}]}, False, "not done everywhere"),
    ):
        assert _told("dmctl verb t", cast(Answer, answer), begun=begins).text == f"dmctl verb t: {said}."


@pytest.mark.parametrize(("path", "form"), ALL, ids=[path for path, _ in ALL])
def test_each_form_needs_its_verbs_permission(
    many: StagedDaemon, reader: Visitor, operator: Visitor, path: str, form: Form
) -> None:
    assert form.verb in VERBS
    before = stage(many)
    for visitor, level in ((reader, "read"), (operator, "operate")):
        question = visitor.client.get(path).text
        if form.permission.value == "operate" and level == "operate":
            assert "<button autofocus>" in question
            continue
        assert "<button autofocus>" not in question
        assert f"this needs {form.permission.value}" in question
        refused = visitor.send(path, log_level="debug", limit="rows-per-second=1")
        assert refused.status_code == 403
        assert f"has the permission <code>{level}</code>" in refused.text
    assert stage(many) == before
    assert audit(many)[-1]["status"] == 403


@pytest.mark.parametrize(("path", "form"), ALL, ids=[path for path, _ in ALL])
def test_without_the_secret_of_the_session_nothing_changes(
    many: StagedDaemon, changer: Visitor, path: str, form: Form
) -> None:
    lines = len(audit(many)) if many.home.audit_log.exists() else 0
    with httpx.Client(base_url=many.url) as other:
        other.post("/page/login", data={"token": many.token})
        foreign = secret_in(other.get("/page/settings").text)
    for sent in ({}, {"form_token": ""}, {"form_token": "x" * 43}, {"form_token": foreign}, {"form_token": "\u00fc"}):
        assert changer.client.post(path, data={**sent, "log_level": "debug"}).status_code == 403, form.label
    headers = {"content-type": "application/json"}
    secret = changer.form_token()
    assert changer.client.post(path, content=json.dumps({"form_token": secret}), headers=headers).status_code == 403
    assert changer.client.post(f"{path}?form_token={secret}").status_code == 403
    assert stage(many) == "Running"
    assert len(audit(many) if many.home.audit_log.exists() else []) == lines


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
def test_what_a_page_of_another_origin_sends_changes_nothing(
    many: StagedDaemon, changer: Visitor, headers: dict[str, str]
) -> None:
    secret = changer.form_token()
    assert changer.client.post(PAUSE, data={"form_token": secret}, headers=headers).status_code == 403
    assert changer.client.post("/page/login", data={"token": many.token}, headers=headers).status_code == 403
    assert stage(many) == "Running"


def test_a_name_that_was_made_to_point_here_is_refused(many: StagedDaemon, changer: Visitor) -> None:
    for path in ("/page/", "/page/login"):
        assert changer.client.get(path, headers={"host": "evil.example"}).status_code == 400


def test_the_pace_is_changed_and_what_reaches_servers_needs_more(operator: Visitor) -> None:
    page = operator.told(f"/page/tasks/{TASK}/do/pace", limit="rows-per-second=50")
    assert f"dmctl pace {TASK} --limit rows-per-second=50: done." in page
    assert "rows-per-second" in page.partition("limits: ")[2]
    assert operator.send(f"/page/tasks/{TASK}/do/pace", limit="query=SELECT 1").status_code == 403
    assert f"dmctl pace {TASK} --none: done." in operator.told(f"/page/tasks/{TASK}/do/pace", limit="")


def test_the_log_level_is_changed(many: StagedDaemon, changer: Visitor) -> None:
    assert changer.send("/page/settings/do/log-level", log_level="everything").status_code == 400
    page = changer.told("/page/settings/do/log-level", log_level="warn")
    assert "dmctl config worker --log-level warn: done." in page
    assert many.operations.config._worker()["log-level"] == "warn"  # type: ignore[index, call-overload]
    changer.send("/page/settings/do/log-level", log_level="info")


def called_by(line: str) -> tuple[type[Verb], dict[str, Any]]:
    """What `dmctl` makes of a command line."""
    found: list[tuple[type[Verb], dict[str, Any]]] = []
    program, first, *words = shlex.split(line)
    assert program == "dmctl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "carry_out", lambda verb, values, _caller: found.append((verb, values)))
        commands.built(first).main(words, prog_name=first, standalone_mode=False)
    return found[0]


RELAYS = {path for path, _ in ALL if path.startswith("/page/sources/")}
# A shell's own characters, quotes and blanks; no word begins like an option, which no name of ours does either.
TEXTS = st.text("ab `'\"$;|&*~\\\n", max_size=8).map(lambda text: f"n{text}z")
NUMBERS = st.sampled_from(("1", "10", "600", "2.5"))


def filled_in(form: Form, data: st.DataObject) -> Mapping[str, str]:
    values = {name: data.draw(TEXTS) for name in ("task", "source")}
    for field in form.fields:
        if field.choices:
            values[field.name] = data.draw(st.sampled_from(field.choices))
        elif field.name in ("max_lag", "timeout"):
            values[field.name] = data.draw(NUMBERS)
        elif field.name == "hook":
            values[field.name] = data.draw(TEXTS.map("/{}".format) | st.just(""))
        else:
            values[field.name] = data.draw(TEXTS)
    return values


@settings(max_examples=5)
@given(data=st.data())
@pytest.mark.parametrize(("path", "form"), ALL, ids=[path for path, _ in ALL])
def test_the_line_of_dmctl_asks_for_the_same(path: str, form: Form, data: st.DataObject) -> None:
    values = filled_in(form, data)
    asked, (verb, said) = form.make(values), called_by(form.command(values))
    if sources := said.pop("sources", ()) if path in RELAYS else ():
        (said["source"],) = sources  # dmctl asks for each of them
    told: Any = verb(**said)
    if form.composed is None:
        assert (verb, told.request()) == (form.verb, asked.request())
        return
    # `dmctl cut-over` makes several requests of one line; what it passes on has the same name, but for the way back.
    assert verb is form.composed is CutOverTask
    names = [each.name for each in form.verb.parameters()]
    said_of = {name: not told.no_way_back if name == "way_back" else getattr(told, name) for name in names}
    assert said_of == {name: getattr(asked, name) for name in names}
    told.demand_consistent()
    which = {"check": told.dry_run, "return": told.back, "abort": told.abort, "complete": told.complete}
    assert [name for name, asked_for in which.items() if asked_for] == [
        name for name in which if path.rpartition("/")[2].startswith(name)
    ]


def test_what_a_task_is_not_doing_is_not_offered(many: StagedDaemon, reader: Visitor) -> None:
    page = reader.client.get(f"/page/tasks/{TASK}").text
    assert f"/page/tasks/{TASK}/do/cut-over" in page
    assert f"/page/tasks/{TASK}/do/reload" in page
    for name in ("cancel-reload", "abort-cut-over", "return", "complete-cut-over", "unlock", "resume"):
        assert f"do/{name}" not in page


def test_shards_that_wait_have_a_link_to_the_question_about_their_lock(many: StagedDaemon, operator: Visitor) -> None:
    target = "`shop`.`one & only`"
    group: dict[str, Any] = {
        "target": target, "DDLs": ["ALTER TABLE t ADD c INT"], "firstLocation": "(mysql-bin.000001, 4)", "synced": [],
        "unsynced": ["`shop`.`late`"], "othersUnsynced": [], "sourcesMissing": False, "since": "?", "executed": False,
    }  # fmt: skip
    many.say(TASK, "one", syncing(unresolvedGroups=[group], blockingDDLs=group["DDLs"]))
    page = operator.client.get("/page/ddl").text
    many.say(TASK, "one", syncing())
    (address,) = re.findall(rf'href="(/page/tasks/{TASK}/do/unlock[^"]*)"', page)
    question = html.unescape(operator.client.get(html.unescape(address)).text)
    assert f"dmctl shard-ddl-lock unlock {shlex.quote(f'{TASK}-{target}')} --action exec" in question
    assert "needs change" in question


@pytest.mark.parametrize(
    ("name", "fields", "problem"),
    [
        ("reload", {"database": "shop"}, "no table is named"),
        *(
            ("cut-over", {"timeout": text}, f"timeout: '{text}' is no number from 1 on")
            for text in ("soon", "0.5", "nan", "inf", "-1", "")
        ),
        ("cut-over", {"hook": "hook.sh"}, "the hook 'hook.sh' is no absolute path"),
        ("unlock", {"lock": "none-`a`.`b`"}, "none-`a`.`b`"),
    ],
)
def test_what_is_filled_in_wrong_is_said_and_changes_nothing(
    many: StagedDaemon, changer: Visitor, name: str, fields: dict[str, str], problem: str
) -> None:
    page = html.unescape(changer.told(f"/page/tasks/{TASK}/do/{name}", **fields))
    assert "error 4" in page or "error 1" in page
    assert problem in page
    assert changer.send(f"/page/tasks/{TASK}/do/cut-over", prove="never").status_code == 400
    assert stage(many) == "Running"


def test_a_body_of_any_size_is_bounded(many: StagedDaemon, changer: Visitor) -> None:
    assert changer.client.post(PAUSE, content=b"a=b&" * 100).status_code == 403
    assert changer.client.post(PAUSE, content=b"\xff\xfe").status_code == 403
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert changer.client.post(PAUSE, content=b"x" * (17 << 20), headers=kind).status_code == 413
    assert stage(many) == "Running"
