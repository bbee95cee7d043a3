"""`make demo` tells the whole story on servers of its own, and so does the move there and back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(600)]


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize("words", [(), ("--cut-over",)], ids=["story", "cut-over"])
def test_a_demo_ends_with_identical_rows(words: tuple[str, ...], flavor: str, tmp_path: Path) -> None:
    asked = ("demo", *words, "--flavor", flavor, "--rows", "2000", "--seconds", "8", "--seed", "7")
    done = subprocess.run(
        [sys.executable, "-m", "dm.cli.dmctl", *asked],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert ["result", "identical"] in [line.split() for line in said], done.stdout
    if words:
        assert [line for line in said if line.startswith("dmctl cut-over")] == [
            "dmctl cut-over demo", "dmctl cut-over demo --back",
        ]  # fmt: skip
        assert sum(line.startswith("the shop has sold at") for line in said) == 3
    assert not list(tmp_path.glob("dm-demo-*"))
