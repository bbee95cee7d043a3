"""What is told without being asked for holds no value of a row: logs, and what leaves the house.

An error names the row that it is about, or a person could not mend it: `query-status` shows it to those who may ask,
and the registry keeps it for them. A log is copied to other machines and read by people who may not see the data, and
a support bundle is made for strangers. So these get another text of the same error, made here:

- Of a DMError, the details that are values (`ErrorKind.values`) become `?`, and so do the literals of statements.
- Of the words of a server or a library, all between the first quote and the last words that are known to be names. A
  value may hold quotes of any kind, and servers cut their messages short, so no pairing of quotes can be trusted.
  Errors whose quotes hold nothing but names (1146, "Table 'd.t' doesn't exist") are listed, and stay.
- Of a traceback, the places stay. The code in it is ours, and has no values.

Names of schemas, tables, columns, hosts and users stay in all of these: without them nothing could be told.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping
from string import Formatter
from typing import TYPE_CHECKING, Final

from dm.errors.error import STATEMENT_SHOWN, DMError, said

if TYPE_CHECKING:
    from dm.errors.kind import ErrorKind

HIDDEN: Final = "?"

# Details that are SQL: names in them stay.
_STATEMENTS: Final = frozenset({"statement", "first", "second", "other", "difference", "expression", "where", "items"})

_LITERALS: Final = re.compile(
    r"`(?:[^`]|``)*`"  # a name: kept
    r"|\b[a-z_][\w-]*\.\d{6,}(?:, \d+)?"  # a binlog file, perhaps with an offset: kept
    r"|(?:_[a-z0-9]+ ?)?[nbx]?'(?:[^'\\]|\\.|'')*(?:'|\Z)"
    r"|(?<!\w)(?:_[a-z0-9]+ )?0[xb][0-9A-Fa-f]*"  # within a word it is a part of a name
    r'|"(?:[^"\\]|\\.|"")*(?:"|\Z)'
    r"|(?<![\w`])-?\d[\w.]*(?:(?<=[eE])[+-]\d+)?",
    re.DOTALL | re.IGNORECASE,
)
_KEPT: Final = re.compile(r"`|[a-z_][\w-]*\.\d{6,}(?:, \d+)?\Z", re.IGNORECASE)

# In a structure, these stay beside names: what a comment of a version begins with, lengths of types and of prefixes.
_STRUCTURE: Final = re.compile(
    r"(?P<kept>`(?:[^`]|``)*`(?:\(\d+\))?|/\*M?!\d+|\bKEY_BLOCK_SIZE=\d+"
    r"|\b(?:\w*int|\w*char|\w*binary|\w*text|\w*blob|bit|decimal|numeric|float|double|real|year|time|timestamp"
    r"|datetime|current_timestamp|vector)\(\d+(?:,\d+)?\))|" + _LITERALS.pattern,
    re.DOTALL | re.IGNORECASE,
)

# Servers' errors whose quotes hold names only ("Server Error Message Reference"; MariaDB "Error Codes").
_NAMES_ONLY: Final = frozenset(
    {
        1005, 1008, 1044, 1045, 1046, 1048, 1049, 1050, 1051, 1054, 1060, 1061, 1068, 1072, 1091, 1100, 1130, 1142,
        1143, 1146, 1193, 1205, 1213, 1217, 1227, 1231, 1236, 1264, 1265, 1290, 1364, 1370, 1406, 1419, 1451, 1452,
        1698, 1792, 1932, 2002, 2003, 2005, 2006, 2013, 3118, 3819, 4025, 4031,
    }
)  # fmt: skip
_NUMBER: Final = re.compile(r"[(\s]*(\d{4})\b")
_NAMES_AFTER: Final = re.compile(
    r" for key '[^']*'\Z"
    r"| for column (?:'[^']*'|`[^`]*`(?:\.`[^`]*`)*) at row \d+\Z"
    r"| for function \w+\Z"
)
_UNQUOTED: Final = re.compile(r"\b(has no partition for value) .*", re.DOTALL)


def without_literals(text: str) -> str:
    """A statement with every literal as `?`; names in backticks stay."""
    return _LITERALS.sub(lambda found: found[0] if _KEPT.match(found[0]) else HIDDEN, text)


def structure_without_values(text: str) -> str:
    """A CREATE TABLE text: names, types with their lengths and options stay, literals become `?`."""
    return _STRUCTURE.sub(_kept_of_structure, text)


def _kept_of_structure(found: re.Match[str]) -> str:
    return found[0] if found["kept"] is not None else HIDDEN


def words_without_values(words: str) -> str:
    """What a server or a library says, in its own words, without what may be a value."""
    number = _NUMBER.match(words)
    if number is not None and int(number[1]) in _NAMES_ONLY:
        return words
    said_of = _UNQUOTED.sub(rf"\1 {HIDDEN}", _without_quoted(words))
    return said_of if number is not None else without_literals(said_of)


def _without_quoted(words: str) -> str:
    begun = re.search(r"['\"]", words)
    if begun is None:
        return words
    names = _NAMES_AFTER.search(words, begun.end())
    return f"{words[: begun.start()]}'{HIDDEN}'{names[0] if names else ''}"


def message_without_values(report: Mapping[str, object]) -> str:
    """The sentence of an error as `query-status` has it; empty for a code that nobody knows.

    What stands before the first value is kept. After it each detail becomes `?`: a value may read like the sentence.
    """
    kind = _kind_of(report)
    if kind is None:
        return ""
    message, head, tail = str(report.get("Message")), "", ""
    for words, name, _, _ in Formatter().parse(kind.message):
        detail = name is not None
        if tail:
            tail += words + HIDDEN * detail
        elif name in kind.values:
            head, tail = head + re.escape(words), HIDDEN
        else:
            head += re.escape(words) + ".*?" * detail
    if not tail:
        return without_literals(message)
    kept = re.match(head, message, re.DOTALL)
    return f"{kept[0] if kept is not None else HIDDEN}{tail}"


def _kind_of(report: Mapping[str, object]) -> ErrorKind | None:
    from dm.errors.catalogue import CATALOGUE  # as in `DMError`

    return next((kind for kind in CATALOGUE.values() if kind.code == report.get("ErrCode")), None)


def report_without_values(report: Mapping[str, object]) -> dict[str, object]:
    """An error as `query-status` has it; its way out is the catalogue's, without details."""
    kind = _kind_of(report)
    return {
        **{key: report.get(key) for key in ("ErrCode", "ErrClass", "ErrScope", "ErrLevel")},
        "Name": "" if kind is None else kind.name,
        "Message": message_without_values(report),
        "RawCause": words_without_values(str(report.get("RawCause") or "")),
        "Workaround": "" if kind is None else kind.workaround,
    }


def told(error: BaseException) -> str:
    """What an error says where nobody asked for the rows that it is about."""
    if isinstance(error, OSError):  # of a file or a connection
        return said(error)
    if not isinstance(error, DMError):
        return words_without_values(said(error))
    details = {name: _detail(error, name, value) for name, value in error.details.items()}
    kind = error.kind
    text = f"[code={kind.code}:class={kind.error_class}:scope={error.scope}:level={kind.level}]"
    text += f", Message: {kind.message.format(**details)}"
    text += f", at {error.position}" if error.position else ""
    cause = _cause(error)
    text += f", RawCause: {cause}" if cause else ""
    return f"{text}, Workaround: {kind.workaround.format(**details)}" if kind.workaround else text


def _cause(error: DMError) -> str:
    inner = error.__cause__
    if isinstance(inner, DMError):
        return told(inner)
    if isinstance(inner, OSError) and said(inner) in error.cause:
        return error.cause
    return words_without_values(error.cause)


def _detail(error: DMError, name: str, value: object) -> object:
    if name in error.kind.values:
        return HIDDEN
    if isinstance(value, int | float):
        return value
    if name in _STATEMENTS:
        return without_literals(str(value))[:STATEMENT_SHOWN]
    return _without_quoted(str(value))


def traced(error: BaseException) -> str:
    """The traceback of an error and of those that led to it: places as Python shows them, words as `told` has them."""
    return "\n".join(_parts(error, set()))


def _parts(error: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _parts(before, seen)
        caused = error.__cause__ is not None
        yield "\nThe above exception was the direct cause:\n" if caused else "\nDuring its handling, another one:\n"
    yield "Traceback (most recent call last):"
    yield "".join(traceback.format_tb(error.__traceback__)).rstrip("\n")
    yield f"{type(error).__module__}.{type(error).__qualname__}: {told(error)}"
