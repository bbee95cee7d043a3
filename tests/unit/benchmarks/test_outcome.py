"""A part of `make bench` that fails costs its own figures only, and nobody can take the run for a whole one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks import report, run
from benchmarks.measure import Comparison, Series, run_program
from benchmarks.outcome import Outcome

WHY = "RuntimeError: the replica did not catch up"


def _comparison(key: str) -> Comparison:
    return Comparison(key, f"what {key} does", Series("dm", "rows", [3.0]), Series("peer", "rows", [2.0]), 1.0)


def _breaks() -> Iterator[Comparison]:
    yield _comparison("first")
    raise RuntimeError("the replica did not catch up\nas its status says")


def test_the_parts_around_one_that_fails_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome()
    outcome.measure("decode A", lambda: _comparison("decode"))
    outcome.measure("ddl", _breaks)
    outcome.measure("idle", lambda: [_comparison("idle")])
    assert [each.key for each in outcome.comparisons] == ["decode", "first", "idle"]
    assert outcome.failed == {"ddl": WHY}
    assert outcome.seconds.keys() == {"decode", "ddl", "idle"}
    told = capsys.readouterr().err
    assert "ddl failed" in told
    assert "as its status says" in told


def test_a_program_that_fails_is_told_without_the_paths_of_the_machine() -> None:
    outcome = Outcome()
    outcome.attempt("diff", lambda: run_program(["/bin/sh", "-c", "exit 3"]))
    assert outcome.failed == {"diff": "sh ended with 3"}


def test_what_stops_the_run_stops_it() -> None:
    def stopped() -> Comparison:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Outcome().measure("ddl", stopped)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "performance.md"
    found.write_text("\n".join(report.marks("bench")), encoding="utf-8")
    monkeypatch.setattr(report, "PAGE", found)
    monkeypatch.setattr(report, "RESULTS", {"bench": tmp_path / "performance.json"})
    return found


def _run(monkeypatch: pytest.MonkeyPatch, fails: bool) -> int:
    def measured(outcome: Outcome, parts: Sequence[str], *_: object) -> None:
        assert parts == ["ddl", "idle"]
        if fails:
            outcome.measure("ddl", _breaks)
        outcome.measure("idle", lambda: _comparison("idle"))

    monkeypatch.setattr(run, "_measure_beside_servers", measured)
    return run.main(["--keep=bench", "--part=ddl", "--part=idle"])


def test_the_page_says_which_part_failed_and_has_the_others(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(monkeypatch, fails=True) == 1
    written = page.read_text(encoding="utf-8")
    assert f"- failed, ddl: {WHY}\n" in written
    assert "what idle does" in written
    figures = json.loads(report.RESULTS["bench"].read_text(encoding="utf-8"))
    assert figures["failed, ddl"] == WHY
    assert [each["key"] for each in figures["comparisons"]] == ["first", "idle"]


def test_a_run_without_failures_says_nothing_of_any(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(monkeypatch, fails=False) == 0
    assert "failed" not in page.read_text(encoding="utf-8")
