"""Which errors put tables aside (`on-error: table`): known ones, that a person has to mend."""

from __future__ import annotations

from dm.errors import CATALOGUE, DMError
from dm.errors.joining import OF_TABLES
from dm.sourcelog.stream.reader import concerns_event
from dm.syncer.joined_sync import may_leave


def test_each_is_in_the_catalogue_and_waits_for_a_person() -> None:
    assert CATALOGUE.keys() >= OF_TABLES
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
