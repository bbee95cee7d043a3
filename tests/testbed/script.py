"""SQL scripts of test cases: statements, and lines that direct the test.

A statement ends at a semicolon at the end of a line. `@{name}` stands for a value that the case knows. Directions:

-- only mysql              the next statement is for this flavour alone
-- mark                    remember the source's binlog position here
-- on source2              what follows goes to that server (source1, source2, target)
-- wait synced             until the target has everything
-- wait paused             until a subtask is paused by an error that no waiting will heal
-- dmctl pause-task x      run dmctl with these words, quoted as for a shell; it must succeed
-- kill host | daemon      SIGKILL all unit hosts, or the daemon and what dies with it; the daemon is started again
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_VALUE = re.compile(r"@\{([a-z0-9.-]+)\}")
_DIRECTION = re.compile(r"-- (only|mark|on|wait|dmctl|kill)\b ?(.*)")


@dataclass(frozen=True)
class Step:
    """One statement (`verb` is sql) or one direction."""

    verb: str
    text: str


def render(text: str, values: Mapping[str, str]) -> str:
    """The text with every `@{name}` replaced; an unknown name is an error."""
    return _VALUE.sub(lambda match: values[match[1]], text)


def steps(text: str, flavor: str) -> Iterator[Step]:
    """The steps of a script that are for this flavour."""
    lines: list[str] = []
    only = flavor
    for line in text.splitlines():
        direction = None if lines else _DIRECTION.fullmatch(line.rstrip())
        if direction is not None:
            if direction[1] == "only":
                only = direction[2]
            else:
                yield Step(direction[1], direction[2])
            continue
        if not lines and (not line.strip() or line.startswith("--")):
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            if only == flavor:
                yield Step("sql", "\n".join(lines).rstrip().removesuffix(";"))
            only = flavor
            lines = []
    if lines:
        raise ValueError(f"a statement without semicolon at the end of a line: {lines[0]}")
