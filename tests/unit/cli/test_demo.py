"""What a demo leaves behind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dm.cli.demo import DemoRun, main
from dm.errors import DMError


def _stuck(demo: DemoRun) -> bool:
    raise DMError("demo-stuck", what="catch up", seconds=300, log=demo.home / "log")


def _differs(_demo: DemoRun) -> bool:
    return False


def _interrupted(_demo: DemoRun) -> bool:
    raise KeyboardInterrupt


def _identical(_demo: DemoRun) -> bool:
    return True


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _play(story: Callable[[DemoRun], bool], monkeypatch: pytest.MonkeyPatch) -> int:
    def run(demo: DemoRun) -> bool:
        log = demo.home / "log" / "dm-worker.log"
        log.parent.mkdir(parents=True)
        log.write_text("what happened")
        for server in (*demo.upstreams, demo.target):
            server.data.mkdir(parents=True)
            server.log.write_text("what a server said")
        return story(demo)

    monkeypatch.setattr(DemoRun, "run", run)
    return main([])


@pytest.mark.parametrize("story", [_stuck, _differs])
def test_one_that_fails_keeps_its_logs_and_names_them(
    temporary: Path,
    story: Callable[[DemoRun], bool],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _play(story, monkeypatch) == 1
    (folder,) = temporary.glob("dm-demo-*")
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"the demo failed; its files are kept in {folder}, the logs of dm in {folder}/home/log"
    )
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {
        "home/log/dm-worker.log", "shop-1/server.log", "shop-2/server.log", "target/server.log",
    }  # fmt: skip
    assert not list(folder.glob("*/data"))


@pytest.mark.parametrize(("story", "status"), [(_interrupted, 130), (_identical, 0)])
def test_others_leave_nothing(
    temporary: Path, story: Callable[[DemoRun], bool], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _play(story, monkeypatch) == status
    assert not list(temporary.glob("dm-*"))
