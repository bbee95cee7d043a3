"""Whether a DDL statement means something else without `explicit_defaults_for_timestamp`.

Without it a TIMESTAMP that is not declared NULL is NOT NULL, and one without a default gets one (Reference Manual,
"explicit_defaults_for_timestamp"). A column that says both for itself is the same in both ways. So is what has no
TIMESTAMP, but for a table that takes its columns from a query.
"""

from __future__ import annotations

from collections.abc import Sequence

from dm.sql.context import SourceContext
from dm.sql.token import Token, tokenize


def has_implicit_timestamps(statement: str, context: SourceContext) -> bool:
    """Whether it may; where that is not known, it does."""
    tokens = list(tokenize(statement, context))
    if any(token.upper == "SELECT" for token in tokens):
        return True
    return any(token.upper == "TIMESTAMP" and not _says_all(tokens[at + 1 :]) for at, token in enumerate(tokens))


def _says_all(rest: Sequence[Token]) -> bool:
    """Whether the definition whose type is before says if it may be NULL, and what its default is."""
    words = list[str]()
    depth = 0
    for token in rest:
        if token.kind == "symbol" and token.text == "(":
            depth += 1
        elif token.kind == "symbol" and token.text == ")":
            depth -= 1
        elif depth == 0 and token.kind == "symbol" and token.text in (",", ";"):
            break
        elif depth == 0:
            words.append(token.upper)
        if depth < 0:
            break
    # NULL as a default stands behind DEFAULT; it says nothing of whether the column may be NULL.
    declared = [word for before, word in zip(["", *words], words, strict=False) if before != "DEFAULT"]
    if "NULL" not in declared:
        return False
    return declared[declared.index("NULL") - 1 : declared.index("NULL")] != ["NOT"] or "DEFAULT" in words
