"""Statements that end with a list of rows, as few of them as their limits allow."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator


def statements(
    head: bytes, rows: Iterable[bytes], tail: bytes, largest: int, separator: bytes = b",", most: int = sys.maxsize
) -> Iterator[tuple[bytes, int]]:
    """Statements of at most `largest` bytes where rows allow it, each with its number of rows: `most` at most."""
    pending: list[bytes] = []
    size = len(head) + len(tail)
    for row in rows:
        if pending and (size + len(row) + len(separator) > largest or len(pending) == most):
            yield head + separator.join(pending) + tail, len(pending)
            pending = []
            size = len(head) + len(tail)
        pending.append(row)
        size += len(row) + len(separator)
    if pending:
        yield head + separator.join(pending) + tail, len(pending)
