"""REFERENCES after a column, where the source parses and ignores it.

`a INT REFERENCES p (id)` made no foreign key before MySQL 9.0.0 (its release notes) and before MariaDB 10.5 (its
manual, "Foreign Keys"). A newer target would make one. It would then refuse rows that the source accepted, and ON
DELETE CASCADE would delete rows that the source kept. So the clause is removed from the statement before anything else
reads it.
"""

from __future__ import annotations

from typing import Final

from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import Token, tokenize

_EVENTS: Final = ("DELETE", "UPDATE")


def _clause_end(tokens: tuple[Token, ...], at: int) -> int:
    """The index after the clause whose REFERENCES is at `at`: parent, its columns, MATCH, ON DELETE, ON UPDATE."""

    def word(index: int) -> str:
        return tokens[index].upper if index < len(tokens) else ""

    at += 2  # the word and a name
    if word(at) == ".":
        at += 2
    if word(at) == "(":
        while word(at) != ")":
            at += 1
        at += 1
    if word(at) == "MATCH":
        at += 2
    while word(at) == "ON" and word(at + 1) in _EVENTS:
        at += 4 if word(at + 2) in ("SET", "NO") else 3  # SET NULL, SET DEFAULT and NO ACTION are two words
    return at


def without_ignored_references(text: str, context: SourceContext) -> str:
    """The statement without what its source has ignored; raises DMError if it can't be tokenized."""
    if context.dialect.honours_inline_references or "references" not in text.lower():
        return text
    tokens = tokenize(text, context)
    out, copied, at = [], 0, 0
    depth, foreign = 0, {0: False}  # whether the element of each depth has the words FOREIGN KEY
    while at < len(tokens):
        word = tokens[at].upper
        if word == "(":
            depth += 1
            foreign[depth] = False
        elif word == ")":
            depth -= 1
        elif word == ",":
            foreign[depth] = False
        elif word == "FOREIGN":
            foreign[depth] = True
        elif word == "REFERENCES" and not foreign[depth]:
            end = _clause_end(tokens, at)
            out.append(text[copied : tokens[at].start])
            copied = tokens[end - 1].end
            at = end
            continue
        at += 1
    return "".join([*out, text[copied:]])
