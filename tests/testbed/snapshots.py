"""What a command says, word by word: snapshots are texts beside the tests.

A snapshot holds the exit status, what is printed and what goes to stderr. `{name}` stands for what differs from run to
run: a text that the test knows, or a pattern where no test can know the text (a rate, a lag). Layout is not compared:
names of another length move it. So runs of blanks count as one, a folded finding as one line, and a list of checks has
no head, which it loses where it does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

Known = str | int | re.Pattern[str]

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_HEAD_OF_CHECKS = "state item where finding"
_FOLD = "    "  # begins the lines of a finding that fills more than one


class Ended(Protocol):
    """How a command ended."""

    @property
    def status(self) -> int: ...
    @property
    def out(self) -> str: ...
    @property
    def err(self) -> str: ...


class Snapshots:
    """The snapshots of a directory; `known` is put into all of them."""

    def __init__(self, directory: Path, **known: Known) -> None:
        self._directory = directory
        self._known = known

    def demand(self, name: str, ended: Ended, **known: Known) -> None:
        """Fail unless the command said what the snapshot says."""
        text = (self._directory / f"{name}.txt").read_text(encoding="utf-8")
        said = lines_of(as_text(ended))
        assert said == filled(lines_of(text), said, {**self._known, **known}), as_text(ended)


def as_text(ended: Ended) -> str:
    """As it is written to a snapshot."""
    parts = [f"exit status {ended.status}\n"]
    parts += [f"--- {name}\n{text}" for name, text in (("stdout", ended.out), ("stderr", ended.err)) if text]
    return "".join(parts)


def lines_of(text: str) -> list[str]:
    """Its lines, however wide columns and findings are."""
    lines: list[str] = []
    for line in text.splitlines():
        words = " ".join(line.split())
        if line.startswith(_FOLD) and lines:
            lines[-1] += f" {words}"
        elif words != _HEAD_OF_CHECKS:
            lines.append(words)
    return lines


def filled(lines: list[str], said: list[str], known: Mapping[str, Known]) -> list[str]:
    """The lines of a snapshot with what is known put in; one that what was said fits becomes what was said."""
    result = []
    for number, line in enumerate(lines):
        there = said[number] if number < len(said) else ""
        fits = re.fullmatch(_put_in(line, known, re.escape, lambda pattern: pattern.pattern), there)
        result.append(there if fits else _put_in(line, known, str, lambda pattern: f"({pattern.pattern})"))
    return result


def _put_in(
    line: str, known: Mapping[str, Known], text: Callable[[str], str], pattern: Callable[[re.Pattern[str]], str]
) -> str:
    parts = []
    for number, piece in enumerate(_PLACEHOLDER.split(line)):
        if number % 2 == 0:
            parts.append(text(piece))
            continue
        value = known[piece]
        parts.append(pattern(value) if isinstance(value, re.Pattern) else text(str(value)))
    return "".join(parts)
