"""Values that a statement writes into existing rows, and that another server would not write.

The binlog has an ALTER TABLE as a statement, even if it changes rows. Repeated in the same session it mostly produces
the same rows, but not always. A new column has other values on each server if its DEFAULT uses a random number, or the
server's identity or place. And values that are counted or chosen row by row are the same only if the rows are met in
the same order: the numbers of an AUTO_INCREMENT column, and the duplicates that MariaDB's ALTER IGNORE drops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dm.ident import Ident
from dm.mysql.sql.cursor import Clause
from dm.mysql.sql.operation import AddColumn, ChangeColumn, ModifyColumn, Operation
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import tokenize

# Functions that a DEFAULT may call and whose result depends on more than the statement and its session. MariaDB logs
# what MySQL refuses to log (UUID).
_FUNCTIONS: Final = frozenset(
    {
        "CONNECTION_ID", "CURRENT_ROLE", "CURRENT_USER", "DATABASE", "ENCRYPT", "LASTVAL", "LAST_INSERT_ID", "NEXTVAL",
        "PS_CURRENT_THREAD_ID", "PS_THREAD_ID", "RAND", "RANDOM_BYTES", "ROLES_GRAPHML", "SCHEMA", "SESSION_USER",
        "SYSDATE", "SYSTEM_USER", "SYS_GUID", "USER", "UUID", "UUID_SHORT", "UUID_V4", "UUID_V7", "VERSION",
    }
)  # fmt: skip
_WITHOUT_PARENTHESES: Final = frozenset({"CURRENT_ROLE", "CURRENT_USER"})
_SEQUENCES: Final = ("NEXT", "PREVIOUS")  # NEXT VALUE FOR s


@dataclass(frozen=True, slots=True)
class OwnValues:
    """A server's own decision about existing rows."""

    what: str
    ordered: bool = False  # depends on the order of the rows: a single row, or the same order, gives the same result
    column: str | None = None  # AUTO_INCREMENT for an existing column: it numbers only rows without a number
    condition: str = "TRUE"  # of the affected rows


def own_values(piece: Piece) -> list[OwnValues]:
    """The values that the server itself determines for existing rows; empty for most pieces."""
    if piece.verb != "ALTER TABLE":
        return []
    found = [one for operation in piece.operations if (one := _of(operation)) is not None]
    if any(token.upper == "IGNORE" for token in tokenize(piece.text[: piece.names[0].start], piece.context)):
        found.append(OwnValues("which of the rows with one key stays", ordered=True))
    return found


def numbered(definition: Clause) -> bool:
    """Whether a column is defined as AUTO_INCREMENT, in any of its three spellings."""
    words = definition.words
    attribute = ["SERIAL", "DEFAULT", "VALUE"]
    return (
        "AUTO_INCREMENT" in words
        or words[:1] == ["SERIAL"]
        or any(words[at : at + 3] == attribute for at in range(1, len(words)))
    )


def _of(operation: Operation) -> OwnValues | None:
    if not isinstance(operation, AddColumn | ModifyColumn | ChangeColumn):
        return None
    words = operation.definition.words
    if numbered(operation.definition):
        if isinstance(operation, AddColumn):
            return OwnValues(f"the numbers of the new column {operation.column}", ordered=True)
        name = Ident(operation.column).sql
        return OwnValues(
            f"the numbers that column {operation.column} gets in place of 0 and NULL",
            ordered=True,
            column=operation.column,
            condition=f"{name} IS NULL OR {name} = 0",
        )
    if isinstance(operation, AddColumn) and "DEFAULT" in words:
        function = _called(operation.definition, words.index("DEFAULT") + 1)
        if function:
            return OwnValues(f"{function} as the value of the new column {operation.column}")
    return None


def _called(definition: Clause, start: int) -> str:
    """The first element of a DEFAULT that only the server itself knows; empty if there is none."""
    tokens = definition.tokens[start:]
    for at, token in enumerate(tokens):
        following = tokens[at + 1].upper if at + 1 < len(tokens) else ""
        if token.upper in _FUNCTIONS and (following == "(" or token.upper in _WITHOUT_PARENTHESES):
            return token.upper
        if token.upper in _SEQUENCES and following == "VALUE":
            return f"{token.upper} VALUE"
        if token.upper.startswith("@"):
            return "a variable"
    return ""
