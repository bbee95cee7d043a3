"""What was found different, over several looks: rows of chunks, and structures of tables.

While a syncer applies changes, a look sees rows that only are on their way. Between two looks the target is waited for,
until it is past what the sources had at the one before. So what differs at both in the same way is different, or it has
changed and changed back: a flag that is set and cleared, a row without a key of which an equal one comes and goes. Two
looks can't tell. Where the sources' binlogs have not moved since the target was waited for, nothing is on its way, and
that look says it all. Where they have, it has to be seen in the same way four times in a row.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from dm.diff.chunk import Chunk, ChunkOutcome
from dm.diff.versions import Difference

Place = TypeVar("Place")  # a chunk, or a table
Told = TypeVar("Told")

SAME_LOOKS: Final = 4  # in a row, while the sources are written to


@dataclass
class Found:
    """What one look has found."""

    different: dict[Chunk, dict[str, Difference]] = field(default_factory=dict)  # by what a row and both versions are
    cut: dict[Chunk, tuple[Chunk, ...]] = field(default_factory=dict)  # what differs too much, and its slices
    changed: dict[int, str] = field(default_factory=dict)  # tables that are not what was planned, in a server's words
    kept: int = 0  # the most rows that were kept at a time
    size: int = 0  # bytes that the differences take, roughly

    def hear(self, outcome: ChunkOutcome) -> None:
        """What was found about a chunk."""
        self.kept = max(self.kept, outcome.kept)
        if outcome.changed:
            self.changed[outcome.chunk.table] = outcome.changed
        elif outcome.slices:
            self.cut[outcome.chunk] = tuple(replace(outcome.chunk, slice=some) for some in outcome.slices)
        elif outcome.differences:
            self.different[outcome.chunk] = {each.identity: each for each in outcome.differences}
            self.size += sum(each.size for each in outcome.differences)


class Suspects(Generic[Place, Told]):
    """What differed at the last look, by what it was, and what of it is different."""

    def __init__(self, first: Mapping[Place, Mapping[str, Told]]) -> None:
        self._looks = {place: dict.fromkeys(found, 1) for place, found in first.items()}
        self._confirmed = dict[Place, dict[str, Told]]()

    @property
    def open(self) -> list[Place]:
        """Those to be looked at again."""
        return [place for place, looks in self._looks.items() if looks]

    def look(
        self, found: Mapping[Place, Mapping[str, Told]], *, rests: bool, at: Container[Place] | None = None
    ) -> None:
        """Another look at what is open, or only at those; `rests`: all that was written by then, the target has."""
        for place in self.open:
            if at is not None and place not in at:
                continue
            known = self._confirmed.setdefault(place, {})
            seen = {identity: each for identity, each in found.get(place, {}).items() if identity not in known}
            looks = {identity: self._looks[place].get(identity, 0) + 1 for identity in seen}
            known |= {identity: each for identity, each in seen.items() if rests or looks[identity] >= SAME_LOOKS}
            self._looks[place] = {identity: number for identity, number in looks.items() if identity not in known}

    def forget(self, places: Iterable[Place]) -> None:
        """These begin anew elsewhere; what was found of them is found again."""
        for place in places:
            self._looks.pop(place, None)
            self._confirmed.pop(place, None)

    def confirmed(self) -> Iterable[tuple[Place, list[Told]]]:
        """What is different."""
        return [(place, list(found.values())) for place, found in self._confirmed.items() if found]

    def unsettled(self) -> Iterable[tuple[Place, list[str]]]:
        """What did not come to rest, or was not looked at often enough, by what it is."""
        return [(place, list(looks)) for place, looks in self._looks.items() if looks]
