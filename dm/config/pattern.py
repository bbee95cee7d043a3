"""Names of schemas and tables as rules write them: a plain name, a wildcard, or `~` and a regular expression.

The wildcards are those of DM's rule selector: `*` stands for any text and only at the end; `?` for one character;
`[...]` for one character of a set, with ranges, `[!...]` for one outside of it. `[!]` is a `!`, `[]` matches nothing,
and a `[` that is never closed is itself. DM's selector works on bytes and never matches a name with a character beyond
ASCII; here a character is a character, as DM's documentation says.

A file may not hold everything that has a meaning: a set that can't mean what it looks like is refused, and so is a `~`
where a rule takes no regular expression.

`t_[0-63]` looks like the tables t_0 to t_63. It means one character: 0 to 6, or 3. DM accepts it, and 57 tables are
missing from the target without a word. A set stands for one character, always; so a content that is a number with
several digits, a list of words, a class of a regular expression, or that names a character twice, was written for
something else, and the pattern is refused. What is only unusual (`[!]`, a `[` that is never closed, `[a-]`) keeps the
meaning that DM documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Annotated, Final

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from dm.config.document import Scalar
from dm.config.regex import RegexError, compile_regex
from dm.config.scalar import wrong, wrong_type

Match = Callable[[str], bool]

_SPECIAL: Final = re.compile(r"^~|[*?\[]")


class PatternError(ValueError):
    """Raised for a text that is not a pattern."""


def _closing(pattern: str, start: int) -> int:
    return pattern.find("]", start + 1)


def _pieces(pattern: str) -> Iterator[tuple[str, bool]]:
    """The parts of a wildcard: single characters, and whole sets (then True)."""
    at = 0
    while at < len(pattern):
        end = _closing(pattern, at) if pattern[at] == "[" else -1
        if end == -1:
            yield pattern[at], False
            at += 1
        else:
            yield pattern[at : end + 1], True
            at = end + 1


def _set(content: str) -> str:
    """The regular expression of a set's content, brackets excluded."""
    if content == "!":
        return re.escape("!")
    negated = content.startswith("!")
    if negated:
        content = content[1:]
    pieces: list[str] = []
    at = 0
    while at < len(content):
        first = content[at]
        if at + 2 < len(content) and content[at + 1] == "-":
            last = content[at + 2]
            at += 3
            if first > last:
                continue  # an empty range
            pieces.append(f"{re.escape(first)}-{re.escape(last)}")
        else:
            pieces.append(re.escape(first))
            at += 1
    if not pieces:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{''.join(pieces)}]"


@lru_cache(maxsize=4096)
def wildcard(pattern: str) -> re.Pattern[str]:
    """The wildcard as a regular expression for whole names; raises PatternError."""
    return re.compile("".join(_expressions(pattern)), re.DOTALL)


def _expressions(pattern: str) -> Iterator[str]:
    left = len(pattern)
    for piece, is_set in _pieces(pattern):
        left -= len(piece)
        if is_set:
            yield _set(piece[1:-1])
        elif piece == "*":
            if left:
                raise PatternError("`*` can stand at the end only")
            yield ".*"
        else:
            yield "." if piece == "?" else re.escape(piece)


def matcher(pattern: str, *, case_sensitive: bool, regex: bool = True) -> Match:
    """A function that tells whether a name matches; raises PatternError or RegexError."""
    if regex and pattern.startswith("~"):
        search = compile_regex(pattern[1:], ignore_case=not case_sensitive).search
        return lambda name: search(name) is not None
    if case_sensitive:
        fullmatch = wildcard(pattern).fullmatch
        return lambda name: fullmatch(name) is not None
    lowered = wildcard(pattern.lower()).fullmatch
    return lambda name: lowered(name.lower()) is not None


def is_name(pattern: str) -> bool:
    """Whether a pattern stands for itself only."""
    return _SPECIAL.search(pattern) is None


def _misread(pattern: str) -> str | None:
    """Why a set of the pattern can't mean what it looks like; None when all can."""
    for piece, is_set in _pieces(pattern):
        why = misreading(piece[1:-1]) if is_set else None
        if why is not None:
            return f"`{piece}`: {why}"
    return None


def _checked(value: object, kind: str, *, regex: bool) -> object:
    if not isinstance(value, Scalar):
        if isinstance(value, str):
            return value
        raise wrong_type(value, "a name or a pattern")
    text = value.text
    if text.startswith("~"):
        if not regex:
            why = "it takes names and wildcards; with `~` in front no table would ever match"
            raise wrong(kind, "a name or a wildcard", "write several rules, or `[~]` for the character", why=why)
        _check_regex(text[1:], kind)
        return text
    try:
        wildcard(text)
    except PatternError as error:
        raise wrong(kind, "a name, a wildcard" + (" or `~regex`" if regex else ""), why=str(error)) from None
    misread = _misread(text)
    if misread is not None:
        advice = "write it as a regular expression: `~^...$`" if regex else "write one rule for each form of the name"
        raise wrong(kind, "", advice, why=misread)
    return text


def _check_regex(text: str, kind: str) -> None:
    try:
        compile_regex(text)
    except RegexError as error:
        raise bad_regex(kind, error) from None


def bad_regex(kind: str, error: RegexError) -> PydanticCustomError:
    """The problem of a regular expression that can't be used."""
    return wrong(kind, "a regular expression in Go's (RE2) syntax", why=str(error))


def pattern_of(kind: str, *, regex: bool) -> BeforeValidator:
    """The pattern of a rule; what is wrong with one is a problem of the rule's kind."""
    return BeforeValidator(lambda value: _checked(value, kind, regex=regex))


ListedPattern = Annotated[str, pattern_of("config-list", regex=True)]
RoutePattern = Annotated[str, pattern_of("config-route", regex=True)]
FilterPattern = Annotated[str, pattern_of("config-event-filter", regex=False)]


_NUMBERS = re.compile(r"([0-9]+)-([0-9]+)")
_PERL_CLASS = re.compile(r"\\[dDwWsS]")


def misreading(content: str) -> str | None:
    """What is wrong with the content of a set, the brackets excluded; None when it can be meant as it stands."""
    if content == "!":
        return None
    members = content.removeprefix("!")
    if not members:
        return "it holds nothing, so no name matches"
    if content.startswith("^") and len(content) > 1:
        return "`^` is one of its characters; not to be in a set is written `!`"
    if members.startswith((":", "[:")) and members.endswith(":") and len(members) > 3:
        return "classes such as `[:digit:]` exist in regular expressions; here each letter is itself"
    if _PERL_CLASS.search(members):
        return "a backslash is one of its characters; classes such as `\\d` exist in regular expressions"
    numbers = _NUMBERS.fullmatch(members)
    if numbers is not None and len(members) > 3:
        return f"it stands for one character, not for the numbers {numbers[1]} to {numbers[2]}"
    for separator in (",", "|"):
        if separator in members[1:-1]:
            return f"`{separator}` is one of its characters, it separates nothing"
    return _repeated(members)


def _repeated(members: str) -> str | None:
    seen: set[int] = set()
    at = 0
    while at < len(members):
        first = last = members[at]
        at += 1
        if at + 1 < len(members) and members[at] == "-":
            last = members[at + 1]
            at += 2
        if first > last:
            return f"no character lies in `{first}-{last}`"
        codes = set(range(ord(first), ord(last) + 1))
        if codes & seen:
            twice = chr(min(codes & seen))
            return f"it stands for one character, and holds `{twice}` twice"
        seen |= codes
    return None
