"""Numbers of things in messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """The number and the noun, which is given in the singular."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
