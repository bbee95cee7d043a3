"""Where a second pass begins that has tables held at several places, of several servers."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import Position
from dm.progress.shards.held_shards import pass_start

OLD, NEW = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee"


def at(server: str, offset: int, gtids: str) -> Position:
    """A place after these transactions of the old server."""
    return Position(server, "b.000001", offset, GtidSet.parse(gtids.format(OLD)))


def test_the_earliest_place_is_the_start_on_whatever_server_it_is() -> None:
    first = at(OLD, 100, "{}:1")
    assert pass_start([at(NEW, 90, "{}:1-3"), first, at(OLD, 200, "{}:1-2")]) == first


def test_a_start_is_before_all_places_or_there_is_none() -> None:
    held_again, held = at(NEW, 90, "{}:1:3"), at(OLD, 200, "{}:1-2")
    for places in ([held_again, held], [held, held_again]):
        with pytest.raises(DMError) as raised:
            pass_start(places)
        assert raised.value.name == "shard-pass-elsewhere"
