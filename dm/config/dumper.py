r"""`mydumpers`: how the full dump reads the source.

One rule of dumpling's `-f`: `[!]schema.table`, where either part is a name, a name with wildcards, a name in quotes or
a regular expression between slashes.

The grammar is TiDB's table filter (https://docs.pingcap.com/tidb/stable/table-filter). A name holds letters, digits,
`$`, `_` and what is beyond ASCII; `\` takes the meaning from any other character. `*`, `?`, `[a-z]` and `[!a-z]` are
wildcards. `/.../` is an expression of Go that matches anywhere in the name. A rule that begins with `!` leaves out.

It is not the pattern of the lists and routes (dm/config/pattern.py), where `*` stands only at the end and `~` begins an
expression. `@file`, which takes rules from a file, is no rule, but the name of a file (see below).

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
from typing import Annotated, ClassVar, Final, Literal, get_args

from dm.config.document import SIZE_LIMIT, Scalar, YamlList, YamlMap
from dm.config.problem import did_you_mean
from dm.config.regex import RegexError, compile_regex
from dm.config.scalar import Text, byte_size, one_of, size, whole
from dm.config.section import LoadContext, Section, read_section
from dm.text import is_decimal

_REGEX: Final = re.compile(r"/((?:\\.|[^/])+)/")
_QUOTED_NAME: Final = {'"': re.compile(r'"((?:""|[^"])+)"'), "`": re.compile(r"`((?:``|[^`])+)`")}
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
    if first in _QUOTED_NAME:
        found = _QUOTED_NAME[first].match(text, start)
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


Consistency = Literal["auto", "none", "flush", "lock"]

MEGABYTE = 1 << 20

_NO_SNAPSHOT = "it is for TiDB sources only"
_TLS = "use `security` of the source's `from`"
# dumpling's options that `extra-args` may hold: long name -> what it becomes here (a key), or why it is not possible.
_KEYS = {
    "threads": "threads",
    "filesize": "chunk-filesize",
    "statement-size": "statement-size",
    "rows": "rows",
    "where": "where",
    "consistency": "consistency",
}
_SHORT = {
    "t": "threads", "F": "filesize", "s": "statement-size", "r": "rows", "B": "database", "T": "tables-list",
    "f": "filter",
}  # fmt: skip
_SWITCHES = {"no-views", "W", "escape-backslash", "transactional-consistency", "no-locks"}
_REFUSED = {"snapshot": _NO_SNAPSHOT, "ca": _TLS, "cert": _TLS, "key": _TLS}
# Options that choose tables, each with the field that gathers what it says; a repeated one adds.
_CHOICES = {"database": "databases", "tables-list": "tables", "filter": "table-filters"}
# A word of the line: what is between quotes stays as it is, and outside of them a `\` is itself, as in DM.
_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"(?:\\["\\]|[^"])*")+""")
_QUOTED = re.compile(r"""'([^']*)'|"((?:\\["\\]|[^"])*)\"""")


class DumperConfig(Section):
    """One entry of `mydumpers`."""

    place: ClassVar = "under `mydumpers`"
    deprecated: ClassVar = {
        "mydumper-path": "leave it out: the dump is part of dm",
        "skip-tz-utc": "leave it out: sessions use UTC on both sides",
    }
    unset_values: ClassVar = {
        **dict.fromkeys(("threads", "statement-size", "rows"), ("0",)),
        "chunk-filesize": ("",),
    }

    threads: Annotated[int, whole(1, 1024)] = 4
    # Bytes; a bare number: MB; 0: no limit.
    chunk_filesize: Annotated[int, size(MEGABYTE, "config-chunk-size", low=0)] = 64 * MEGABYTE
    statement_size: Annotated[int, whole(1)] = 1_000_000  # bytes of one INSERT of an SQL file
    rows: Annotated[int, whole(1)] = 200_000  # of a chunk
    where: Text = ""
    # From `extra-args`; auto: by the task's mode.
    consistency: Annotated[Consistency, one_of(Consistency)] = "auto"
    databases: tuple[Text, ...] = ()
    tables: tuple[Text, ...] = ()
    table_filters: tuple[Text, ...] = ()

    def of_one_moment(self, mode: str, on_duplicate: str) -> bool:
        """Whether all rows must be of one moment: nobody corrects them later, or a duplicate is an error."""
        if self.consistency == "auto":
            return mode not in ("all", "load&sync") or on_duplicate == "error"
        return self.consistency in ("flush", "lock")

    @classmethod
    def file_keys(cls) -> list[str]:
        """DM's keys: consistency and chosen tables come in `extra-args`."""
        return [*(key for key in super().file_keys() if key not in ("consistency", *_CHOICES.values())), "extra-args"]

    @property
    def chooses(self) -> bool:
        """Whether the dump may have other tables than the lists say."""
        return bool(self.databases or self.tables or self.table_filters)

    @classmethod
    def prepare(cls, data: YamlMap, context: LoadContext) -> None:
        """Turn dumpling's command line into fields; what the line says wins, as in DM."""
        extra = data.pop("extra-args", None)
        if isinstance(extra, Scalar):
            written = data.subset(set(data))
            _read_extra(extra, data, context)
            # What the line replaces is looked at as well: a mistyped value is one, whichever of the two wins.
            replaced = written.subset({key for key in written if data[key] is not written[key]})
            if replaced:
                read_section(cls, replaced, context)
        elif extra is not None:
            mark, path = data.mark_of("extra-args"), data.path_of("extra-args")
            context.report.add("config-wrong-type", mark, path, found="mapping or list", expected="a text of options")


def _words(line: str) -> list[str] | None:
    """The words of a command line; None where a quote is left open."""
    if _WORD.sub("", line).strip():
        return None
    return [_QUOTED.sub(_unquoted, word) for word in _WORD.findall(line)]


def _unquoted(found: re.Match[str]) -> str:
    single: str | None = found[1]
    return re.sub(r"""\\(["\\])""", r"\1", found[2]) if single is None else single


def _read_extra(extra: Scalar, data: YamlMap, context: LoadContext) -> None:
    def problem(argument: str, suggestion: str, expected: str = "") -> None:
        context.report.add(
            "config-bad-extra-args", extra.mark, extra.path, argument=argument, suggestion=suggestion, expected=expected
        )

    def ignored(argument: str, suggestion: str) -> None:
        context.report.add(
            "config-ignored-extra-args", extra.mark, extra.path, argument=f"`{argument}`", suggestion=suggestion,
            warning=True,
        )  # fmt: skip

    words = _words(extra.text)
    if words is None:
        problem("this text", "close the quotes")
        return
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word.strip("-") == "":
            ignored(word, "")
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--") and len(name) > 1 and name[0] in _SHORT and not equals:
            name, equals, value = name[0], "=", name[1:]
        name = _SHORT.get(name, name)
        if name in _SWITCHES:
            if name == "no-locks" and value.lower() not in ("false", "0"):
                _set(data, extra, "consistency", "none")
            continue
        if name in _REFUSED:
            problem(f"`{name}`", _REFUSED[name])
        elif name not in _KEYS and name not in _CHOICES:
            ignored(name, did_you_mean(name, [*_KEYS, *_CHOICES, *_SWITCHES]))
        if not equals and words and not words[0].startswith("-"):
            value, equals = words.pop(0), "="
        if name in _KEYS:
            if not equals:
                problem(f"`{name}` without a value", "")
            else:
                _take(name, value, data, extra, problem)
        elif name in _CHOICES:
            _choose(name, value if equals else "", data, extra, problem, context)
    if "tables" in data and "table-filters" in data:
        problem("`-T` together with `-f`", "", "one of the two")
        del data["tables"], data["table-filters"]


def _take(name: str, value: str, data: YamlMap, extra: Scalar, problem: Callable[..., None]) -> None:
    if name == "consistency" and value not in get_args(Consistency):
        hint = f"{_NO_SNAPSHOT}; use `flush`" if value == "snapshot" else ""
        problem(f"consistency `{value}`", hint, "`auto`, `none`, `flush` or `lock`")
    elif name == "filesize" and byte_size(value, MEGABYTE) is None:
        problem(f"filesize `{value}`", "", "a size such as `64M`")
    elif name in ("threads", "statement-size", "rows") and not is_decimal(value):
        problem(f"{name} `{value}`", "", "a whole number from 0")
    else:
        _set(data, extra, _KEYS[name], value)


def _choose(
    name: str, value: str, data: YamlMap, extra: Scalar, problem: Callable[..., None], context: LoadContext
) -> None:
    """Add what one of the options that choose tables says; commas part names, not patterns."""
    key = _CHOICES[name]
    chosen = [value] if name == "filter" else value.split(",")
    if name == "filter" and (file := filter_file(value)) is not None:
        chosen = _rules_of(file, problem, context)
    for one in chosen:
        if not one:
            problem(f"`{name}` without a value", "")
        elif name == "tables-list" and "." not in one:
            problem(f"`-T {one}`", "", "tables with their schemas, as `shop.orders`")
        elif name == "filter" and (why := _refusal(one)):
            problem(f"`-f {one}` ({why})", "", "a rule such as `shop.*`, `!shop.log_*` or `shop./^log_[0-9]+$/`")
        else:
            gathered = data.get(key)
            if not isinstance(gathered, YamlList):
                gathered = data[key] = YamlList(extra.mark, extra.path)
                data.key_marks[key] = extra.mark
            gathered.append(Scalar(one, True, extra.mark, extra.path))


def _rules_of(file: str, problem: Callable[..., None], context: LoadContext) -> list[str]:
    """The rules of a file; without any nothing would be chosen, and to dumpling that means no table at all."""
    try:
        rules = file_rules(context.directory / file, file)
    except TableFilterError as error:
        problem(f"`-f @{file}` ({error})", "", "a file with a rule such as `shop.*` or `!shop.log_*` on each line")
        return []
    if not rules:
        problem(f"`-f @{file}` ({file}: no line has a rule)", "", "a file with a rule such as `shop.*` on each line")
    return rules


def _refusal(rule: str) -> str:
    try:
        TableFilter.parse(rule)
    except TableFilterError as error:
        return str(error)
    return ""


def _set(data: YamlMap, extra: Scalar, key: str, value: str) -> None:
    data[key] = Scalar(value, True, extra.mark, extra.path)
    data.key_marks[key] = extra.mark
