"""A snapshot demands every word and takes any layout."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.testbed.snapshots import Known, Snapshots


@dataclass(frozen=True)
class _Ended:
    status: int = 1
    out: str = "fail  access  source one (127.0.0.1:3306)\n    'dm'@'%' lacks\n    SELECT\n7 rows, 3 s\n"
    err: str = "Error 1: no\n  cause: {braces}\n"


SNAPSHOT = """\
exit status 1
--- stdout
state item   where             finding
fail  access source one ({at}) 'dm'@'%' lacks SELECT
7 rows, {seconds} s
--- stderr
Error 1: no
  cause: {cause}
"""
KNOWN: dict[str, Known] = {"at": "127.0.0.1:3306", "seconds": re.compile("[0-9]+"), "cause": "{braces}"}


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    (tmp_path / "said.txt").write_text(SNAPSHOT, encoding="utf-8")
    return Snapshots(tmp_path, **KNOWN)


def test_what_was_said_fits(snapshots: Snapshots) -> None:
    snapshots.demand("said", _Ended())
    snapshots.demand("said", _Ended(out=_Ended.out.replace("\n    'dm'", "  'dm'").replace("3 s", "30 s")))


@pytest.mark.parametrize(
    "ended",
    [
        _Ended(status=2),
        _Ended(err=""),
        _Ended(out=_Ended.out + "more\n"),
        _Ended(out=_Ended.out.replace("7 rows, 3 s\n", "")),
        _Ended(out=_Ended.out.replace("SELECT", "SELECT.")),
        _Ended(out=_Ended.out.replace("7", "8")),
        _Ended(out=_Ended.out.replace("3 s", "- s")),
        _Ended(out=_Ended.out.replace("3306", "3307")),
        _Ended(err=_Ended.err.replace("{braces}", "{cause}")),
    ],
)
def test_any_other_word_fails(snapshots: Snapshots, ended: _Ended) -> None:
    with pytest.raises(AssertionError):
        snapshots.demand("said", ended)


def test_a_name_that_nobody_knows_is_a_mistake_of_the_test(tmp_path: Path) -> None:
    (tmp_path / "said.txt").write_text("exit status {code}\n", encoding="utf-8")
    with pytest.raises(KeyError):
        Snapshots(tmp_path).demand("said", _Ended())
