"""The archive of Spark's classes: which one is asked for, and what a JVM is told of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dm.spark.java import archive_path, java_options, java_version


def java(home: Path, version: str) -> Path:
    """A JAVA_HOME whose `java -version` tells this one."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    binary.chmod(0o755)
    return home


def test_another_java_or_another_spark_asks_for_another_archive(tmp_path: Path) -> None:
    first = archive_path(java(tmp_path / "a", "17.0.1"), tmp_path / "spark")
    assert first == archive_path(java(tmp_path / "b", "17.0.1"), tmp_path / "spark")
    others = {
        archive_path(java(tmp_path / "c", "17.0.2"), tmp_path / "spark"),
        archive_path(tmp_path / "a", tmp_path / "other"),
    }
    assert len(others) == 2
    assert first not in others
    assert first.is_relative_to(sys.prefix)


def test_a_java_that_says_its_build_in_a_file_is_not_started_for_it(tmp_path: Path) -> None:
    homes = [java(tmp_path / name, "11.0.2") for name in ("a", "b", "c")]
    for home, build in zip(homes, ("17.0.1+1", "17.0.1+2", ""), strict=True):
        (home / "release").write_text(f'JAVA_RUNTIME_VERSION="{build}"\nJAVA_VERSION="17.0.1"\n' if build else "")
    assert [java_version(home / "bin" / "java") for home in homes] == [17, 17, 11]
    assert len({archive_path(home, tmp_path / "spark") for home in homes}) == 3
    (homes[0] / "bin" / "java").chmod(0o644)
    assert java_version(homes[0] / "bin" / "java") is None


@pytest.mark.parametrize(("name", "used"), [("classes.jsa", True), ("my classes.jsa", False)])
def test_a_jvm_is_told_of_an_archive_that_is_there_and_whose_name_its_options_can_hold(
    tmp_path: Path, name: str, used: bool
) -> None:
    archive = tmp_path / name
    assert java_options(archive) == ""
    archive.touch()
    assert (str(archive) in java_options(archive)) is used
