"""A place that a person says, on the server that is read."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import Position
from dm.tools.validator.throttle import CutoverPlace

HERE = Position("uuid", "binlog.000003", 900, GtidSet.parse("0-1-9", "mariadb"))


def test_a_place_is_one_of_the_server_that_is_read() -> None:
    place = CutoverPlace.checked("(binlog.000003, 800)", "").position(HERE)
    assert place == Position("uuid", "binlog.000003", 800)
    assert HERE.covers(place)


def test_a_gtid_set_is_reached_by_what_has_it() -> None:
    for gtids, reached in (("0-1-9", True), ("0-1-10", False)):
        place = CutoverPlace.checked("", gtids).position(HERE)
        assert place is not None
        assert HERE.covers(place) is reached


def test_nothing_said_is_no_place() -> None:
    assert CutoverPlace.checked("", "").position(HERE) is None


@pytest.mark.parametrize(("place", "gtid"), [("binlog.000003:800", ""), ("(binlog.000003)", ""), ("", "nonsense")])
def test_what_is_no_place_is_refused(place: str, gtid: str) -> None:
    with pytest.raises(DMError) as refused:
        CutoverPlace.checked(place, gtid)
    assert refused.value.name == "validator-bad-place"
