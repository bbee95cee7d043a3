"""What a session at a TiDB needs besides, so that counts, locks and commits mean there what they mean elsewhere.

- `tidb_txn_mode`: pessimistic. In an optimistic transaction a row that is there already is found at COMMIT, a count is
  that of a snapshot, and the lane's row keeps nobody waiting. DM's own files ask for optimistic ones; that is left
  aside, as `tidb_txn_mode` is not for speed here: lanes never write each other's rows.
- Rows with the same key are found by their statement (`.._check_in_place_pessimistic`), not at COMMIT.
- Nothing is divided into transactions of its own (`tidb_batch_..`, `tidb_dml_type`), and no read is of the past.
- A key that a TiDB would draw at random (AUTO_RANDOM) may be written, as the source has one.
- Who reads after a COMMIT sees it, and what came before it (`tidb_guarantee_linearizability`).
- Of the variables that every server has, those that a TiDB heeds and some version may not have.

What a version does not have yet, or has no more, it is not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIXED: Final[Mapping[str, str]] = {
    "tidb_txn_mode": "pessimistic",
    "tidb_constraint_check_in_place_pessimistic": "ON",
    "tidb_disable_txn_auto_retry": "ON",
    "tidb_guarantee_linearizability": "ON",
    "tidb_low_resolution_tso": "OFF",
    "tidb_read_staleness": "0",
    "tidb_snapshot": "",
    "tidb_replica_read": "leader",
    "tidb_dml_type": "STANDARD",
    "tidb_batch_commit": "OFF",
    "tidb_batch_insert": "OFF",
    "tidb_batch_delete": "OFF",
    "allow_auto_random_explicit_insert": "ON",
    "tidb_enable_external_ts_read": "OFF",
    "tidb_read_consistency": "strict",
    "group_concat_max_len": str(1 << 24),
    "div_precision_increment": "4",
    "default_week_format": "0",
    "block_encryption_mode": "aes-128-ecb",
}
"""Variables that a `session` block does not change, with their values."""


def question() -> str:
    """The query for what the session has of these."""
    names = ", ".join(f"'{name}'" for name in FIXED)
    return f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})"


def corrections(found: Mapping[str, str]) -> str:
    """The statement that puts right what differs; empty where nothing does."""
    changed = [
        f"SESSION {name} = '{value}'"
        for name, value in FIXED.items()
        if name in found and found[name].upper() != value.upper()
    ]
    return f"SET {', '.join(changed)}" if changed else ""
