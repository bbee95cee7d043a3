"""DDL as users write it, in corpus_sql: scripts that start from nothing and are run statement by statement.

A line is a statement, a line that begins with two spaces continues the one before, and `--` alone ends a script.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dm.mysql.dialect import Flavor

_FOLDER: Final = Path(__file__).parent / "corpus_sql"


def _scripts(name: str) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in (_FOLDER / f"{name}.sql").read_text().splitlines():
        if line == "--":
            found.append([])
        elif line.startswith("  "):
            found[-1][-1] += "\n" + line
        elif line:
            found[-1].append(line)
    return found


def scripts(flavor: Flavor) -> list[list[str]]:
    """The scripts of a server, each a list of statements."""
    return _scripts("both") + _scripts(flavor)


def sessions() -> list[list[str]]:
    """Scripts that change the session they run in."""
    return _scripts("sessions")


COUNT: Final = len(scripts("mysql"))
assert len(scripts("mariadb")) == COUNT
