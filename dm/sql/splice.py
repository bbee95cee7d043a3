"""Replacing names in a statement.

Names are replaced by offset; everything else is copied. The caller tokenizes the new text again, and its tokens must be
the old ones except for the replaced names. The new text means the same under any sql_mode: the source's reading of `"`
and backslash is resolved in the text, because the target's session reads them in one fixed way.
"""

from __future__ import annotations

from collections.abc import Callable

from dm.ident import Ident, TableName
from dm.sql.context import SourceContext
from dm.sql.cursor import NameRef
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
    refs = sorted(names, key=lambda ref: ref.start)
    at = index = 0
    for ref in refs:
        while index < len(tokens) and tokens[index].end <= ref.start:
            out += (text[at : tokens[index].start], _requoted(text, tokens[index], context))
            at = tokens[index].end
            expected.append(tokens[index].meaning)
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
    for token in tokens[index:]:
        out += (text[at : token.start], _requoted(text, token, context))
        at = token.end
        expected.append(token.meaning)
    return "".join(out), expected
