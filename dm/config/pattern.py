"""Names of schemas and tables as rules write them: a plain name, a wildcard, or `~` and a regular expression.

The wildcards are those of DM's rule selector: `*` stands for any text and only at the end; `?` for one character;
`[...]` for one character of a set, with ranges, `[!...]` for one outside of it. `[!]` is a `!`, `[]` matches nothing,
and a `[` that is never closed is itself. DM's selector works on bytes and never matches a name with a character beyond
ASCII; here a character is a character, as DM's documentation says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated

from pydantic import BeforeValidator

from dm.config.document import Scalar
from dm.config.regex import RegexError, compile_regex
from dm.config.scalar import wrong, wrong_type

Match = Callable[[str], bool]


class PatternError(ValueError):
    """Raised for a text that is not a pattern."""


def _closing(pattern: str, start: int) -> int:
    return pattern.find("]", start + 1)


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
    pieces: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "*":
            if at != len(pattern) - 1:
                raise PatternError("`*` can stand at the end only")
            pieces.append(".*")
        elif character == "?":
            pieces.append(".")
        elif character == "[" and _closing(pattern, at) != -1:
            end = _closing(pattern, at)
            pieces.append(_set(pattern[at + 1 : end]))
            at = end
        else:
            pieces.append(re.escape(character))
        at += 1
    return re.compile("".join(pieces), re.DOTALL)


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


def _checked(value: object, *, regex: bool) -> object:
    if not isinstance(value, Scalar):
        if isinstance(value, str):
            return value
        raise wrong_type(value, "a name or a pattern")
    try:
        matcher(value.text, case_sensitive=True, regex=regex)
    except PatternError as error:
        raise wrong(
            "config-bad-pattern", "a name, a wildcard" + (" or `~regex`" if regex else ""), why=str(error)
        ) from None
    except RegexError as error:
        raise wrong("config-bad-regex", "Go's (RE2) syntax", why=str(error)) from None
    return value.text


WildcardText = Annotated[str, BeforeValidator(lambda value: _checked(value, regex=False))]
PatternText = Annotated[str, BeforeValidator(lambda value: _checked(value, regex=True))]
