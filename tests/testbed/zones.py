"""A time zone with summers that a server knows by name, without the zones of the machine."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dm.demo.private_server import PrivateServer

SUMMER: Final = "dm/Summer"
NUMBER: Final = 4711
BACK: Final = timegm((2021, 10, 28, 1, 0, 0))
"""When the clock of 2021 goes back from 03:00 to 02:00: the hours before and after it have the same local times."""


def know_summer(server: PrivateServer, name: str = SUMMER) -> None:
    """Have the server know the zone: an hour east of UTC, and two from March to October.

    A server never forgets a zone that it has found, so a test of what is not known takes another name.
    """
    changes = [
        (timegm((year, month, 28, 1, 0, 0)), kind) for year in range(1971, 2037) for month, kind in ((3, 1), (10, 0))
    ]
    values = ", ".join(f"({NUMBER}, {moment}, {kind})" for moment, kind in changes)
    server.execute(
        "SET SESSION sql_log_bin = 0",
        f"REPLACE INTO mysql.time_zone_name VALUES ('{name}', {NUMBER})",
        f"REPLACE INTO mysql.time_zone VALUES ({NUMBER}, 'N')",
        f"REPLACE INTO mysql.time_zone_transition_type VALUES ({NUMBER}, 0, 3600, 0, 'WIN'),"
        f" ({NUMBER}, 1, 7200, 1, 'SUM')",
        f"REPLACE INTO mysql.time_zone_transition VALUES {values}",
    )


@contextmanager
def globally(server: PrivateServer, **values: str) -> Iterator[None]:
    """The server with other global values meanwhile; texts as SQL has them."""
    before = {name: server.query(f"SELECT @@GLOBAL.{name}")[0][0] for name in values}
    server.execute(*(f"SET GLOBAL {name} = {value}" for name, value in values.items()))
    try:
        yield
    finally:
        server.execute(*(f"SET GLOBAL {name} = {value!r}" for name, value in before.items()))
