"""Rows of a chunk that are read together: those of some buckets, as few as fit into memory.

A bucket is a number that all versions of a row share: the first digits of the hash of its key. Numbers of more digits
cut a bucket into sixteen. In the end a slice is the rows of one key, and of equal rows without a key one is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dm.mysql.equality.checksum import BUCKET_DIGITS

_MOST_NUMBERS: Final = 512  # that are named in a condition
_MOST_DIGITS: Final = 12  # what CONV takes exactly, and far more than there are rows


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows with these numbers of so many hexadecimal digits."""

    numbers: tuple[int, ...]
    digits: int = BUCKET_DIGITS

    @property
    def halves(self) -> tuple[Slice, ...]:
        """Two parts of it; none where it can't be cut any more."""
        numbers, digits = self.numbers, self.digits
        if len(numbers) == 1:
            if digits == _MOST_DIGITS:
                return ()
            numbers, digits = tuple(numbers[0] * 16 + digit for digit in range(16)), digits + 1
        half = len(numbers) // 2
        return Slice(numbers[:half], digits), Slice(numbers[half:], digits)


def cut(rows: Mapping[int, int], most: int) -> Iterator[Slice]:
    """Slices of buckets with so many rows each; one that has more than `most` alone is left to `halves`."""
    numbers: list[int] = []
    total = 0
    for number in sorted(rows):
        if numbers and (total + rows[number] > most or len(numbers) == _MOST_NUMBERS):
            yield Slice(tuple(numbers))
            numbers, total = [], 0
        numbers.append(number)
        total += rows[number]
    if numbers:
        yield Slice(tuple(numbers))
