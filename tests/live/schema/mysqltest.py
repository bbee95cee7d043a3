"""Statements of the scripts that MariaDB's own suite is made of (mysqltest(1)), as far as DDL needs them.

A script is statements, each up to a delimiter, and commands to the program that runs it: words of its own, or anything
on one line after `--`. Commands are left out, but for those that change how the rest is cut (`delimiter`, texts up to
a mark) and those that make statements (`let`, `eval`). Conditions and loops are run through once. A statement with a
variable that nobody set here is left out.

Scripts are in many character sets, so they are read as bytes; each is one character of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ENCODING: Final = "latin-1"
_SENT: Final = re.compile(r"(?:send|query|evalp?|query_vertical|query_horizontal)\s+(.*)", re.DOTALL | re.IGNORECASE)
_LET: Final = re.compile(r"let\s+\$?(\w+)\s*=\s*([^`]*)", re.DOTALL | re.IGNORECASE)
_VARIABLE: Final = re.compile(r"\$(\w+)")
_UP_TO_MARK: Final = frozenset({"perl", "write_file", "append_file"})
_QUOTES: Final = "'\"`"


class Script:
    """One script while it is read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._delimiter = ";"
        self._variables: dict[str, str] = {}

    def statements(self) -> Iterator[str]:
        """What the script sends to the server."""
        while (part := self._next()) is not None:
            sent = self._sent(part)
            if sent:
                yield sent

    def _line(self) -> str:
        end = self._text.find("\n", self._at)
        end = len(self._text) if end < 0 else end
        line, self._at = self._text[self._at : end], end + 1
        return line

    def _next(self) -> str | None:
        """The next statement or command; empty for a comment."""
        text = self._text
        while self._at < len(text) and text[self._at].isspace():
            self._at += 1
        if self._at >= len(text):
            return None
        if text[self._at] == "#":
            self._line()
            return ""
        if text.startswith("--", self._at):
            return self._line()[2:].strip()
        if text[self._at] in "{}":
            self._at += 1
            return ""
        return self._up_to_delimiter()

    def _up_to_delimiter(self) -> str:
        text, start = self._text, self._at
        branch = re.match(r"(?:if|while|else)\b", text[start : start + 6], re.IGNORECASE) is not None
        at, quote = start, ""
        while at < len(text):
            char = text[at]
            if quote:
                if char == "\\" and quote != "`":
                    at += 1
                elif char == quote:
                    quote = ""
            elif text.startswith(self._delimiter, at):
                self._at = at + len(self._delimiter)
                return text[start:at]
            elif branch and char == "{":
                self._at = at + 1
                return ""
            elif char in _QUOTES:
                quote = char
            elif char == "\n" and re.match(r"\s*(?:#|--\s)", text[at : at + 40]):
                end = text.find("\n", text.find("#" if "#" in text[at : at + 40] else "--", at))
                at = len(text) if end < 0 else end - 1
            at += 1
        self._at = len(text)
        return text[start:]

    def _sent(self, part: str) -> str:
        word = re.match(r"\w*", part)
        assert word is not None
        command = word[0].lower()
        if command == "delimiter":
            self._delimiter = part[len(command) :].strip() or ";"
            return ""
        if command in _UP_TO_MARK:
            found = part.split()
            mark = found[-1].rstrip(";") if len(found) > (1 if command == "perl" else 2) else "EOF"
            while self._at < len(self._text) and self._line().strip() != mark:
                pass
            return ""
        let = _LET.fullmatch(part)
        if let is not None:
            self._variables[let[1]] = let[2].strip()
            return ""
        sent = _SENT.fullmatch(part)
        if sent is None:
            return part.strip()
        return self._filled(sent[1].strip())

    def _filled(self, statement: str) -> str:
        for _ in range(3):  # values may name variables
            statement = _VARIABLE.sub(lambda name: self._variables.get(name[1], name[0]), statement)
        return "" if _VARIABLE.search(statement) else statement


def statements_of(path: Path) -> list[bytes]:
    """The statements of a script in the order in which they stand there."""
    script = Script(path.read_bytes().decode(_ENCODING))
    return [statement.encode(_ENCODING) for statement in script.statements()]
