"""A file is known by the time it was made at, from the one in which L stands."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.position import Position
from dm.sourcelog.stream.file_births import FileBirth, FileBirths, birth_from_json, birth_to_json

FIRST = FileBirth("u", "binlog.000001", 1000)
SECOND = FileBirth("u", "binlog.000002", 1005)


def test_files_come_again_as_they_were() -> None:
    births = FileBirths(FIRST)
    for birth in (FIRST, SECOND, FIRST, FileBirth("v", FIRST.file, 7)):
        births.seen(birth)
    assert births.of(Position("u", "binlog.000002", 4)) == SECOND
    assert births.of(Position("u", "binlog.000001", 4)) is None  # L is past it
    assert births.of(Position("u", "binlog.000003", 4)) is None


@pytest.mark.parametrize("stored", [FIRST, None])
def test_another_file_of_the_same_name_is_refused(stored: FileBirth | None) -> None:
    births = FileBirths(stored)
    births.seen(FIRST)
    with pytest.raises(DMError, match=r"source's binlog was reset: file binlog\.000001"):
        births.seen(FileBirth("u", "binlog.000001", 1001))


def test_what_is_stored_is_found_again() -> None:
    assert [birth_from_json(birth_to_json(birth)) for birth in (FIRST, None)] == [FIRST, None]
    assert birth_from_json("null") is None
