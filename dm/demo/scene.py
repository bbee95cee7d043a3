"""What a workload plays: tables, and random transactions on them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

Statement = tuple[str, tuple[object, ...]]  # SQL with %s and what goes there


class Scene(Protocol):
    """Tables of one schema on one upstream, and what happens to them. Not for use by two threads at once."""

    schema: str

    def create(self) -> Sequence[str]:
        """The statements that create schema and tables."""
        ...

    def transaction(self, chance: random.Random) -> Sequence[Statement]:
        """The statements of one random transaction, its BEGIN and COMMIT left out; any of them may match no row."""
        ...

    def alter(self) -> str:
        """The next DDL statement with several operations; later transactions use what it adds."""
        ...
