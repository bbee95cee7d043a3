"""`mydumpers`: how the full dump reads the source."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, get_args

from dm.config.document import Scalar, YamlMap
from dm.config.problem import did_you_mean
from dm.config.scalar import Text, byte_size, one_of, size, whole
from dm.config.section import LoadContext, Section, read_section

Consistency = Literal["auto", "none", "flush", "lock"]

MEGABYTE = 1 << 20

_SELECT = "choose tables with `block-allow-list`"
_TIDB = "it is for TiDB sources only"
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
_SHORT = {"t": "threads", "F": "filesize", "s": "statement-size", "r": "rows"}
_SWITCHES = {"no-views", "W", "escape-backslash", "transactional-consistency", "no-locks"}
_REFUSED = {
    "database": _SELECT, "B": _SELECT, "tables-list": _SELECT, "T": _SELECT, "filter": _SELECT, "f": _SELECT,
    "snapshot": _TIDB, "ca": _TLS, "cert": _TLS, "key": _TLS,
}  # fmt: skip


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
    consistency: Annotated[Consistency, one_of(Consistency)] = "auto"  # from `extra-args`; auto: by the task's mode

    def of_one_moment(self, mode: str, on_duplicate: str) -> bool:
        """Whether all rows must be of one moment: nobody corrects them later, or a duplicate is an error."""
        if self.consistency == "auto":
            return mode not in ("all", "load&sync") or on_duplicate == "error"
        return self.consistency in ("flush", "lock")

    @classmethod
    def file_keys(cls) -> list[str]:
        """DM's keys: consistency comes in `extra-args`."""
        return [*(key for key in super().file_keys() if key != "consistency"), "extra-args"]

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

    try:
        words = shlex.split(extra.text)
    except ValueError:
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
        elif name not in _KEYS:
            ignored(name, did_you_mean(name, [*_KEYS, *_SWITCHES]))
        if not equals and words and not words[0].startswith("-"):
            value, equals = words.pop(0), "="
        if name in _KEYS:
            if not equals:
                problem(f"`{name}` without a value", "")
            else:
                _take(name, value, data, extra, problem)


def _take(name: str, value: str, data: YamlMap, extra: Scalar, problem: Callable[..., None]) -> None:
    if name == "consistency" and value not in get_args(Consistency):
        hint = f"{_TIDB}; use `flush`" if value == "snapshot" else ""
        problem(f"consistency `{value}`", hint, "`auto`, `none`, `flush` or `lock`")
    elif name == "filesize" and byte_size(value, MEGABYTE) is None:
        problem(f"filesize `{value}`", "", "a size such as `64M`")
    elif name in ("threads", "statement-size", "rows") and not value.isdigit():
        problem(f"{name} `{value}`", "", "a whole number from 0")
    else:
        _set(data, extra, _KEYS[name], value)


def _set(data: YamlMap, extra: Scalar, key: str, value: str) -> None:
    data[key] = Scalar(value, True, extra.mark, extra.path)
    data.key_marks[key] = extra.mark
