"""The documents as text, and what can be taken out of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "README.md"
OPERATIONS = ROOT / "docs" / "operations.md"
FAILING_TASKS = ROOT / "docs" / "failing-tasks.md"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
DECISIONS = ROOT / "docs" / "decisions"
DOCUMENTS = (README, ARCHITECTURE, *sorted((ROOT / "docs").glob("*.md")), *sorted(DECISIONS.glob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VERB = re.compile(r"\bdmctl[`\"]? ((?:operate-source )?[a-z]+(?:-[a-z]+)*)")
_PROSE = re.compile(r"`[^`\n]+`")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """What a reader would type, line by line."""
        return [line.removeprefix("$ ") for line in self.text.splitlines() if line.startswith("$ ")]


def blocks(text: str) -> list[Block]:
    """All fenced blocks, in order."""
    return [Block(language, content) for language, content in _FENCE.findall(text)]


def section(text: str, title: str) -> str:
    """The part under a heading of the second level."""
    return text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def walk(title: str) -> list[str]:
    """The files that a walk of ARCHITECTURE.md lists: `dm/folder/  module module`, or `dm/folder/module.py`."""
    (picture,) = blocks(section(ARCHITECTURE.read_text(encoding="utf-8"), title))
    found: list[str] = []
    for line in picture.text.splitlines():
        words = line.split()
        for at, word in enumerate(words):
            if word.startswith("dm/"):
                folder = word
                found += [folder] if folder.endswith(".py") else [f"{folder}{name}.py" for name in words[at + 1 :]]
    return found


def code(text: str) -> list[str]:
    """Everything that is set as code: commands of blocks, and words in backquotes."""
    commands = [command for block in blocks(text) for command in block.commands]
    words = [word.strip("`") for word in _PROSE.findall(_FENCE.sub("", text))]
    return commands + words


def verbs(text: str) -> set[str]:
    """The verbs of `dmctl` that a text names as code."""
    return {verb for piece in code(text) for verb in _VERB.findall(piece)}


def paragraphs(text: str) -> list[str]:
    """Paragraphs, list items and rows of tables outside of blocks, each on one line."""
    plain = _FENCE.sub("\n", text)
    pieces = re.split(r"\n\s*\n|\n(?=[-|] ?)", plain)
    return [" ".join(piece.split()) for piece in pieces if piece.strip()]
