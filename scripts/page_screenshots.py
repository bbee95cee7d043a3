"""Writes docs/screenshots/*.png: the page of a daemon whose units say what this file has them say.

Run it after a change of the page: `make screenshots`. The browser is Debian's Chromium.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Final

from dm.clock import SystemClock
from dm.errors import DMError
from dm.unit import JSON
from dm.worker.history.curves import SLOT_SECONDS, SLOTS
from tests.testbed.browser import Watched, chromium
from tests.testbed.staged_daemon import StagedDaemon, counted_table, staged, syncing

PLACE: Final = Path(__file__).resolve().parents[1] / "docs" / "screenshots"
LARGEST: Final = 150_000  # bytes
TASKS: Final = {"shop": ("mysql-01", "mysql-02"), "billing": ("mysql-03",), "stock": ("mysql-04",)}


class _Since(SystemClock):
    """A day ago, until it is told to be now."""

    def __init__(self) -> None:
        self.before = float(SLOTS * SLOT_SECONDS)

    def time(self) -> float:
        return super().time() - self.before


def _stage(one: StagedDaemon, clock: _Since) -> None:
    for slot in range(SLOTS):
        clock.before = (SLOTS - slot) * SLOT_SECONDS
        wave = math.sin(slot / 60) ** 2
        one.operations.history.curves.feed(
            {("shop", source): (0.4 + 30 * max(0.0, wave - 0.8) * 5, 900 + 1100 * wave) for source in TASKS["shop"]}
        )
    clock.before = 0.0
    tables: list[JSON] = [counted_table(f"shop.{name}", rows) for name, rows in _TABLES.items()]
    compared: list[JSON] = [
        {"table": f"shop.{name}", "verdict": "equal", "partly": False, "began": clock.time() - 86_400}
        for name in _TABLES
    ]
    one.say("shop", "mysql-01", syncing(tables=tables, compared=compared))
    one.say("shop", "mysql-02", syncing(47.0, tables=tables))
    one.say("stock", "mysql-04", syncing(3.0, blockingDDLs=["ALTER TABLE `stock`.`items` ADD INDEX (sku)"],
                                         blockingDDLSeconds=132))  # fmt: skip
    statement = "ALTER TABLE `billing`.`invoices` ADD COLUMN tax DECIMAL(10,2)"
    cause = "(1118, 'Row size too large (> 8126)')"
    error = DMError("ddl-failed", statement=statement, position="(mysql-bin.000017, 88213)", cause=cause)
    one.fail("billing", "mysql-03", error.report())


_TABLES: Final = {"orders": 81_200, "order_lines": 304_110, "customers": 2_412, "carts": 55_871, "prices": 310}


def main() -> None:
    """Write the files; one that is too large ends the program."""
    PLACE.mkdir(exist_ok=True)
    clock = _Since()
    with tempfile.TemporaryDirectory() as directory, chromium() as browser:
        with staged(Path(directory) / "home", TASKS, clock=clock) as one:
            _stage(one, clock)
            for name, scheme, path in (("overview", "light", ""), ("task", "dark", "tasks/shop")):
                visit = Watched(browser, viewport={"width": 1000, "height": 760}, color_scheme=scheme)
                visit.log_in(one.url, one.token)
                visit.page.goto(f"{one.url}/page/{path}")
                file = PLACE / f"{name}.png"
                visit.page.screenshot(path=file)
                visit.close()
                if file.stat().st_size > LARGEST:
                    raise SystemExit(f"{file} has more than {LARGEST} bytes")


if __name__ == "__main__":
    main()
