"""Sets of a wildcard that can't mean what they look like.

`t_[0-63]` looks like the tables t_0 to t_63. It means one character: 0 to 6, or 3. DM accepts it, and 57 tables are
missing from the target without a word. A set stands for one character, always; so a content that is a number with
several digits, a list of words, a class of a regular expression, or that names a character twice, was written for
something else, and the pattern is refused with one that says it. What is only unusual (`[!]`, a `[` that is never
closed, `[a-]`) keeps the meaning that DM documents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBERS = re.compile(r"([0-9]+)-([0-9]+)")
_PERL_CLASS = re.compile(r"\\[dDwWsS]")
_FAR = 19  # digits of the largest number that is written out


@dataclass(frozen=True, slots=True)
class Misreading:
    """Why a set was hardly meant as it would be read, and the wildcards that say what it looks like, if any do."""

    why: str
    meant: tuple[str, ...] = ()


def misreading(content: str) -> Misreading | None:
    """What is wrong with the content of a set, the brackets excluded; None when it can be meant as it stands."""
    if content == "!":
        return None
    negated = content.startswith("!")
    members = content[1:] if negated else content
    if not members:
        return Misreading("it holds nothing, so no name matches")
    if content.startswith("^") and len(content) > 1:
        rest = content[1:]
        return Misreading("`^` is one of its characters; not to be in a set is written `!`", (f"[!{rest}]",))
    if members.startswith((":", "[:")) and members.endswith(":") and len(members) > 3:
        return Misreading("classes such as `[:digit:]` exist in regular expressions; here each letter is itself")
    if _PERL_CLASS.search(members):
        return Misreading("a backslash is one of its characters; classes such as `\\d` exist in regular expressions")
    numbers = _NUMBERS.fullmatch(members)
    if numbers is not None and len(members) > 3:
        return _numbers(numbers[1], numbers[2], negated=negated)
    for separator in (",", "|"):
        if separator in members[1:-1]:
            return _list(members.split(separator), separator, negated=negated)
    return _repeated(members)


def _numbers(low: str, high: str, *, negated: bool) -> Misreading:
    why = f"it stands for one character, not for the numbers {low} to {high}"
    if negated or int(low) > int(high) or len(high) > _FAR:
        return Misreading(why)
    return Misreading(why, tuple(_number_forms(low, high)))


def _list(items: list[str], separator: str, *, negated: bool) -> Misreading:
    why = f"`{separator}` is one of its characters, it separates nothing"
    if all(len(item) == 1 for item in items):
        return Misreading(why, (f"[{'!' if negated else ''}{''.join(dict.fromkeys(items))}]",))
    if negated or not all(item and item.isalnum() for item in items):
        return Misreading(why)
    return Misreading(why, tuple(dict.fromkeys(items)))


def _repeated(members: str) -> Misreading | None:
    seen: set[int] = set()
    at = 0
    while at < len(members):
        first = last = members[at]
        at += 1
        if at + 1 < len(members) and members[at] == "-":
            last = members[at + 1]
            at += 2
        if first > last:
            return Misreading(f"no character lies in `{first}-{last}`", ("[" + last + "-" + first + "]",))
        codes = set(range(ord(first), ord(last) + 1))
        if codes & seen:
            twice = chr(min(codes & seen))
            return Misreading(f"it stands for one character, and holds `{twice}` twice")
        seen |= codes
    return None


def _number_forms(low: str, high: str) -> list[str]:
    """Wildcards for the numbers between two, both included; as many digits for each as the first, if that has a 0."""
    if len(low) == len(high) or (low.startswith("0") and len(low) > 1):
        width = max(len(low), len(high))
        return _same_length(low.zfill(width), high.zfill(width))
    forms: list[str] = []
    for length in range(len(low), len(high) + 1):
        first = low if length == len(low) else "1" + "0" * (length - 1)
        last = high if length == len(high) else "9" * length
        forms += _same_length(first, last)
    return forms


def _same_length(low: str, high: str) -> list[str]:
    """Wildcards for the texts of digits between two of one length, both included."""
    if not low:
        return [""]
    if set(low) == {"0"} and set(high) == {"9"}:
        return ["[0-9]" * len(low)]
    first, last = low[0], high[0]
    if first == last:
        return [first + rest for rest in _same_length(low[1:], high[1:])]
    rest = len(low) - 1
    forms: list[str] = []
    lower, upper = int(first), int(last)
    if low[1:] != "0" * rest:
        forms += [first + form for form in _same_length(low[1:], "9" * rest)]
        lower += 1
    tail: list[str] = []
    if high[1:] != "9" * rest:
        tail = [last + form for form in _same_length("0" * rest, high[1:])]
        upper -= 1
    if lower <= upper:
        head = str(lower) if lower == upper else f"[{lower}-{upper}]"
        forms.append(head + "[0-9]" * rest)
    return forms + tail
