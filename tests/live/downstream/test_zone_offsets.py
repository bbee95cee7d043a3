"""The question for a zone's offsets, which every server has to understand."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.session.state import WEEKS, Offsets, offset_name, offset_named, offsets_of, offsets_question
from dm.sourcelog.upstream.connection import connect, read_source_settings
from tests.testbed.general_log import logged
from tests.testbed.park import ServerPark
from tests.testbed.sync import endpoint_of
from tests.testbed.zones import SUMMER, globally, know_summer

pytestmark = pytest.mark.live

FIRST: Final = datetime(1970, 1, 8, 12, tzinfo=UTC)


@pytest.mark.parametrize("kind", ["mysql", "mariadb", pytest.param("tidb", marks=pytest.mark.tidb)])
def test_every_server_tells_a_zones_offsets(kind: str, park: ServerPark) -> None:
    server: PrivateServer = (
        park.tidb() if kind == "tidb" else park.shared("mysql" if kind == "mysql" else "mariadb", "upstream-1")
    )
    assert offsets_of(server.query(offsets_question("'+05:30'"))) == ((0, 330),)
    assert offsets_of(server.query(offsets_question("'no/zone'"))) == ()
    if kind == "tidb":
        berlin = server.query(offsets_question("'Europe/Berlin'"))
        assert (100 < len(berlin) < 200, {minutes for _, minutes in offsets_of(berlin)}) == (True, {60, 120})


def summers() -> Offsets:
    """Those of the zone that `know_summer` makes, week by week by its own rule."""
    found = list[tuple[int, int]]()
    for week in range(WEEKS):
        moment = FIRST + timedelta(weeks=week)
        since, until = (datetime(moment.year, month, 28, 1, tzinfo=UTC) for month in (3, 10))
        minutes = 120 if 1971 <= moment.year <= 2036 and since <= moment < until else 60
        if not found or found[-1][1] != minutes:
            found.append((week, minutes))
    return tuple(found)


def test_a_zone_with_a_name_is_known_by_its_offsets(upstream: ThrowawayServer) -> None:
    know_summer(upstream)
    with globally(upstream, time_zone=f"'{SUMMER}'"), closing(connect(endpoint_of(upstream))) as session:
        settings = read_source_settings(session)
    assert (settings.zone, settings.offsets) == (SUMMER, summers())
    # Not each week's: a start of a task would wait for thousands of rows.
    assert len(upstream.query(offsets_question(f"'{SUMMER}'"))) == len(summers()) == 133


@pytest.mark.parametrize(("zone", "minutes"), [("+00:00", 0), ("-07:30", -450), ("+05:45", 345)])
def test_a_zone_that_is_its_offset_is_not_asked_for(upstream: ThrowawayServer, zone: str, minutes: int) -> None:
    with (
        globally(upstream, time_zone=f"'{zone}'"),
        logged(upstream) as sent,
        closing(connect(endpoint_of(upstream))) as session,
    ):
        settings = read_source_settings(session)
    assert settings.offsets == offsets_of(upstream.query(offsets_question(f"'{zone}'"))) == ((0, minutes),)
    assert not any("CONVERT_TZ" in each.text for each in sent)
    assert (offset_name(minutes), offset_named("SYSTEM")) == (zone, ())
