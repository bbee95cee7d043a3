"""`dmctl config`: what the daemon keeps comes out without passwords, and goes in again somewhere else."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.testbed.daemon import run_here
from tests.unit.worker.home import TestHome, home, until

FAILED, BAD_USAGE = 1, 2


@pytest.fixture
def one(tmp_path: Path) -> Iterator[TestHome]:
    with home(tmp_path / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source())
        running.ok("start-task", running.task("shop"))
        yield running


def test_the_file_of_a_source_and_of_a_task_without_passwords(one: TestHome) -> None:
    source = one.said("config", "source", "one").out
    assert source == (one.directory / "one.yaml").read_text().replace("canary-5e11-Ключ-密", "'******'")
    task = one.said("config", "task", "shop").out
    assert task == (one.directory / "shop.yaml").read_text().replace("canary-a90c-Ключ-密", "'******'")
    assert one.said("config", "task", "shop.yaml").out == task, "a task can be named by its file"
    assert one.ok("config", "task", "shop") == {"result": True, "msg": "", "cfg": task}, "DM's answer"


def test_a_file_can_be_written(one: TestHome) -> None:
    assert one.said("config", "task", "shop", "-p", "out.yaml").out == ""
    written = one.directory / "out.yaml"
    assert written.read_text() == one.said("config", "task", "shop").out
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    refused = one.said("config", "source", "one", "--path", "nowhere/out.yaml")
    assert refused.status == BAD_USAGE
    assert "can't write nowhere/out.yaml" in refused.err


def test_what_is_not_there_is_status_1(one: TestHome) -> None:
    assert one.said("config", "task", "nobody").status == FAILED
    assert "there is no source nobody" in one.said("config", "source", "nobody").err


def test_everything_at_a_glance(one: TestHome) -> None:
    lines = [line.split() for line in one.said("config", "show").out.splitlines()]
    assert ["source", "one", "one.yaml"] in lines
    assert ["task", "shop", "shop.yaml"] in lines
    assert ["dm-worker", "log-level", "info"] in lines
    assert "canary" not in json.dumps(one.ok("config", "show"))


def test_an_export_is_in_dms_layout_and_holds_no_password(one: TestHome) -> None:
    one.ok("start-relay", "-s", "one")
    done = one.said("config", "export", "-p", "out")
    assert done.out.splitlines() == ["out/sources/one.yaml", "out/tasks/shop.yaml", "out/relay_workers.json"]
    out = one.directory / "out"
    assert json.loads((out / "relay_workers.json").read_text()) == {"one": ["dm-worker"]}
    assert "canary" not in "".join(file.read_text() for file in out.rglob("*.*"))
    again = one.said("config", "export", "-p", "out")
    assert again.status == BAD_USAGE
    assert "out is there and not empty" in again.err


def test_an_import_brings_sources_relays_and_tasks_to_another_daemon(one: TestHome, tmp_path: Path) -> None:
    one.file("pw", "canary-5e11-Ключ-密\n")
    text = (one.directory / one.source("two", relay_dir="relay-of-two")).read_text()
    one.file("two.yaml", text.replace("password: canary-5e11-Ключ-密", "password-file: pw"))
    one.ok("operate-source", "create", "two.yaml")
    one.ok("start-relay", "-s", "two")
    one.ok("config", "export", "-p", "out")
    out = one.directory / "out"
    with home(tmp_path / "other") as other:
        other.start()
        for file in (out / "sources" / "one.yaml", out / "tasks" / "shop.yaml"):  # as a person has to: the passwords
            file.write_text(file.read_text().replace("'******'", "canary-5e11-Ключ-密"))
        done = other.said("config", "import", "-p", str(out))
        assert done.status == 0, done.err
        assert [line.split() for line in done.out.splitlines()[1:]] == [
            ["source", "one", "added"], ["source", "two", "added"],
            ["relay", "two", "started"], ["task", "shop", "started"],
        ]  # fmt: skip
        until(lambda: other.stage("shop") == ("Running", "Sync"))
        assert other.ok("config", "source", "two")["cfg"].count(str(one.directory)) == 2, "the paths still lead there"
        assert (one.directory / "relay-of-two" / "two").is_dir()
        again = other.said("config", "import", "-p", str(out))
        assert again.status == 0, "what is there already stays"
        assert again.out.count("is there already: left as it is") == 3


def test_one_task_that_cannot_start_keeps_no_other_from_it(one: TestHome) -> None:
    one.file("a.yaml", (one.directory / one.task("a")).read_text())
    (one.directory / "in" / "tasks").mkdir(parents=True)
    (one.directory / "in" / "tasks" / "a.yaml").write_text((one.directory / "a.yaml").read_text() + "x: 1\n")
    (one.directory / "in" / "tasks" / "b.yaml").write_text((one.directory / one.task("b")).read_text())
    (one.directory / "in" / "tasks" / "c.yaml").write_text((one.directory / one.task("c")).read_text())
    one.script("c", Sync={"error": "access-denied", "role": "upstream", "address": "127.0.0.1:3306", "user": "dm"})
    done = one.said("config", "import", "-p", "in")
    assert done.status == FAILED
    assert "unknown key `x`" in done.err
    assert "upstream 127.0.0.1:3306 refuses user dm" in done.err
    assert [" ".join(line.split()[1:]) for line in done.out.splitlines()[1:]] == [
        "a not started: error 20900", "b started", "c started, but does not work",
    ]  # fmt: skip


def test_a_directory_without_files_is_bad_usage(one: TestHome) -> None:
    refused = one.said("config", "import", "-p", "nowhere")
    assert refused.status == BAD_USAGE
    assert "there are no files sources/*.yaml or tasks/*.yaml in nowhere" in refused.err


def test_log_settings_are_shown_changed_at_once_and_kept(one: TestHome) -> None:
    def settings() -> dict[str, str]:
        shown: dict[str, str] = one.ok("config", "worker")["worker"]
        return {name: shown[name] for name in ("log-level", "log-max-size", "log-max-backups")}

    assert settings() == {"log-level": "info", "log-max-size": "100M", "log-max-backups": "5"}
    log = one.directory / "log" / "sync.shop.one.log"
    one.ok("query-status", "shop")
    assert '"level": "debug"' not in log.read_text()
    one.ok("config", "worker", "--log-level", "debug", "--log-max-size", "64K")
    one.ok("query-status", "shop")
    until(lambda: '"kind": "RefreshUnit"' in log.read_text())
    one.stop()
    told = len((one.directory / "daemon.log").read_text())
    one.start()
    one.ok("query-status", "shop")
    assert '"level": "debug"' in (one.directory / "daemon.log").read_text()[told:]
    one.stop()
    one.start("--log-max-backups", "2")
    assert settings() == {"log-level": "debug", "log-max-size": "64K", "log-max-backups": "2"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--log-level", "verbose"], "give one of debug, info, warn, error"),
        (["--log-max-size", "1K"], "give a size such as 100M, at least 64K"),
        (["--log-max-size", "big"], "give a size such as 100M"),
        (["--log-max-backups", "-1"], "--log-max-backups"),
    ],
)
def test_a_setting_that_is_not_possible_changes_nothing(one: TestHome, words: list[str], said: str) -> None:
    before = one.ok("config", "worker")
    refused = one.said("config", "worker", *words)
    assert refused.status == BAD_USAGE
    assert said in refused.err
    assert one.ok("config", "worker") == before


@contextmanager
def pretended(answer: object) -> Iterator[str]:
    """Whoever listens at an address and answers all requests with this."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield "{}:{}".format(*server.server_address)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/b", "..", "", "a\0b", "\x1b[2J"])
@pytest.mark.parametrize("kind", ["sources", "tasks"])
def test_an_export_writes_nothing_outside_its_directory(tmp_path: Path, name: str, kind: str) -> None:
    good = {"name": "good", "file": "f", "cfg": "harmless: 1\n"}
    answer = {"result": True, "msg": "", "sources": [good], "tasks": [good], "relays": [], "worker": {}}
    answer[kind] = [good, {**good, "name": name}]
    with pretended(answer) as address:
        done = run_here(["config", "export", "-p", "deep/out", "--addr", address], tmp_path, {"DM_HOME": str(tmp_path)})
    assert done.status != 0
    assert "can't be the name of a file: nothing was written" in done.err
    assert "\x1b" not in done.err
    assert list(tmp_path.rglob("*")) == []
