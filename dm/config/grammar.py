"""What is wrong with a text that is not YAML, in the words of those who write such files.

The parser speaks of tokens and collections (`expected <block end>, but found '<scalar>'`), points to the place where it
gave up, which may lie lines behind the slip, and quotes the text around, which may be a password. So its words are not
passed on. They tell which of the few slips it is that people make: a tab, a line that is indented differently from its
section, a colon without a blank, a quote or bracket that is not closed, a value that begins with a character of
YAML's own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ruamel.yaml.error import MarkedYAMLError

from dm.config.problem import Mark

_QUOTES: Final = "put a value with special characters in quotes"
_SAME_COLUMN: Final = "lines of one section begin in the same column"


class Slip(NamedTuple):
    """Where it is, what it is, and what to do about it."""

    mark: Mark
    why: str
    advice: str


def slip(error: MarkedYAMLError, text: str) -> Slip:
    """The slip behind an error of the parser."""
    at = _mark(error.problem_mark) or _mark(error.context_mark) or Mark(1, 1)
    begun = _mark(error.context_mark) or at
    lines = text.splitlines()
    problem, context = error.problem or "", error.context or ""
    tab = _tab(lines, at)
    if tab is not None:
        return Slip(tab, "a tab stands here", "write blanks: YAML takes no tabs here")
    if "<block end>" in problem:
        return _outside(problem, at, begun)
    if problem.startswith("mapping values"):
        return _second_colon(lines, at)
    if problem.startswith("could not find expected ':'"):
        return _no_colon(lines, begun)
    if problem.startswith("sequence entries"):
        return Slip(at, "an entry of a list (`- `) stands behind a key", "begin the list in the next line")
    if "quoted scalar" in context and "unexpected" in problem:
        return Slip(begun, "a quote is opened here and never closed", "close it, or write the value without quotes")
    if "escape" in problem:
        return Slip(at, "a backslash in double quotes begins an escape", "put the value in single quotes")
    if problem.startswith("expected ','"):
        return Slip(begun, "a bracket is opened here and not closed, or a comma is missing in it", "close the bracket")
    if "cannot start any token" in problem or context.startswith("while scanning a"):
        return Slip(at, "a value can't begin like this", _QUOTES)
    return Slip(at, "this does not follow YAML's grammar", _QUOTES)


def _mark(mark: object) -> Mark | None:
    line, column = getattr(mark, "line", None), getattr(mark, "column", None)
    return Mark(line + 1, column + 1) if isinstance(line, int) and isinstance(column, int) else None


def _tab(lines: list[str], at: Mark) -> Mark | None:
    """Where a tab is in the indentation of the line, or is what the parser stumbled over."""
    line = _line(lines, at)
    indentation = line[: len(line) - len(line.lstrip())]
    if "\t" in indentation:
        return Mark(at.line, indentation.index("\t") + 1)
    return at if line[at.column - 1 : at.column] == "\t" else None


def _outside(problem: str, at: Mark, begun: Mark) -> Slip:
    """Something that is no part of the section before it."""
    if "<scalar>" in problem:
        return Slip(at, "something stands behind a value in quotes", "put the whole value in one pair of quotes")
    if at.column == begun.column:
        why = f"an entry of a list (`- `) stands among the keys of the section that starts in line {begun.line}"
        return Slip(at, why, "a section has either keys or entries")
    return Slip(at, "the indentation of this line fits no section above it", _SAME_COLUMN)


def _second_colon(lines: list[str], at: Mark) -> Slip:
    line = _line(lines, at)
    if ": " in line[: at.column - 1]:
        return Slip(at, "a second `: ` stands in this line", _QUOTES)
    before = next((number for number in range(at.line - 1, 0, -1) if _content(lines[number - 1])), None)
    if before is not None and not _is_entry(lines[before - 1]):
        words = lines[before - 1]
        return _no_colon(lines, Mark(before, len(words) - len(words.lstrip()) + 1))
    first = Mark(at.line, len(line) - len(line.lstrip()) + 1)
    return Slip(first, "this line is indented below one that has a value already", _SAME_COLUMN)


def _no_colon(lines: list[str], begun: Mark) -> Slip:
    if ":" in _line(lines, begun):
        return Slip(begun, "no blank stands behind the colon", "write `key: value`")
    return Slip(begun, "this line has no colon", "write `key: value`")


def _content(line: str) -> str:
    """What stands in a line besides a comment."""
    return line.partition(" #")[0].strip() if not line.lstrip().startswith("#") else ""


def _is_entry(line: str) -> bool:
    return ": " in line or _content(line).endswith(":")


def _line(lines: list[str], at: Mark) -> str:
    return lines[at.line - 1] if at.line <= len(lines) else ""
