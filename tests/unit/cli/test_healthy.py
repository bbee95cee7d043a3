"""`python -m dm.cli.healthy` says whether a dm-worker answers, and never starts one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.unit.worker.home import ROOT, home


def healthy(directory: Path) -> int:
    environment = {**os.environ, "DM_HOME": str(directory), "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-m", "dm.cli.healthy"], env=environment, check=False).returncode


def test_it_is_a_daemon_that_answers_and_none_is_started(tmp_path: Path) -> None:
    with home(tmp_path / "home") as one:
        assert healthy(one.directory) == 1
        assert not (one.directory / "dm-worker.sock").exists()
        one.start()
        assert healthy(one.directory) == 0
        one.kill()
        assert healthy(one.directory) == 1
