"""Which errors put tables aside (`on-error: table`): known ones, that a person has to mend."""

from __future__ import annotations

from pathlib import Path

import dm
from dm.errors import CATALOGUE, DMError
from dm.errors.rows import KINDS as OF_ROWS
from dm.sourcelog.stream.reader import concerns_event
from dm.syncer.joined_sync import may_leave
from tests.testbed.failing_tables import CAUSES, ELSEWHERE

ROOT = Path(__file__).resolve().parents[2]
OF_TABLES = {name for name, kind in CATALOGUE.items() if kind.of_tables}


def test_each_is_of_an_event_and_waits_for_a_person() -> None:
    assert not [name for name in OF_TABLES if CATALOGUE[name].retryable]
    assert all(concerns_event(DMError(name)) for name in OF_TABLES)


def test_an_error_without_tables_or_of_the_whole_stream_pauses_the_task() -> None:
    known = DMError("row-missing")
    assert not may_leave(known)
    known.tables = frozenset({("db", "t")})
    assert may_leave(known)
    assert known.restated(cause="why").tables == known.tables
    for name in ("fenced", "connection-lost", "ddl-while-joining", "ddl-partly-wanted", "checkpoint-damaged"):
        other = DMError(name)
        other.tables = known.tables
        assert not may_leave(other), name


def test_each_is_raised_by_something() -> None:
    package = Path(dm.__file__).parent
    files = [path for path in package.rglob("*.py") if package / "errors" not in path.parents]
    source = "\n".join(path.read_text() for path in files)
    assert [name for name in sorted(OF_TABLES) if f'"{name}"' not in source] == []


def test_each_has_a_cause_on_real_servers_or_another_test() -> None:
    produced = {cause.error for cause in CAUSES.values()}
    assert produced | ELSEWHERE.keys() == OF_TABLES
    assert not produced & ELSEWHERE.keys()
    assert [name for name, file in ELSEWHERE.items() if name not in (ROOT / file).read_text()] == []


def test_no_error_of_rows_sends_a_person_to_skip_or_replace_them() -> None:
    """Rows are never skipped (36951, 36953)."""
    said = {kind.name: kind.workaround for kind in OF_ROWS}
    assert [name for name, text in said.items() if "binlog skip" in text or "binlog replace" in text] == []
