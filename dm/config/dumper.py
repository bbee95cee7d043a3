"""`mydumpers`: how the full dump reads the source."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, get_args

from dm.config.document import Scalar, YamlList, YamlMap
from dm.config.problem import did_you_mean
from dm.config.scalar import Text, byte_size, one_of, size, whole
from dm.config.section import LoadContext, Section, read_section
from dm.config.table_filter import TableFilter, TableFilterError, file_rules, filter_file
from dm.text import is_decimal

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
