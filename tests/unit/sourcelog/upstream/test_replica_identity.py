"""Who takes whose place at a source: a restarted reader its own, and nobody else's."""

from __future__ import annotations

from dm.sourcelog.upstream.connection import identity_for


def test_the_same_reader_is_the_same_and_two_are_two() -> None:
    relay = identity_for("relay", "one")
    assert relay == identity_for("relay", "one")
    others = [identity_for("task", "one"), identity_for("relay", "two"), identity_for("relay", "one", server_id=5)]
    assert len({relay.server_id, *(other.server_id for other in others)}) == 4
    assert len({relay.uuid, *(other.uuid for other in others)}) == 4, "MySQL goes by the uuid, MariaDB by the id"


def test_an_id_that_is_taken_is_avoided() -> None:
    first = identity_for("relay", "one")
    assert identity_for("relay", "one", taken={first.server_id}).server_id == first.server_id + 1
