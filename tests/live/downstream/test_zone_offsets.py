"""The question for a zone's offsets, which every server has to understand."""

from __future__ import annotations

import pytest

from dm.demo.private_server import PrivateServer
from dm.sql.zone_offsets import offsets_of, offsets_question
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live


@pytest.mark.parametrize("kind", ["mysql", "mariadb", pytest.param("tidb", marks=pytest.mark.tidb)])
def test_every_server_tells_a_zones_offsets(kind: str, park: ServerPark) -> None:
    server: PrivateServer = (
        park.tidb() if kind == "tidb" else park.shared("mysql" if kind == "mysql" else "mariadb", "upstream-1")
    )
    assert offsets_of(server.query(offsets_question("'+05:30'"))) == ((0, 330),)
    assert offsets_of(server.query(offsets_question("'no/zone'"))) == ()
