"""The extension is built where it can be, chosen by the environment, and missed by nobody."""

from __future__ import annotations

import os
import pkgutil
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from dm.accelerator import build
from tests.testbed.decoders import compiled

# What no Python of dm stands for: zlib's sum, the module itself, and what others write into.
WITHOUT_TWIN = {"crc32", "module", "text_buffer"}


def state(directory: Path, **environment: str) -> str:
    """What a process says that has this environment."""
    done = subprocess.run(
        [sys.executable, "-c", "from dm.accelerator import switch; print(switch.state())"],
        env={**os.environ, **environment},
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def _possible() -> None:
    if not shutil.which("cc") or not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        pytest.skip("there is no C compiler, or there are no headers of Python")


@pytest.mark.usefixtures("_possible")
def test_it_is_built_where_it_can_be(tmp_path: Path) -> None:
    made = build.build(tmp_path, ("-O0",))  # in a third of the time
    assert made.stat().st_size
    assert [path.name for path in tmp_path.iterdir()] == [made.name]
    assert compiled() is not None, "run make install"
    assert build.current(), "its sources are newer: run make install"


def test_the_environment_turns_it_off() -> None:
    root = Path(__file__).parents[3]
    assert state(root, DM_ACCELERATOR="off") == "off: DM_ACCELERATOR says so"
    if compiled() is not None:
        assert state(root, DM_ACCELERATOR="on") == "on"


@pytest.mark.usefixtures("_possible")
def test_one_of_other_sources_is_left_out_and_built_anew(tmp_path: Path) -> None:
    package = Path(build.__file__).parents[1]
    shutil.copytree(package, tmp_path / "dm", ignore=shutil.ignore_patterns("__pycache__"))
    make = [sys.executable, "-m", "dm.accelerator.build"]
    quick = tmp_path / "cc"
    quick.write_text('#!/bin/sh\nexec cc "$@" -O0\n', encoding="utf-8")  # in a third of the time
    quick.chmod(0o755)
    environment = {**os.environ, "CC": str(quick)}
    subprocess.run(make, cwd=tmp_path, check=True, env=environment)
    assert state(tmp_path, PYTHONPATH=str(tmp_path), DM_ACCELERATOR="on") == "on"
    source = tmp_path / "dm/accelerator/json_decoder.c"
    before = source.stat()
    source.write_text(source.read_text() + "\n", encoding="utf-8")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a checkout or a copy may leave it
    said = state(tmp_path, PYTHONPATH=str(tmp_path), DM_ACCELERATOR="on")
    assert said.startswith("off: it is made of other sources")
    subprocess.run(make, cwd=tmp_path, check=True, env={**environment, "PYTHONPATH": str(tmp_path)})
    assert state(tmp_path, PYTHONPATH=str(tmp_path), DM_ACCELERATOR="on") == "on"


def test_what_is_missing_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.NotBuilt, match="there is no C compiler"):
        build.build(tmp_path)


@pytest.mark.usefixtures("_possible")
def test_a_compiler_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(build.NotBuilt, match="failed"):
        build.build(tmp_path, ["--no-such-option"])
    assert not list(tmp_path.iterdir())


def test_a_package_in_an_archive_finds_it_beside_the_archive(tmp_path: Path) -> None:
    """So it is on the workers of a cluster."""
    package = Path(build.__file__).parents[1]
    with zipfile.ZipFile(tmp_path / "dm.zip", "w") as archive:
        for source in package.rglob("*.py"):
            archive.write(source, source.relative_to(package.parent))
    paths = {"PYTHONPATH": str(tmp_path / "dm.zip"), "DM_ACCELERATOR": "on"}
    assert state(tmp_path, **paths) == "off: it was not built"
    if compiled() is not None:
        shutil.copy(build.target(), tmp_path)
        assert state(tmp_path, **paths) == "on"


def test_a_c_file_is_named_like_its_twin() -> None:
    """A module of dm or a function in one, which the file's first comment names."""
    for file in build.SOURCES.glob("*.c"):
        comment = file.read_text(encoding="utf-8").partition("*/")[0]
        twins = [name for name in re.findall(r"`(dm\.[\w.]+)`", comment) if file.stem in name.split(".")]
        assert bool(twins) is (file.stem not in WITHOUT_TWIN), file.name
        for name in twins:
            assert pkgutil.resolve_name(name) is not None
