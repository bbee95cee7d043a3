"""Writes docs/errors.md from the catalogue, so that the page can't say anything else than the program.

Run it after a change in dm/errors; a test compares the page with what this would write.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from string import Formatter
from typing import Final

from dm.errors import CATALOGUE
from dm.errors.kind import ErrorKind

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "errors.md"
COMMAND: Final = ".venv/bin/python scripts/document_errors.py"

_WHERE: Final = {"upstream": "source", "downstream": "target", "internal": "dm", "not-set": "any"}
_WITHOUT_TASK: Final = ("config", "dmctl", "task-check")

_HEAD: Final = f"""# Errors

<!-- Written by `{COMMAND}` from the catalogue in dm/errors; do not edit. -->

An error has DM's number where DM has one, else a number from 900 up of the same class. `query-status` and
`--output json` show it in DM's form: `ErrCode`, `ErrClass`, `ErrScope`, `ErrLevel`, `Message`, `RawCause` (the words of
the server or of the system), `Workaround`. A number by which DM means many errors is not used: a dump's failures have
numbers of their own in place of 32001, and DDL that is not understood is 36067, never 11006.

*Again*: `yes` where the task is tried again by itself, after 1 s, then 2 s, up to `backoff-max` of the source file;
`no` where it rests until `dmctl resume-task`; nothing where no task runs. Words in braces stand for details.
"""


def page() -> str:
    """The whole page."""
    classes: dict[str, list[ErrorKind]] = {}
    for kind in sorted(CATALOGUE.values(), key=lambda kind: kind.code):
        classes.setdefault(kind.error_class, []).append(kind)
    sections = [_section(name, kinds) for name, kinds in classes.items()]
    return "\n".join([_HEAD, *sections])


def _section(name: str, kinds: Iterable[ErrorKind]) -> str:
    lines = [f"## {name}", "", "| code | name | where | again | message | what to do |", "|---|---|---|---|---|---|"]
    for kind in kinds:
        again = "" if name in _WITHOUT_TASK else "yes" if kind.retryable else "no"
        lines.append(
            f"| {kind.code} | `{kind.name}` | {_WHERE[kind.scope]} | {again} | {_cell(kind.message)} |"
            f" {_cell(kind.workaround)} |"
        )
    return "\n".join([*lines, ""])


def _cell(template: str) -> str:
    """A template as text of one cell."""
    text = "".join(
        literal + ("" if field is None else f"{{{field}}}") for literal, field, _, _ in Formatter().parse(template)
    )
    return text.replace("|", "\\|").replace("\n", " ").rstrip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
