"""How long a comparison of all rows takes, told by comparing some of them.

While a cut-over compares all rows nobody writes, so a person wants to know that time before. A part of it is the same
for any number of rows: the plan, new sessions. The sample needs all of that, too. (Spark begins before the fence, so
its start does not count.) The rest grows with the rows. So the sample compares chunks that are spread evenly over all
tables, by as many threads as there will be. The first of them also pay for new sessions and worker processes; the time
of the others is what the rest is reckoned from, by bytes.

Few chunks are compared all of them: then the time is what it took.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dm.tools.diff.chunk import Chunk
from dm.tools.diff.planner import PlannedTable

_ROW_BYTES: Final = 100  # that a row costs beside its own
_EACH: Final = 3  # chunks for each thread: one that pays for what begins, two that are timed


@dataclass(frozen=True, slots=True)
class Sample:
    """Some chunks, and how much there is beside them."""

    first: tuple[Chunk, ...]
    timed: tuple[Chunk, ...]
    left: float  # what the others cost, as a multiple of the timed ones

    @classmethod
    def of(cls, chunks: Sequence[tuple[Chunk, float]], threads: int) -> Sample:
        """From all chunks with their bytes."""
        number = min(len(chunks), _EACH * threads)
        if number == len(chunks):
            return cls(tuple(chunk for chunk, _ in chunks), (), 0.0)
        places = [at * len(chunks) // number for at in range(number)]
        first, timed = set(places[::_EACH]), [at for number, at in enumerate(places) if number % _EACH]
        others = sum(size for at, (_, size) in enumerate(chunks) if at not in first and at not in timed)
        return cls(
            tuple(chunks[at][0] for at in sorted(first)), tuple(chunks[at][0] for at in timed),
            others / max(1.0, sum(chunks[at][1] for at in timed)),
        )  # fmt: skip

    def seconds_of_all(self, taken: float, timed: float) -> float:
        """What all takes where the sample has taken so long, and the timed chunks of it."""
        return taken + timed * self.left


def sized(number: int, table: PlannedTable) -> list[tuple[Chunk, float]]:
    """The chunks of a table with about how many bytes they have."""
    assert table.compared is not None
    rows = table.estimated_rows / max(1, len(table.conditions))
    return [(chunk, max(1.0, rows) * (_ROW_BYTES + table.compared.row_bytes)) for chunk in table.chunks(number)]
