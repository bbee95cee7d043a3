"""`collation-map` and `engine-map`: names that the target has instead of the source's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from dm.config.scalar import matching
from dm.config.section import Issue

Collation = Annotated[str, matching(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)+", "config-bad-value", "the name of a collation")]
Engine = Annotated[str, matching(r"[A-Za-z0-9_]+", "config-bad-value", "the name of a storage engine")]

CollationMap = dict[str, Collation]
EngineMap = dict[str, Engine]


def charset_changes(collations: Mapping[str, str]) -> Iterator[Issue]:
    """Pairs of collations that belong to different character sets: those would change what the bytes of a text mean."""
    for name, other in collations.items():
        if _charset(name) != _charset(other):
            value = {"value": f"`{name}: {other}`"}
            yield Issue("config-bad-value", "collation-map", "two collations of one character set", details=value)


def _charset(collation: str) -> str:
    charset = collation.lower().partition("_")[0]
    return "utf8mb3" if charset == "utf8" else charset
