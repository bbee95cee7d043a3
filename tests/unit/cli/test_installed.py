"""The wheel is complete: `dmctl` works where nothing of the repository is."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.testbed.installed import install
from tests.unit.docs.document import ROOT


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
    assert run(programs, "dmctl", "--version") == "dmctl 0.1.0\n"
    assert "query-status" in run(programs, "dmctl", "--help")


def test_what_the_demo_reads_is_in_it(programs: Path) -> None:
    text = run(programs, "python", "-c", "from dm.cli.demo import example; print(example())")
    assert "name: demo" in text


def test_documents_and_files_that_messages_and_the_service_name_are_in_it(programs: Path) -> None:
    shared = programs.parent / "share" / "dm"
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "dm").rglob("*.py"))
    named = set(re.findall(r"\bdocs/[\w-]+\.md", sources)) | {"monitoring/dm.rules.yml", "task-examples/all.yaml"}
    assert sorted(name for name in named if not (shared / name).is_file()) == []
    unit = (shared / "packaging" / "dm-worker.service").read_text()
    documentation = re.search("^Documentation=file:///opt/dm/(.+)$", unit, re.MULTILINE)
    assert documentation is not None
    assert (programs.parent / documentation[1]).is_file()
