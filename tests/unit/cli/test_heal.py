"""What `dmctl heal` says of what it did."""

from __future__ import annotations

from typing import Any

from dm.cli.verbs.errands import heal_lines
from dm.verbs.errands import Heal

REPORT: dict[str, Any] = {
    "sources": [{"source": "one", "from": "(b.000002, 4)", "to": "(b.000002, 900)"}],
    "dryRun": False, "over": True, "chunks": 2, "differingChunks": 1, "writtenRows": 3, "tables": {"shop.orders": 3},
    "whole": {}, "gone": ["old.notes", "old.orders_2"], "goneFrom": {"old.orders_2": "shop.orders"},
    "seconds": {"comparing rows": 0.5},
}  # fmt: skip


def test_a_table_that_is_gone_is_told_with_what_becomes_of_its_rows() -> None:
    assert heal_lines(REPORT, Heal(task="shop"), []) == [
        "one: 1 of 2 chunks differed: 3 rows written, in 0.5 s",
        "  shop.orders: 3 rows",
        "  no longer at the source, its table at the target stays: old.notes",
        "  no longer at the source, so shop.orders keeps none of its rows: old.orders_2",
        "  go on from (b.000002, 4) with `dmctl resume-task shop`",
    ]
