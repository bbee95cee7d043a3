"""dm as somebody has it who installed its wheel: in an environment of its own, without the repository.

Its dependencies come from the environment that runs the tests, by a path; files that make an editable installation
known are not read there, so `dm` is the wheel's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[2]


def install(directory: Path) -> Path:
    """Build the wheel and install it below the directory; gives the folder of its programs."""
    # Without a compiler in the path the wheel is the plain one, which is quick to build.
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory / "dist")],
        cwd=_REPOSITORY, env={**os.environ, "PATH": ""}, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = (directory / "dist").glob("*.whl")
    place = directory / "environment"
    venv.create(place, symlinks=True)
    programs = place / "bin"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--quiet",
         "--disable-pip-version-check", "--no-index", "--no-deps", str(wheel)],
        check=True, capture_output=True,
    )  # fmt: skip
    (packages,) = place.glob("lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return programs
