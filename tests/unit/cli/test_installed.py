"""The wheel is complete: `dmctl` works where nothing of the repository is."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from scripts.document_manual import pages
from tests.testbed.certificates import Authority
from tests.testbed.installed import install
from tests.unit.docs.document import ROOT
from tests.unit.worker.home import home

FIND = "[name for name in ('pyspark', 'pymysql', 'fastapi', 'structlog') if find_spec(name)]"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("installed"))


def run(programs: Path, *words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [programs / words[0], *words[1:]], capture_output=True, text=True, cwd="/", env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_the_wheel_that_runs(programs: Path) -> None:
    assert str(programs.parent) in run(programs, "python", "-c", "import dm; print(dm.__file__)")
    assert run(programs, "dmctl", "--version") == "dmctl 1.0.0\n"
    assert "query-status" in run(programs, "dmctl", "--help")


def test_what_the_demo_reads_is_in_it(programs: Path) -> None:
    text = run(programs, "python", "-c", "from dm.cli.demo import example; print(example())")
    assert "name: demo" in text


def test_documents_and_files_that_messages_and_the_service_name_are_in_it(programs: Path) -> None:
    shared = programs.parent / "share" / "dm"
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "dm").rglob("*.py"))
    named = set(re.findall(r"\bdocs/[\w-]+\.md", sources)) | {"monitoring/dm.rules.yml", "task-examples/all.yaml"}
    assert sorted(name for name in named if not (shared / name).is_file()) == []
    for name in pages("1.0.0"):
        assert (shared.parent / name).is_file()
    unit = (shared / "packaging" / "dm-worker.service").read_text()
    documentation = re.search("^Documentation=file:///opt/dm/(.+)$", unit, re.MULTILINE)
    assert documentation is not None
    assert (programs.parent / documentation[1]).is_file()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("client"), client=True)


def test_the_client_alone_asks_a_daemon_on_another_host(client: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    certificate, key = authority.signed("server", addresses=("127.0.0.1",))
    with home(tmp_path / "home") as one:
        one.start("--listen", "127.0.0.1:0", "--ssl-cert", str(certificate), "--ssl-key", str(key))
        token = tmp_path / "token"
        token.touch(mode=0o600)
        token.write_text(one.ok("token", "create", "anna", "-p", "read")["token"])
        port = (one.directory / "daemon.log").read_text().partition('"listen": "127.0.0.1:')[2].partition('"')[0]
        reached = ("--addr", f"127.0.0.1:{port}", "--token-file", str(token), "--ssl-ca", str(authority.file))
        assert run(client, "dmctl", *reached, "query-status").startswith("no tasks")
    assert run(client, "python", "-c", f"from importlib.util import find_spec; print({FIND})") == "[]\n"


@pytest.mark.parametrize("words", [("dmctl", "query-status"), ("dmctl", "demo"), ("dm-worker",)])
def test_what_needs_the_daemons_packages_says_how_to_get_them(client: Path, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [client / words[0], *words[1:]], capture_output=True, text=True, cwd="/", check=False,
        env={"DM_HOME": str(client.parent / "home")},
    )  # fmt: skip
    assert done.returncode != 0
    assert "pip install 'dm-replicator[worker]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (client.parent / "home").exists()
