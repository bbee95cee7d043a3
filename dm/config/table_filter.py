r"""One rule of dumpling's `-f`: `[!]schema.table`, where either part is a name, a name with wildcards, a name in quotes
or a regular expression between slashes.

The grammar is TiDB's table filter (https://docs.pingcap.com/tidb/stable/table-filter). A name holds letters, digits,
`$`, `_` and what is beyond ASCII; `\` takes the meaning from any other character. `*`, `?`, `[a-z]` and `[!a-z]` are
wildcards. `/.../` is an expression of Go that matches anywhere in the name. A rule that begins with `!` leaves out.

It is not the pattern of the lists and routes (dm/config/pattern.py), where `*` stands only at the end and `~` begins an
expression. `@file`, which takes rules from a file, is no rule: `dm.config.table_filter` reads such files.

Rules of `-f @FILE`: a text file with one rule of dumpling's table filter a line.

The grammar is TiDB's (https://docs.pingcap.com/tidb/stable/table-filter#multiple-rules-from-one-file): blanks around a
line do not count, an empty line and one that begins with `#` say nothing, and no line names another file. A path is
relative to the task file, as all paths in it are.

The file is read with the task file, so its rules become part of the task: units see rules only. A daemon that starts
again reads both anew. A file that has changed by then is a task with other lists: the dump goes on for the tables that
are wanted now, and what a load has of others it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dm.config.document import SIZE_LIMIT
from dm.config.regex import RegexError, compile_regex

_REGEX: Final = re.compile(r"/((?:\\.|[^/])+)/")
_QUOTED: Final = {'"': re.compile(r'"((?:""|[^"])+)"'), "`": re.compile(r"`((?:``|[^`])+)`")}
_CLASS: Final = re.compile(r"\[!?(?:\\[^0-9a-zA-Z]|[^\\\]])+\]")
_LETTER: Final = re.compile(r"[0-9A-Za-z$_\x80-\U0010ffff]")

Matches = Callable[[str], bool]


class TableFilterError(ValueError):
    """Raised for a rule that dumpling does not take; the text says why."""


@dataclass(frozen=True, slots=True)
class TableFilter:
    """A rule, and what it says of a name."""

    positive: bool
    schema: Matches
    table: Matches
    every_table: bool  # of the schemas that it names

    @classmethod
    def parse(cls, rule: str, *, case_sensitive: bool = True) -> TableFilter:
        """Read a rule; raises TableFilterError."""
        text = rule.strip(" \t")
        positive = not text.startswith("!")
        text = text if positive else text[1:]
        schema, end = _part(text, 0, case_sensitive)
        if not text.startswith(".", end):
            what = f"`{text[end]}` after the schema" if end < len(text) else "no table"
            raise TableFilterError(f"{what}; a rule is `schema.table`")
        begins = end + 1
        table, end = _part(text, begins, case_sensitive)
        if end < len(text):
            raise TableFilterError(f"`{text[end]}` after the table")
        return cls(positive, schema, table, text[begins:] == "*")


def _part(text: str, start: int, case_sensitive: bool) -> tuple[Matches, int]:
    first = text[start : start + 1]
    if not first:
        raise TableFilterError("a part of the name is missing")
    if first == "/":
        found = _REGEX.match(text, start)
        if found is None:
            raise TableFilterError("an expression without its last `/`")
        return _searches(found[1], case_sensitive), found.end()
    if first in _QUOTED:
        found = _QUOTED[first].match(text, start)
        if found is None:
            raise TableFilterError(f"a name without its last {first}")
        return _equals(found[1].replace(first * 2, first), case_sensitive), found.end()
    return _name(text, start, case_sensitive)


def _name(text: str, start: int, case_sensitive: bool) -> tuple[Matches, int]:
    """A name without quotes, perhaps with wildcards, up to the point or the end."""
    literal, expression, plain, at = "", "", True, start
    while at < len(text) and text[at] != ".":
        character = text[at]
        if character == "\\":
            escaped = text[at + 1 : at + 2]
            if not escaped or (escaped.isascii() and escaped.isalnum()):
                raise TableFilterError(f"`\\{escaped}`: a `\\` stands before a sign, not before a letter or digit")
            literal, expression, at = literal + escaped, expression + re.escape(escaped), at + 2
        elif character in "*?":
            expression, plain, at = expression + (".*" if character == "*" else "."), False, at + 1
        elif character == "[":
            found = _CLASS.match(text, at)
            if found is None:
                raise TableFilterError("a `[` without its `]`")
            expression, plain, at = expression + _class(found[0]), False, found.end()
        elif _LETTER.match(character):
            literal, expression, at = literal + character, expression + character.replace("$", r"\$"), at + 1
        else:
            raise TableFilterError(f"`{character}` outside of quotes")
    if at == start:
        raise TableFilterError("a part of the name is missing")
    if plain:
        return _equals(literal, case_sensitive), at
    return _searches(f"(?s)^{expression}$", case_sensitive), at


def _class(written: str) -> str:
    if written.startswith("[!"):
        return "[^" + written[2:]
    return "[\\^" + written[2:] if written.startswith("[^") else written


def _equals(name: str, case_sensitive: bool) -> Matches:
    if case_sensitive:
        return lambda found: found == name
    folded = name.lower()
    return lambda found: found.lower() == folded


def _searches(pattern: str, case_sensitive: bool) -> Matches:
    try:
        compiled = compile_regex(pattern, ignore_case=not case_sensitive)
    except RegexError as error:
        raise TableFilterError(f"{pattern}: {error}") from None
    return lambda found: compiled.search(found) is not None


_BLANKS: Final = " \t"


def filter_file(rule: str) -> str | None:
    """The path that a rule names; None where it is a rule itself."""
    stripped = rule.strip(_BLANKS)
    return stripped[1:] if stripped.startswith("@") else None


def file_rules(path: Path, name: str) -> list[str]:
    """The rules of a file that a message calls `name`; raises TableFilterError with file and line.

    A message says what is wrong with a line, and shows no line: a task may name a file that is none of rules.
    """
    rules = []
    for number, line in enumerate(_text(path, name).split("\n"), 1):
        rule = line.removesuffix("\r").strip(_BLANKS)
        if not rule or rule.startswith("#"):
            continue
        if rule.startswith("@"):
            raise TableFilterError(f"{name}:{number}: a file of rules names no other file")
        try:
            TableFilter.parse(rule)
        except TableFilterError as error:
            raise TableFilterError(f"{name}:{number}: {error}") from None
        rules.append(rule)
    return rules


def _text(path: Path, name: str) -> str:
    content = b""
    why = ""
    try:
        if path.exists() and not path.is_file():
            why = "it is not a file"
        else:
            with path.open("rb") as file:
                content = file.read(SIZE_LIMIT + 1)
            why = f"it is larger than {SIZE_LIMIT} bytes" if len(content) > SIZE_LIMIT else ""
    except OSError as error:
        why = error.strerror or "it can't be read"
    except ValueError:  # a zero byte in the path
        why = "it is not a path"
    if why:
        raise TableFilterError(f"{name}: {why}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise TableFilterError(f"{name}:{line}: it is not UTF-8") from None
