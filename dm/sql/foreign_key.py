"""What the text of a statement says about foreign keys."""

from __future__ import annotations

from dm.sql.piece import Piece
from dm.sql.token import tokenize

_EVENTS = ("DELETE", "UPDATE")
_ACTIONS = (("CASCADE",), ("SET", "NULL"), ("SET", "DEFAULT"))


def acts(piece: Piece) -> bool:
    """Whether a statement adds a foreign key that changes rows itself.

    No other clause has ON DELETE or ON UPDATE with one of these actions (a column's ON UPDATE has a function).
    """
    if not piece.references:
        return False
    words = [token.upper for token in tokenize(piece.text, piece.context)]
    return any(
        word == "ON" and words[at + 1] in _EVENTS and any(tuple(words[at + 2 :][: len(one)]) == one for one in _ACTIONS)
        for at, word in enumerate(words[:-2])
    )
