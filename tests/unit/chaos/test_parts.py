"""Every test file is in one part, and a part counts as passed on the code that it passed on only."""

from dataclasses import replace
from pathlib import Path

from tests.chaos.parts import PARTS, files_of, owner, part_of
from tests.chaos.parts import test_files as all_files
from tests.chaos.results import PartResult, left, load, state, store

PASSED = PartResult("c1", dirty=False, ok=True, passed=3, failed=0, seconds=9, date="2026-01-01")


def same(commit: str) -> bool:
    return commit == "c1"


def test_every_file_is_in_one_part_and_no_path_leads_nowhere() -> None:
    files = all_files()
    found = [file for part in PARTS for file in files_of(part, files)]
    assert sorted(found) == files
    for part in PARTS:
        for path in part.paths:
            assert any(owner(file) is part and file.startswith(path) for file in files), path


def test_the_more_exact_path_decides() -> None:
    assert owner("tests/live/syncer/convergence/test_convergence.py").name == "convergence"
    assert owner("tests/live/syncer/test_new.py").name == "syncer"
    assert owner("tests/live/new/test_new.py").name == "rest"


def test_parts_have_numbers_and_names_and_an_hour() -> None:
    assert [part_of(str(number + 1)) for number in range(len(PARTS))] == list(PARTS)
    assert [part_of(part.name) for part in PARTS] == list(PARTS)
    assert all(part.minutes <= 60 for part in PARTS)


def test_what_failed_or_was_dirty_or_other_code_is_left(tmp_path: Path) -> None:
    page = tmp_path / "result.json"
    for part, result in zip(
        PARTS,
        (PASSED, replace(PASSED, ok=False, failed=1), replace(PASSED, dirty=True), replace(PASSED, commit="c2")),
        strict=False,
    ):
        store(part.name, result, page)
    results = load(page)
    assert left(results, same) == list(PARTS[1:])
    lines = state(results, same)
    assert "passed on c1 (3 passed, 0 failed, 9 s, 2026-01-01)" in lines[0]
    assert "FAILED on c1" in lines[1]
    assert "uncommitted" in lines[2]
    assert "other code" in lines[3]
    assert "never run" in lines[4]
