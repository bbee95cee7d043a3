"""`dmctl support-bundle`: one new file of this user's, with everything but secrets and values."""

from __future__ import annotations

import io
import json
import stat
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.clock import SystemClock
from dm.worker import support_bundle
from dm.worker.home import Home
from dm.worker.support_bundle import clean, clean_file, clean_line
from tests.unit.worker.home import TestHome, home, until

CANARY = "kanarie-Ω-金糸雀"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("bundle") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source())
        running.ok("start-task", running.task("shop"))
        until(lambda: running.stage("shop") == ("Running", "Sync"))
        yield running


def members(path: Path) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as tar:
        assert all(entry.isfile() and entry.mode == 0o600 for entry in tar)
        read = {entry.name.partition("/")[2]: tar.extractfile(entry) for entry in tar}
        return {name: file.read().decode() for name, file in read.items() if file is not None}


def test_it_has_all_sections_and_no_password(one: TestHome) -> None:
    (one.directory / "log" / "sync.old.one.log").write_text(f"{CANARY!r} of an older version, 4711\n")
    token = one.said("token", "create", "watcher").out.strip()
    said = one.said("support-bundle", "-o", "mine.tar.gz")
    assert said.status == 0, said.err
    assert said.out.startswith("mine.tar.gz: ")
    path = one.directory / "mine.tar.gz"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = members(path)
    for name in (
        "threads.txt", "processes.txt", "versions.json", "log/sync.old.one.log", "log/audit.log", "log/timeline.jsonl",
        "settings.json",
        "sources/one.yaml", "tasks/shop.yaml", "registry.json", "files.txt", "relay/one.txt", "metrics.txt",
        "status/tasks.json", "status/sources.json", "status/subtasks.json", "servers/shop/one.json", "problems.txt",
    ):  # fmt: skip
        assert name in found, name
    everything = "\n".join(found.values())
    assert CANARY not in everything
    assert "canary-" not in everything
    assert token not in everything
    assert "source-id: one" in found["sources/one.yaml"]
    assert json.loads(found["status/subtasks.json"])[0]["stage"] == "Running"
    assert found["problems.txt"] == ""
    assert "dm/worker/verbs/support.py" in found["threads.txt"], "the thread that waits for it"


def test_no_file_is_overwritten_and_no_link_followed(one: TestHome) -> None:
    taken, link = one.directory / "taken.tar.gz", one.directory / "link.tar.gz"
    taken.write_text("mine")
    link.symlink_to(one.directory / "elsewhere")
    for name in (taken.name, link.name, "nowhere/new.tar.gz"):
        refused = one.said("support-bundle", "-o", name)
        assert refused.status == 1, refused.out
        assert "48976" in refused.err
    assert taken.read_text() == "mine"
    assert not (one.directory / "elsewhere").exists()


def test_it_is_in_the_audit_log(one: TestHome) -> None:
    assert one.said("support-bundle", "-o", "a.tar.gz").status == 0
    asked = [json.loads(line) for line in (one.directory / "log" / "audit.log").read_text().splitlines()]
    assert "support-bundle" in [line.get("verb") for line in asked]


def test_a_section_that_hangs_costs_only_itself(one: TestHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a collection in this process, with a loop that never answers."""
    monkeypatch.setattr(support_bundle, "_SECONDS", 0.5)
    released = threading.Event()

    class Stuck:
        def __getattr__(self, _name: str) -> object:
            return self._wait

        def _wait(self, *_: object) -> None:
            released.wait()
            raise OSError("it is over")

    class Supervised:
        home = Home(one.directory)
        registry = Stuck()

    collection = support_bundle.Collection(
        Stuck(), Supervised(), lambda *_: {}, Stuck(), SystemClock(),  # type: ignore[arg-type]  # stand-ins
    )  # fmt: skip
    packed = collection.packed()
    released.set()
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        names = [name.partition("/")[2] for name in tar.getnames()]
    assert "threads.txt" in names
    assert any(name.startswith("log/") for name in names)
    assert any(line.startswith("status: not all") for line in collection.problems)


def test_a_file_comes_without_comments_and_secrets() -> None:
    text = f"# password: {CANARY}\nname: t  # {CANARY}\ntarget-database:\n  password: {CANARY}\n  host: h\n"
    assert clean_file(text) == "name: t\ntarget-database:\n  password: '******'\n  host: h\n"
    assert CANARY not in clean_file(f"a: [{CANARY}")


def test_a_field_that_nobody_knows_loses_its_literals() -> None:
    status = {
        "syncerBinlog": "(mysql-bin.000011, 154)", "totalRows": "120", "queuedRows": 7, "synced": True,
        "blockingDDLs": [f"ALTER TABLE `t` ADD c INT DEFAULT 4711 COMMENT '{CANARY}'"],
        "new": {"inner": f"about '{CANARY}'"},
        "result": {"errors": [{"ErrCode": 36038, "Message": f"row {CANARY}", "RawCause": f"1062 Duplicate '{CANARY}"}]},
    }  # fmt: skip
    cleaned = clean(status)
    assert CANARY not in str(cleaned)
    assert cleaned["syncerBinlog"] == "(mysql-bin.000011, 154)"
    assert (cleaned["queuedRows"], cleaned["synced"]) == (7, True)
    assert cleaned["blockingDDLs"] == ["ALTER TABLE `t` ADD c INT DEFAULT ? COMMENT ?"]
    assert cleaned["result"]["errors"][0]["ErrCode"] == 36038


def test_lines_of_logs() -> None:
    line = json.dumps({
        "event": "unit failed", "level": "warning", "task": "t",
        "error": f"[code=1:class=a:scope=b:level=c], '{CANARY}'",
        "exception": f'Traceback\n  File "/a/b.py", line 12, in run\n    call("{CANARY}")\nX: 4711 {CANARY!r}',
    })  # fmt: skip
    cleaned = clean_line(line)
    assert CANARY not in json.loads(cleaned)["exception"] + cleaned
    assert json.loads(cleaned)["error"].startswith("[code=1:class=a:scope=b:level=c]")
    assert '  File "/a/b.py", line 12, in run' in json.loads(cleaned)["exception"]
    assert clean_line("\tat org.apache.spark.X$1.run(X.scala:12)") == "\tat org.apache.spark.X$1.run(X.scala:12)"
    assert clean_line(f"java.lang.X: '{CANARY}' 4711") == "java.lang.X: ? ?"


def test_a_bundle_is_asked_for_while_tasks_run(one: TestHome) -> None:
    pid = one.pid_of("shop")
    assert one.said("support-bundle", "-o", "b.tar.gz").status == 0
    assert (one.stage("shop"), one.pid_of("shop")) == (("Running", "Sync"), pid)
