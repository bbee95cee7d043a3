"""Types of single values: what a field accepts, and what it says when something else stands there.

Each type reads a `Scalar` of a file by its own rules (Go's for durations and sizes, because the files are DM's), and
lets values through that were read before: the wire form between processes carries seconds and bytes as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from dm.config.document import Scalar, found
from dm.config.problem import did_you_mean, one_of_text
from dm.text import go_duration, is_decimal

_TRUE = frozenset({"true", "yes", "on", "y"})
_FALSE = frozenset({"false", "no", "off", "n"})
_WHOLE = re.compile(r"[-+]?[0-9][0-9_]*")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def wrong(kind: str, expected: str = "", suggestion: str = "", **details: object) -> PydanticCustomError:
    """The error that becomes a problem of the catalogue's kind at the place of the value."""
    return PydanticCustomError(kind, kind, {"expected": expected, "suggestion": suggestion, "details": details})


def wrong_type(value: object, expected: str, suggestion: str = "") -> PydanticCustomError:
    """The error for a value of another type than the field's."""
    return wrong("config-wrong-type", expected, suggestion, found=found(value))


def _text(value: object) -> object:
    if isinstance(value, Scalar):
        return value.text
    if isinstance(value, str):
        return value
    raise wrong_type(value, "a text")


def _flag(value: object, *more: str) -> object:
    if isinstance(value, bool):
        return value
    words = (*more, "true", "false")
    expected = f"one of {one_of_text(words)}" if more else "`true` or `false`"
    if isinstance(value, Scalar) and value.plain:
        word = value.text.lower()
        if word in _TRUE | _FALSE:
            return word in _TRUE
        raise wrong("config-bad-value", expected, did_you_mean(word, words), value=repr(value.text))
    hint = "write it without quotes" if isinstance(value, Scalar) and value.text.lower() in _TRUE | _FALSE else ""
    raise wrong_type(value, expected, hint)


def flag_or(word: str) -> BeforeValidator:
    """A flag, or one word beside `true` and `false`."""

    def check(value: object) -> object:
        told = value.text if isinstance(value, Scalar) else value
        return word if told == word else _flag(value, word)

    return BeforeValidator(check)


def whole(low: int, high: int = (1 << 63) - 1) -> BeforeValidator:
    """A whole number between two bounds, both included."""
    expected = f"a whole number from {low}" + (f" to {high}" if high < (1 << 63) - 1 else "")

    def check(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, Scalar) and value.plain:
            if not _WHOLE.fullmatch(value.text) or len(value.text) > 30:
                raise wrong("config-bad-value", expected, value=_shown(value.text))
            number = int(value.text.replace("_", ""))
        else:
            quoted = isinstance(value, Scalar) and _WHOLE.fullmatch(value.text)
            raise wrong_type(value, expected, "write it without quotes" if quoted else "")
        if not low <= number <= high:
            raise wrong("config-bad-value", expected, value=str(number))
        return number

    return BeforeValidator(check)


def decimal(low: float, high: float) -> BeforeValidator:
    """A number between two bounds, both included."""
    expected = f"a number from {low:g} to {high:g}"

    def check(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            number = float(value)
        elif isinstance(value, Scalar) and value.plain:
            try:
                number = float(value.text)
            except ValueError:
                raise wrong("config-bad-value", expected, value=_shown(value.text)) from None
        else:
            raise wrong_type(value, expected)
        if not low <= number <= high:
            raise wrong("config-bad-value", expected, value=f"{number:g}")
        return number

    return BeforeValidator(check)


def one_of(literal: Any, kind: str = "config-bad-value", *, fold: bool = False) -> BeforeValidator:
    """One of the words of a Literal type; with `fold` in any case, as DM accepts some of them."""
    words: tuple[str, ...] = get_args(literal)
    expected = f"one of {one_of_text(words)}"

    def check(value: object) -> str:
        if not isinstance(value, Scalar | str):
            raise wrong_type(value, expected)
        word = value if isinstance(value, str) else value.text
        word = word.lower() if fold else word
        if word not in words:
            raise wrong(kind, expected, did_you_mean(word, words), value=_shown(word))
        return word

    return BeforeValidator(check)


def duration(low: float = 0.0) -> BeforeValidator:
    """Seconds, written in Go's notation."""
    expected = "a duration such as `30s`, `5m` or `1h30m`" + (f", at least {low:g}s" if low else "")

    def check(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds: float | None = float(value)
        elif isinstance(value, Scalar):
            seconds = go_duration(value.text)
            if seconds is None:
                hint = f"write `{value.text}s` for seconds" if is_decimal(value.text) else ""
                raise wrong("config-bad-value", expected, hint, value=_shown(value.text))
        else:
            raise wrong_type(value, expected)
        if seconds is None or seconds < low:
            raise wrong("config-bad-value", expected, value=f"{seconds:g}s")
        return seconds

    return BeforeValidator(check)


def byte_size(text: str, unit: int = 1) -> int | None:
    """Bytes of a size such as `64M`, `500m` or `1GiB`; a plain number counts in `unit`; None when it is none."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or len(text) > 30:
        return None
    number, power, suffix = float(match[1]), match[2].lower(), match[3]
    if not power and not suffix:
        return int(number * unit)
    return int(number * 1024 ** _POWERS[power])


def size(unit: int = 1, kind: str = "config-bad-value", *, low: int = 1) -> BeforeValidator:
    """A number of bytes, at least `low`."""
    expected = "a size such as `64M`" + (f", at least {low} bytes" if low > 1 else "")

    def check(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if not isinstance(value, Scalar):
            raise wrong_type(value, expected)
        found_size = byte_size(value.text, unit)
        if found_size is None or found_size < low:
            raise wrong(kind, expected, value=_shown(value.text))
        return found_size

    return BeforeValidator(check)


def matching(pattern: str, kind: str, expected: str) -> BeforeValidator:
    """A text of a given form."""
    form = re.compile(pattern, re.ASCII)

    def check(value: object) -> str:
        text = _text(value)
        if not isinstance(text, str) or not form.fullmatch(text):
            raise wrong(kind, expected, value=_shown(str(text)))
        return text

    return BeforeValidator(check)


def checked(check: Callable[[str], None]) -> BeforeValidator:
    """A text that a function accepts; it raises `wrong(...)` where not."""

    def run(value: object) -> object:
        text = _text(value)
        if isinstance(text, str) and isinstance(value, Scalar):
            check(text)
        return text

    return BeforeValidator(run)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")


Text = Annotated[str, BeforeValidator(_text)]
Flag = Annotated[bool, BeforeValidator(_flag)]


# Values of the task file that are one of a few words.

TaskMode = Literal["full", "incremental", "all", "dump", "load", "load&sync"]
ShardMode = Literal["", "pessimistic", "optimistic"]
Collation = Literal["loose", "strict"]
Conversion = Literal["", "auto", "on", "off"]
CheckingItem = Literal[
    "all", "version", "server_id", "binlog_enable", "binlog_format", "binlog_row_image", "binlog_db",
    "replication_privilege", "dump_privilege", "target_privilege", "table_schema", "schema_of_shard_tables",
    "auto_increment_ID", "online_ddl", "meta_position", "conn_number", "empty_region", "region_distribution",
    "downstream_version", "free_space", "downstream_mutex_features", "downstream_table_empty", "primary_key",
    "block_allow_list", "dump_directory", "relay_directory", "binlog_row_metadata", "gtid_mode", "row_events",
    "validators", "server_identity", "target_session", "dump_selection", "not_migrated",
    "spark_authentication",
]  # fmt: skip
