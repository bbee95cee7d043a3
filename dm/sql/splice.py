"""Replacing names in a statement.

Names are replaced by offset; everything else is copied. Other names are quoted where some server reserves them
(`dm.sql.reserved`). The caller tokenizes the new text again, and its tokens must be the old ones, except for the names
that were replaced and for the words that are quoted names now. The new text means the same under any sql_mode: the
source's reading of `"` and backslash is resolved in the text, because the target's session reads them in one fixed way.
"""

from __future__ import annotations

from collections.abc import Callable

from dm.ident import Ident, TableName
from dm.sql.context import SourceContext
from dm.sql.cursor import NameRef
from dm.sql.reserved import names_elsewhere_reserved
from dm.sql.token import Token

Mapping = Callable[[TableName], TableName]


def _requoted(text: str, token: Token, context: SourceContext) -> str:
    """A quoted token in a form that sessions with neither ANSI_QUOTES nor NO_BACKSLASH_ESCAPES read alike."""
    source = text[token.start : token.end]
    if token.kind == "name" and source[0] == '"':
        return Ident(token.text).sql
    if token.kind == "string" and context.no_backslash_escapes and "\\" in source:
        prefix = source[: 1 - int(source[0] in "'\"")]  # the N of a national string
        return prefix + "'" + token.text.replace("\\", "\\\\").replace("'", "''") + "'"
    return source


def splice(
    text: str, tokens: tuple[Token, ...], names: tuple[NameRef, ...], mapping: Mapping, context: SourceContext
) -> tuple[str, list[tuple[str, str]]]:
    """The new text, and what its tokens must mean."""
    out: list[str] = []
    expected: list[tuple[str, str]] = []
    reserved = names_elsewhere_reserved(tokens, context.flavor)
    at = index = 0

    def copy(index: int) -> int:
        token = tokens[index]
        quoted = index in reserved
        out.append(text[at : token.start])
        out.append(Ident(token.text).sql if quoted else _requoted(text, token, context))
        expected.append(("name", token.text) if quoted else token.meaning)
        return token.end

    for ref in sorted(names, key=lambda ref: ref.start):
        while index < len(tokens) and tokens[index].end <= ref.start:
            at = copy(index)
            index += 1
        target = mapping(ref.name)
        blank = " " if ref.start == ref.end else ""  # a missing name is inserted right after a keyword
        out += (text[at : ref.start], blank, target.sql)
        at = ref.end
        expected.append(("name", target.schema))
        if target.table:
            expected += (("symbol", "."), ("name", target.table))
        while index < len(tokens) and tokens[index].start < ref.end:
            index += 1
    for last in range(index, len(tokens)):
        at = copy(last)
    return "".join(out), expected
