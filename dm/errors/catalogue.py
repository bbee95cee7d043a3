"""The one catalogue: every kind of error, collected from one file per part of the system, names and codes unique."""

from __future__ import annotations

from collections.abc import Iterable

from dm.errors import (
    binlog,
    cluster,
    config,
    cutover,
    ddl,
    full,
    general,
    joining,
    progress,
    relay,
    rows,
    shard,
    target,
    tools,
    transactions,
    worker,
)
from dm.errors.kind import ErrorKind


def _collect(*parts: Iterable[ErrorKind]) -> dict[str, ErrorKind]:
    collected: dict[str, ErrorKind] = {}
    codes: dict[int, str] = {}
    for part in parts:
        for kind in part:
            if kind.name in collected or kind.code in codes:
                raise ValueError(f"error {kind.name} ({kind.code}) is in the catalogue twice")
            collected[kind.name] = kind
            codes[kind.code] = kind.name
    return collected


CATALOGUE = _collect(
    general.KINDS,
    config.KINDS,
    binlog.KINDS,
    relay.KINDS,
    shard.KINDS,
    joining.KINDS,
    cutover.KINDS,
    ddl.KINDS,
    rows.KINDS,
    target.KINDS,
    progress.KINDS,
    transactions.KINDS,
    worker.KINDS,
    cluster.KINDS,
    full.KINDS,
    tools.KINDS,
)
