"""Where a source without an owner goes. Pure: every member computes the same from the same view.

A source stays where it is: nobody moves one because another member has fewer. So a member that comes back takes what
has no owner, and no source goes to and fro. A person moves sources with `transfer-source`.

The order of candidates: first the members that a person wished for (a name, or a label as `zone=a`). Among equals, the
member with the fewest subtasks, then with the fewest sources, then by name. The wish is no condition. A task that
survives its host is worth more than the place that was wished for.

The first candidate claims at once, each further one `TURN_SECONDS` later. So a source whose first candidate can't claim
does not stay without an owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

TURN_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member that lives: its labels, and how many subtasks and sources it has."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    subtasks: int = 0
    sources: int = 0


def wished(wish: str, candidate: Candidate) -> bool:
    """Whether a wish is for this member: by its name, or by a label."""
    label, equal, value = wish.partition("=")
    return candidate.labels.get(label) == value if equal else candidate.name == wish


def in_turn(candidates: list[Candidate], wish: str = "") -> list[str]:
    """The names of members, the one that is to claim a source first."""
    ordered = sorted(
        candidates,
        key=lambda each: (not (wish and wished(wish, each)), each.subtasks, each.sources, each.name),
    )
    return [each.name for each in ordered]


def placed(orphans: Mapping[str, int], candidates: list[Candidate], wishes: Mapping[str, str]) -> dict[str, list[str]]:
    """The turns for several sources at once, given how many subtasks each has.

    One after the other, the largest first; each counts for the member that is to have it.
    """
    left = {each.name: each for each in candidates}
    turns: dict[str, list[str]] = {}
    for source in sorted(orphans, key=lambda name: (-orphans[name], name)):
        names = in_turn(list(left.values()), wishes.get(source, ""))
        turns[source] = names
        if names:
            first = left[names[0]]
            left[first.name] = Candidate(first.name, first.labels, first.subtasks + orphans[source], first.sources + 1)
    return turns
