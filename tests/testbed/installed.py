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
from importlib.metadata import distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

_REPOSITORY = Path(__file__).resolve().parents[2]


def install(directory: Path, *, client: bool = False) -> Path:
    """Build the wheel and install it below the directory; gives the folder of its programs.

    A `client` has the packages that the wheel brings without any extra, and no others.
    """
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
    here = Path(sysconfig.get_path("purelib"))
    if client:
        for name in _brought(packages):
            for file in distribution(name).files or ():
                top = file.parts[0]
                if top not in ("..", "__pycache__") and not (packages / top).exists():
                    (packages / top).symlink_to(here / top)
    else:
        (packages / "dependencies.pth").write_text(f"{here}\n")
    return programs


def _brought(packages: Path) -> set[str]:
    """The distributions that an installation of the wheel brings along."""
    (wheel,) = distributions(path=[str(packages)], name="dm-replicator")
    found: set[str] = set()
    waiting = [wheel]
    while waiting:
        wanted = map(Requirement, waiting.pop().requires or ())
        more = {each.name for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})} - found
        found |= more
        waiting += map(distribution, more)
    return found
