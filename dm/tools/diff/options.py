"""What a person asks of a comparison."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import cast

from dm.unit import JSON


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """The options of `dmctl diff`."""

    tables: tuple[str, ...] = ()  # of the target, `schema.table`; all when none is named
    where: str = ""  # a condition on the rows of both sides
    ignore_columns: tuple[str, ...] = ()
    fix_sql: str = ""  # a directory for statements that make the target equal; "" for none
    rows: int = 100_000  # of a chunk
    threads: int = 4
    max_load: int = 0  # threads that may run at a server before a chunk waits; 0 for any number
    shown: int = 20  # rows that are shown of each table
    kept_bytes: int = 64 << 20  # of differing rows that a thread keeps at a time, roughly, and that wait to be told
    resume: bool = False  # whether chunks that an unfinished comparison found equal are left out
    snapshots: tuple[str, ...] = ()  # `MOMENT`, `target=MOMENT`, `SOURCE=MOMENT`
    follows: tuple[str, ...] = ()  # sources whose changes a syncer applies meanwhile
    recent: bool = False  # only what was written since a table was found equal, where that can be known

    @property
    def asked(self) -> str:
        """A name for which rows are compared in which chunks: what a comparison that goes on must be asked, too."""
        what = [sorted(self.tables), self.where, sorted(self.ignore_columns), self.rows, sorted(self.snapshots)]
        if self.recent:
            what.append("recent")
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]

    @property
    def part(self) -> tuple[str, str]:
        """Which part of a table is compared: a name for it and words, both empty for all of it."""
        words = []
        if self.where:
            words.append(f"where {self.where}")
        if self.ignore_columns:
            words.append(f"without {', '.join(sorted(self.ignore_columns))}")
        said = "; ".join(words)
        return (hashlib.sha256(said.encode()).hexdigest()[:16] if said else "", said)

    def to_wire(self) -> dict[str, JSON]:
        """As JSON."""
        return cast(
            "dict[str, JSON]", {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}
        )

    @classmethod
    def from_wire(cls, wire: Mapping[str, JSON]) -> DiffOptions:
        """The inverse."""
        return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in wire.items()})  # type: ignore[arg-type]  # ours
