"""`make packages`, and what `pip` makes of it on a machine that has nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_there_is_a_wheel_for_this_machine_and_one_for_each(dist: Path) -> None:
    python = "cp{}{}".format(*sys.version_info)
    tags = {path.name.split("-", 2)[2] for path in dist.glob("*.whl")}
    assert "py3-none-any.whl" in tags
    (fitting,) = tags - {"py3-none-any.whl"}
    assert fitting.startswith(f"{python}-{python}-manylinux")
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"hatch_build.py", "dm/accelerator/build.py", "docs/service.md", "LICENSE"} <= names
    assert not [name for name in names if name.endswith(".so") or name.startswith("tests/")]


def test_the_list_of_packages_has_those_of_a_host_and_no_others(dist: Path) -> None:
    told = json.loads(next(dist.glob("*.cdx.json")).read_text())
    names = {each["name"] for each in told["components"]}
    assert {"pyspark", "typer", "pymysql"} <= names
    assert not {"pytest", "mypy", "hypothesis"} & names


def test_pip_takes_the_fitting_wheel_and_the_client_has_no_spark(dist: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "one", with_pip=True)
    programs = tmp_path / "one" / "bin"
    pip = [str(programs / "pip"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--find-links", str(dist), "dm-replicator"], check=True)
    told = subprocess.run([programs / "dmctl", "--version"], capture_output=True, text=True, check=True, cwd="/")
    assert told.stdout == "dmctl 1.0.0\n"
    listed = subprocess.run([*pip, "list", "--format", "json"], capture_output=True, text=True, check=True)
    assert "pyspark" not in {each["name"].lower() for each in json.loads(listed.stdout)}
    question = "from dm.accelerator.switch import state; print(state())"
    state = subprocess.run([programs / "python", "-c", question], capture_output=True, text=True, check=True, cwd="/")
    assert state.stdout == "on\n"
