"""Small things together: many chunks, walks or parts in one Spark item.

Problem: a Spark task and a session of a server cost some tens of milliseconds each, a table of ten rows costs one. Ten
thousand such tables would spend their dump and their load on beginnings.

So neighbours are put together until they weigh as much as a quarter of one that is full, or until there are enough of
them that a lost item matters. What is large stays alone, unless the caller lets more be together (`most`). Each member
still is a whole of its own (a file, or a transaction with its record); an item that Spark tries again passes over what
its first attempt has left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

MOST_MEMBERS: Final = 128
MOST_WEIGHT: Final = 0.25

T = TypeVar("T")


def grouped(weighed: Iterable[tuple[T, float]], *, most: float = MOST_WEIGHT) -> list[tuple[T, ...]]:
    """Neighbours put together, in order; weights are shares of a full chunk or part, as is `most`, for a group."""
    groups: list[tuple[T, ...]] = []
    open_group: list[T] = []
    total = 0.0
    for item, weight in weighed:
        if open_group and (total + weight > most or len(open_group) == MOST_MEMBERS):
            groups.append(tuple(open_group))
            open_group, total = [], 0.0
        open_group.append(item)
        total += weight
    if open_group:
        groups.append(tuple(open_group))
    return groups
