"""`dmctl` as a user meets it: exit statuses, messages, both forms of output, the shell, the private daemon."""

from __future__ import annotations

import json
import os
import pwd
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.worker.home import ROOT, TestHome, home, until

OK, FAILED, BAD_USAGE, PRECHECK_FAILED = 0, 1, 2, 3


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    """A daemon that all tests here share; each uses names of its own."""
    with home(tmp_path_factory.mktemp("cli") / "home") as running:
        running.start("--listen", "127.0.0.1:0")
        running.ok("operate-source", "create", running.source())
        yield running


def test_what_help_says_of_a_verb_is_not_cut_off(one: TestHome) -> None:
    _, _, verbs = one.said("--help").out.partition("Commands:")
    assert "query-status" in verbs
    assert "..." not in verbs


def test_help_imports_neither_spark_nor_the_server() -> None:
    code = (
        "import sys; from dm.cli.dmctl import execute; status = execute(['--help']);"
        "heavy = {'pyspark', 'fastapi', 'uvicorn', 'pymysql', 'sqlglot', 'pyarrow'} & set(sys.modules);"
        "print(status, sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"
    for verb in (
        "operate-source",
        "check-task",
        "start-task",
        "stop-task",
        "pause-task",
        "resume-task",
        "query-status",
    ):
        assert verb in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["query-stats"],
        ["query-status", "--source-id", "x"],
        ["start-task"],
        ["start-task", "a.yaml", "b.yaml"],
        ["operate-source", "creat", "x.yaml"],
        ["query-status", "--output", "xml"],
        ["start-relay"],
    ],
)
def test_bad_usage_is_status_2_and_says_what_is_wrong(one: TestHome, words: list[str]) -> None:
    done = one.dmctl(*words)
    assert (done.status, done.out) == (BAD_USAGE, "")
    assert "Error" in done.err


def test_a_typo_in_a_verb_gets_a_suggestion(one: TestHome) -> None:
    assert "Did you mean 'query-status'?" in one.dmctl("query-stats").err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.yaml", None, "No such file or directory"),
        ("binary.yaml", b"\x00\xff\xfe\x01", "not text in UTF-8"),
        ("nul.yaml", b"name: t\x00\n", "nul.yaml"),
        ("not.yaml", b"name: [t\n", "not.yaml"),
        ("list.yaml", b"- a\n- b\n", "list.yaml"),
        ("empty.yaml", b"", "empty.yaml"),
    ],
)
def test_files_that_are_no_task_files_are_status_2(one: TestHome, name: str, content: bytes | None, said: str) -> None:
    if content is not None:
        (one.directory / name).write_bytes(content)
    done = one.dmctl("start-task", name)
    assert (done.status, done.out) == (BAD_USAGE, "")
    assert said in done.err
    assert done.err.startswith("Error ")


def test_a_typo_in_a_key_is_said_with_its_place(one: TestHome) -> None:
    file = one.task("typo")
    text = (one.directory / file).read_text()
    one.file(file, text.replace("task-mode", "task-mod"))
    done = one.dmctl("check-task", file)
    assert done.status == BAD_USAGE
    assert "typo.yaml:2:" in done.err
    assert "did you mean `task-mode`?" in done.err
    assert "is missing" not in done.err  # that would be the same once more


@pytest.mark.parametrize("name", ["../escape", "a/b", ".hidden", "x" * 100])
def test_names_that_could_leave_their_directory_are_refused(one: TestHome, name: str) -> None:
    done = one.dmctl(
        "start-task",
        one.file("name.yaml", (one.directory / one.task("n")).read_text().replace("name: n", f"name: {name}")),
    )
    assert done.status == BAD_USAGE
    assert "name.yaml:1:" in done.err


def test_an_unknown_source_is_status_2(one: TestHome) -> None:
    done = one.dmctl("start-task", one.task("u", sources=("nowhere",)))
    assert done.status == BAD_USAGE
    assert "nowhere" in done.err


def test_a_task_name_that_is_taken_is_status_1(one: TestHome) -> None:
    one.ok("start-task", one.task("taken"))
    done = one.dmctl("start-task", "taken.yaml")
    assert done.status == FAILED
    assert "task taken already exists on source one" in done.err
    one.ok("stop-task", "taken")


def test_resume_of_a_running_task_and_verbs_on_unknown_tasks_are_status_1(one: TestHome) -> None:
    one.ok("start-task", one.task("runs"))
    done = one.dmctl("resume-task", "runs")
    assert (done.status, "its stage is Running" in done.err) == (FAILED, True)
    for verb in ("query-status", "pause-task", "resume-task", "stop-task"):
        assert one.dmctl(verb, "nobody").status == FAILED
    one.ok("stop-task", "runs")


def test_a_task_can_be_named_by_its_file(one: TestHome) -> None:
    file = one.task("byfile")
    one.ok("start-task", file)
    assert one.ok("query-status", file)["sources"][0]["subTaskStatus"][0]["name"] == "byfile"
    one.ok("stop-task", file)


def test_a_check_speaks_of_a_task_that_is_there_or_is_not(one: TestHome) -> None:
    one.ok("start-task", one.task("known"))
    way_out = "grant it ({grant}), then `dmctl resume-task`, or `dmctl resume-relay` if the relay reports this"
    (one.directory / "servers.json").write_text(json.dumps({"failing_check": "privilege", "way_out": way_out}))
    try:
        for task, verb in (("known", "resume-task"), ("new", "start-task")):
            fixes = one.said("check-task", one.task(task)).out.splitlines()[-2]
            assert fixes == f"  {way_out.replace('resume-task', verb)}"
    finally:
        (one.directory / "servers.json").unlink()
        one.ok("stop-task", "known")


def test_a_failed_precheck_is_status_3_and_shows_how_to_fix_it(one: TestHome) -> None:
    (one.directory / "servers.json").write_text('{"failing_check": "binlog_format"}')
    try:
        checked = one.dmctl("check-task", one.task("c"))
        assert checked.status == PRECHECK_FAILED
        assert "SET GLOBAL it = ON" in checked.out
        started = one.dmctl("start-task", "c.yaml")
        assert started.status == PRECHECK_FAILED
        assert "SET GLOBAL it = ON" in started.out
        assert (started.out + started.err).count("it is off") == 1, "once"
        assert started.err.strip() == "Error 26005: not started, since 1 check failed"
        assert one.dmctl("query-status", "c").status == FAILED, "nothing half-done"
        in_json = one.dmctl("start-task", "c.yaml", "--output", "json")
        assert in_json.json["error"]["ErrCode"] == 26005
        assert in_json.json["checkResult"]["summary"]["failed"] == 1
    finally:
        (one.directory / "servers.json").unlink()


def test_a_source_whose_server_refuses_is_not_added(one: TestHome) -> None:
    (one.directory / "servers.json").write_text('{"verify_source": "fail"}')
    try:
        done = one.dmctl("operate-source", "create", one.source("bad"))
        assert done.status == FAILED
        assert "refuses user dm" in done.err
    finally:
        (one.directory / "servers.json").unlink()
    assert [source["source"] for source in one.ok("operate-source", "show")["sources"]] == ["one"]


def test_keys_of_a_source_without_effect_are_said(one: TestHome) -> None:
    done = one.dmctl("operate-source", "create", one.source("warned", enable=False))
    assert done.status == OK
    assert "warning: warned.yaml:9:1: enable: `enable` has no effect here" in done.err
    answer = one.ok("operate-source", "update", "warned.yaml")
    assert ["`enable` has no effect here" in warning for warning in answer["warnings"]] == [True]
    assert one.said("operate-source", "stop", "warned").out == "source warned is forgotten\n"


def test_sources_are_created_all_or_none(one: TestHome) -> None:
    done = one.dmctl("operate-source", "create", one.source("new"), one.source("one"))
    assert done.status == FAILED
    assert "source one already exists" in done.err
    assert one.dmctl("operate-source", "show", "new").status == FAILED


def test_remove_meta_forgets_progress_of_each_source(one: TestHome) -> None:
    one.ok("start-task", one.task("anew"), "--remove-meta")
    assert (one.directory / "forgotten").read_text() == "anew/one\n"
    one.ok("stop-task", "anew")


def test_the_form_of_output_may_stand_before_or_after_the_verb(one: TestHome) -> None:
    before = one.dmctl("--output", "json", "query-status")
    after = one.dmctl("query-status", "--output", "json")
    assert before.json == after.json == {"result": True, "msg": "", "tasks": []}
    assert "no tasks" in one.dmctl("query-status").out
    assert "no tasks" in one.dmctl("--output", "json", "query-status", "--output", "table").out


def test_errors_as_json(one: TestHome) -> None:
    done = one.dmctl("query-status", "nobody", "--output", "json")
    assert done.status == FAILED
    assert set(done.json["error"]) == {
        "ErrCode", "ErrClass", "ErrScope", "ErrLevel", "Message", "RawCause", "Workaround",
    }  # fmt: skip
    assert done.json["result"] is False


def test_query_status_has_dms_fields(one: TestHome) -> None:
    one.ok("start-task", one.task("fields"))
    until(lambda: "sync" in one.subtask("fields"))
    answer = one.ok("query-status", "fields")
    (source,) = answer["sources"]
    assert set(answer) == {"result", "msg", "sources"}
    assert set(source) == {"result", "msg", "sourceStatus", "subTaskStatus"}
    assert {"source", "worker", "result", "relayStatus"} <= set(source["sourceStatus"])
    (subtask,) = source["subTaskStatus"]
    ours = {"relayRests", "sourceAnswers", "targetAnswers"}
    assert {"name", "stage", "unit", "result", "unresolvedDDLLockID", "sync"} == set(subtask) - ours
    assert isinstance(subtask["sync"]["totalRows"], str), "64-bit numbers are text, as in protobuf's JSON"
    table = one.dmctl("query-status", "fields").out
    assert "(mysql-bin.000001, 154)" in table
    one.ok("stop-task", "fields")


def test_the_shell_runs_the_same_verbs(one: TestHome) -> None:
    script = "help\n\n# a remark\nquery-status\nquery-status nobody\ndmctl operate-source show\nbad 'quote\nexit\n"
    done = one.dmctl(stdin=script)
    assert "pause-task" in done.out
    assert "no tasks" in done.out
    assert "dm@127.0.0.1:3306" in done.out
    assert "there is no task nobody" in done.err
    assert done.status == BAD_USAGE, "of the last line"
    assert one.dmctl(stdin="query-status\n").status == OK
    assert one.dmctl("--output", "json", stdin="query-status\n").json["tasks"] == []


def test_no_daemon_at_an_address_is_one_clear_message(one: TestHome) -> None:
    done = one.dmctl("query-status", "--addr", "127.0.0.1:1")
    assert done.status == FAILED
    assert "no dm-worker answers at 127.0.0.1:1" in done.err
    assert one.dmctl("query-status", DM_ADDR="127.0.0.1:1").status == FAILED
    done = one.dmctl("diff", "t", "--addr", "127.0.0.1:1")
    assert (done.status, "no dm-worker answers" in done.err) == (2, True), "1 would say that rows differ"


def test_no_password_in_any_answer_file_or_process(one: TestHome) -> None:
    one.ok("start-task", one.task("secret"))
    until(lambda: one.trace("secret"))
    broken = one.task("broken")
    one.file(broken, (one.directory / broken).read_text().replace("port: 4000", "port: canary-x"))
    outputs = [
        one.dmctl(*words)
        for words in (
            ["query-status", "secret", "--output", "json"],
            ["operate-source", "show", "--output", "json"],
            ["check-task", "secret.yaml"],
            ["start-task", "broken.yaml"],
            ["start-task", "secret.yaml"],
        )
    ]
    for done in outputs:
        assert "canary-5e11" not in done.out + done.err
        assert "canary-a90c" not in done.out + done.err
    assert one.daemon is not None
    for pid in (one.daemon.pid, one.pid_of("secret")):
        assert b"canary" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        with suppress(PermissionError):  # only root may look
            assert b"canary" not in Path(f"/proc/{pid}/environ").read_bytes()
    for log in [one.directory / "daemon.log", *(one.directory / "log").iterdir()]:
        assert "canary-5e11" not in log.read_text()
        assert "canary-a90c" not in log.read_text()
    registry = one.directory / "registry.sqlite"
    assert stat.S_IMODE(registry.stat().st_mode) == 0o600
    assert stat.S_IMODE(one.directory.stat().st_mode) == 0o700
    one.ok("stop-task", "secret")


def test_a_password_from_the_users_environment_reaches_the_daemon(one: TestHome) -> None:
    file = one.source("env")
    one.file(file, (one.directory / file).read_text().replace("canary-5e11-Ключ-密", "${DB_PASSWORD_OF_ENV}"))
    refused = one.dmctl("operate-source", "create", file)
    assert refused.status == BAD_USAGE
    assert "DB_PASSWORD_OF_ENV" in refused.err
    assert one.dmctl("operate-source", "create", file, DB_PASSWORD_OF_ENV="canary-5e11-Ключ-密").status == OK
    one.ok("operate-source", "stop", "env")


def test_dmctl_starts_a_private_daemon_and_says_so(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / "home"  # deeper than the address of a Unix socket can be long
    private = TestHome(deep)
    private.directory.mkdir(parents=True)
    try:
        first = private.dmctl("query-status")
        assert first.status == OK, first.err
        user = pwd.getpwuid(os.getuid()).pw_name
        assert f"no dm-worker runs in {deep}: starting a private one for user {user} (log: " in first.err
        assert "the new one knows no sources and no tasks; if another is meant" in first.err
        second = private.dmctl("query-status")
        assert (second.status, second.err) == (OK, "")
        pid = int((deep / "lock").read_text())
    finally:
        ended = private.dmctl("shutdown")
    assert f"dm-worker (pid {pid}) ends" in ended.out
    assert "knows no sources" not in ended.err
    until(lambda: not Path(f"/proc/{pid}").exists() or b"dm.worker" not in Path(f"/proc/{pid}/cmdline").read_bytes())
    assert "no dm-worker runs" in private.dmctl("shutdown").err


def test_a_private_daemon_that_is_new_says_which_others_run(tmp_path: Path) -> None:
    known, new = TestHome(tmp_path / "known"), TestHome(tmp_path / "new")
    for each in (known, new):
        each.directory.mkdir()
    try:
        known.dmctl("query-status")
        pid = int((known.directory / "lock").read_text())
        said = new.dmctl("query-status").err
        assert f"dm-worker (pid {pid}) of user {pwd.getpwuid(os.getuid()).pw_name} runs in {known.directory}" in said
        new.dmctl("shutdown")
        until(lambda: not (new.directory / "dm-worker.sock").exists())
        assert "(pid" not in new.dmctl("query-status").err, "it is not new any more"
    finally:
        for each in (known, new):
            each.dmctl("shutdown")


def test_a_private_daemon_that_cannot_start_is_one_clear_message(tmp_path: Path) -> None:
    broken = TestHome(tmp_path / "home")
    broken.directory.mkdir()
    (broken.directory / "registry.sqlite").write_text("this is no database, and it is longer than a header")
    done = broken.dmctl("query-status")
    assert done.status == FAILED
    assert "the private dm-worker did not start" in done.err
    assert "file is not a database" in done.err


@pytest.mark.parametrize("address", ["0.0.0.0:8261", "10.1.2.3:8261", "nonsense", "127.0.0.1:99999"])
def test_the_daemon_listens_on_loopback_only(tmp_path: Path, address: str) -> None:
    one = TestHome(tmp_path / "home")
    assert one.launch("--listen", address).wait(60) == BAD_USAGE
    assert "without TLS only loopback addresses are allowed" in (one.directory / "daemon.log").read_text()


def test_a_port_that_is_taken_is_one_line_with_the_port(tmp_path: Path) -> None:
    home = TestHome(tmp_path / "home")
    for option in ("--listen", "--metrics-addr"):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = "{}:{}".format(*taken.getsockname())
            assert home.launch(option, address).wait(60) == FAILED
        said = (home.directory / "daemon.log").read_text()
        assert f"dm-worker can't listen on {address}: Address already in use" in said
        assert "Traceback" not in said


def test_json_output_is_json_alone(one: TestHome) -> None:
    for words in (["query-status"], ["operate-source", "show"], ["query-status", "nobody"]):
        json.loads(one.dmctl(*words, "--output", "json").out)
