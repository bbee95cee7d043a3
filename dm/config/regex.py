"""Regular expressions with the meaning they have in DM's files, which is that of Go's RE2.

Files written for DM hold RE2 expressions; Python's `re` reads most of them, some with another meaning and without a
word. So an expression is read here once and written again in Python's syntax: classes such as `\\d`, `\\w`, `\\s`,
`\\b` are ASCII, `$` is the end of the text and not the place before a last newline, `\\z` is spelled `\\Z`,
`[[:alpha:]]` is a class, `{,3}` and a stray `{` are themselves, flags hold from where they stand to the end of their
group. What RE2 has not (look-around, back-references, atomic groups, possessive quantifiers) is refused, and so is the
little that this translation does not know (`\\p{Greek}`, `\\C`): never silently another meaning. (Syntax:
https://github.com/google/re2/wiki/Syntax)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from dm.text import is_decimal

_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t\x20", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": r"\x20-~", "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\x0b\x0c\r\x20", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_POSIX_NEGATED = {
    "alnum": r"\x00-/:-@\[-`{-\U0010ffff",
    "alpha": r"\x00-@\[-`{-\U0010ffff",
    "ascii": r"\x80-\U0010ffff",
    "blank": r"\x00-\x08\x0a-\x1f!-\U0010ffff",
    "cntrl": r"\x20-~\x80-\U0010ffff",
    "digit": r"\x00-/:-\U0010ffff",
    "graph": r"\x00-\x20\x7f-\U0010ffff",
    "lower": r"\x00-`{-\U0010ffff",
    "print": r"\x00-\x1f\x7f-\U0010ffff",
    "punct": r"\x00-\x200-9A-Za-z\x7f-\U0010ffff",
    "space": r"\x00-\x08\x0e-\x1f!-\U0010ffff",
    "upper": r"\x00-@\[-\U0010ffff",
    "word": r"\x00-/:-@\[-^`{-\U0010ffff",
    "xdigit": r"\x00-/:-@G-`g-\U0010ffff",
}
_PERL = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\x0c\r\x20"}
_PERL_NEGATED = {
    "D": _POSIX_NEGATED["digit"],
    "W": _POSIX_NEGATED["word"],
    "S": r"\x00-\x08\x0b\x0e-\x1f!-\U0010ffff",
}
_CONTROL = {"a": r"\x07", "f": r"\x0c", "t": r"\t", "n": r"\n", "r": r"\r", "v": r"\x0b"}
_REPEAT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAME = re.compile(r"\(\?P?<([A-Za-z_][A-Za-z0-9_]*)>")
_REPEAT_LIMIT = 1000  # RE2 accepts no larger one


class RegexError(ValueError):
    """Raised for an expression that RE2 or this translation does not accept; the text says why."""


@lru_cache(maxsize=4096)
def compile_regex(pattern: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """Compile an RE2 expression; `search` of the result is RE2's unanchored match. Raises RegexError."""
    translated = _Translation(pattern).translate()
    try:
        return re.compile(translated, re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise RegexError(str(error).split(" at position", 1)[0]) from None


@dataclass(slots=True)
class _Translation:
    pattern: str
    at: int = 0
    out: list[str] = field(default_factory=list)
    groups: list[tuple[list[str], str]] = field(default_factory=list)  # of each enclosing group: `scopes` and `flags`
    scopes: list[str] = field(default_factory=list)  # `(?i)` becomes `(?i:` up to the end of the group it stands in
    flags: str = ""

    def translate(self) -> str:
        while self.at < len(self.pattern):
            self._next()
        if self.groups:
            raise RegexError("missing closing )")
        return "".join(self.out) + ")" * len(self.scopes)

    def _next(self) -> None:
        character = self.pattern[self.at]
        if character == "\\":
            self._escape()
        elif character == "[":
            self._set()
        elif character == "(":
            self._group()
        elif character == ")":
            self._close()
        elif character in "*+?":
            self.at += 1
            self._quantifier(character)
        elif character == "{":
            self._braces()
        elif character == "|":
            self._alternative()
        elif character == "$":
            self.out.append("$" if "m" in self.flags else r"\Z")
            self.at += 1
        else:
            # `#` and blanks are themselves: RE2 has no verbose mode and neither is it set here.
            self.out.append(character)
            self.at += 1

    def _quantifier(self, written: str) -> None:
        lazy = self.pattern.startswith("?", self.at)
        if lazy:
            self.at += 1
        rest = self.pattern[self.at : self.at + 1]
        if rest in ("*", "+", "?") or (rest == "{" and _REPEAT.match(self.pattern, self.at)):
            raise RegexError(f"a repetition of a repetition ({written}{'?' if lazy else ''}{rest})")
        if "U" in self.flags:
            lazy = not lazy
        self.out.append(written + ("?" if lazy else ""))

    def _braces(self) -> None:
        match = _REPEAT.match(self.pattern, self.at)
        if match is None:
            self.out.append(r"\{")
            self.at += 1
            return
        low, high = int(match[1]), int(match[3]) if match[3] else int(match[1])
        if low > _REPEAT_LIMIT or high > _REPEAT_LIMIT or high < low:
            raise RegexError(f"repetition {match[0]} (at most {_REPEAT_LIMIT}, first number not above the second)")
        self.at = match.end()
        self._quantifier(match[0])

    def _group(self) -> None:
        rest = self.pattern[self.at :]
        flags, name = _FLAGS.match(rest), _NAME.match(rest)
        if rest.startswith("(?") and name is not None:
            self._enter(self.flags)
            self.out.append(f"(?P<{name[1]}>")
            self.at += name.end()
        elif flags is not None:
            self._set_flags(flags)
        elif rest.startswith("(?"):
            raise RegexError(f"RE2 has no {rest[:3]}...) (look-around, back-references, atomic groups)")
        else:
            self._enter(self.flags)
            self.out.append("(")
            self.at += 1

    def _set_flags(self, match: re.Match[str]) -> None:
        on, off, end = match[1], match[2] or "", match[3]
        if not on and not off and end == ")":
            raise RegexError("(?) sets no flag")
        before = self.flags
        after = "".join(flag for flag in "imsU" if (flag in before or flag in on) and flag not in off)
        python_on = "".join(sorted(set(on) - {"U"} - set(off)))
        python_off = "".join(sorted(set(off) - {"U"}))
        scoped = f"(?{python_on}{'-' + python_off if python_off else ''}:"
        self.out.append(scoped)
        if end == ":":
            self._enter(before)
        else:
            self.scopes.append(scoped)
        self.flags = after
        self.at += match.end()

    def _close(self) -> None:
        if not self.groups:
            raise RegexError("unexpected )")
        self.out.append(")" * (len(self.scopes) + 1))
        self.scopes, self.flags = self.groups.pop()
        self.at += 1

    def _enter(self, outside: str) -> None:
        self.groups.append((self.scopes, outside))
        self.scopes = []

    def _alternative(self) -> None:
        # `a(?i)b|c` is `a(?i:b)|(?i:c)`: a flag crosses the bar, but its group must not hold the bar.
        self.out.append(")" * len(self.scopes) + "|" + "".join(self.scopes))
        self.at += 1

    def _escape(self) -> None:
        following = self.pattern[self.at + 1 : self.at + 2]
        if not following:
            raise RegexError("a \\ at the end")
        if following == "Q":
            end = self.pattern.find(r"\E", self.at + 2)
            quoted = self.pattern[self.at + 2 :] if end == -1 else self.pattern[self.at + 2 : end]
            self.out.append("".join(re.escape(character) for character in quoted))
            self.at = len(self.pattern) if end == -1 else end + 2
            return
        self.at += 2
        if following in _PERL:
            self.out.append(f"[{_PERL[following]}]")
        elif following in _PERL_NEGATED:
            self.out.append(f"[^{_PERL[following.lower()]}]")
        elif following == "b":
            self.out.append(r"(?a:\b)")
        elif following == "B":
            self.out.append(r"(?:(?a:\B)|\A\Z)")  # Python's \B does not match in an empty text
        elif following == "A":
            self.out.append(r"\A")
        elif following == "z":
            self.out.append(r"\Z")
        else:
            self.at -= 2
            self.out.append(self._literal_escape())

    def _literal_escape(self) -> str:
        """An escape that stands for one character, here and in a set; moves after it."""
        following = self.pattern[self.at + 1 : self.at + 2]
        rest = self.pattern[self.at + 1 :]
        if following in _CONTROL:
            self.at += 2
            return _CONTROL[following]
        if following == "x":
            match = re.match(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})", rest)
            if match is None or int(match[1] or match[2], 16) > 0x10FFFF:
                raise RegexError("an unknown \\x escape")
            self.at += 1 + match.end()
            return f"\\U{int(match[1] or match[2], 16):08x}"
        octal = re.match(r"0[0-7]{0,2}|[1-7][0-7]{1,2}", rest)
        if octal is not None:
            self.at += 1 + octal.end()
            return f"\\U{int(octal[0], 8):08x}"
        if is_decimal(following):
            raise RegexError(f"RE2 has no back-references (\\{following})")
        if following.isascii() and not following.isalnum():
            self.at += 2
            return re.escape(following)
        raise RegexError(f"an unknown escape (\\{following})")

    def _set(self) -> None:
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        if negated:
            self.at += 1
        items: list[str] = []
        first = True
        while first or not self.pattern.startswith("]", self.at):
            if self.at >= len(self.pattern):
                raise RegexError("missing closing ]")
            first = False
            known = self._class()
            if known is not None:
                items.append(known)
                continue
            low = self._member()
            if self.pattern.startswith("-", self.at) and not self.pattern.startswith("-]", self.at):
                self.at += 1
                if self.at >= len(self.pattern):
                    raise RegexError("missing closing ]")
                high = self._member()
                items.append(f"{low}-{high}")
            else:
                items.append(low)
        self.at += 1
        self.out.append(f"[{'^' if negated else ''}{''.join(items)}]")

    def _class(self) -> str | None:
        if self.pattern.startswith("[:", self.at):
            end = self.pattern.find(":]", self.at)
            if end == -1:
                return None
            name = self.pattern[self.at + 2 : end]
            negated = name.startswith("^")
            content = (_POSIX_NEGATED if negated else _POSIX).get(name.removeprefix("^"))
            if content is None:
                raise RegexError(f"an unknown class [:{name}:]")
            self.at = end + 2
            return content
        if self.pattern.startswith("\\", self.at):
            letter = self.pattern[self.at + 1 : self.at + 2]
            content = _PERL.get(letter) or _PERL_NEGATED.get(letter)
            if content is not None:
                self.at += 2
            return content
        return None

    def _member(self) -> str:
        character = self.pattern[self.at]
        if character == "\\":
            return self._literal_escape()
        self.at += 1
        return character if character.isalnum() else re.escape(character) if character.isascii() else character
