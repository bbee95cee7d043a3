"""A statement as messages may show it: its shape without the rows in it."""

from __future__ import annotations

import re
from typing import Final

_LENGTH: Final = 200
_SCANNED: Final = 4096
_VALUES: Final = re.compile(
    r"`(?:[^`]|``)*`"  # a name: kept
    r"|(?:_[a-z0-9]+ ?)?(?:'(?:[^'\\]|\\.|'')*(?:'|\Z)|0x[0-9A-Fa-f]*)"
    r'|"(?:[^"\\]|\\.|"")*(?:"|\Z)'
    r"|(?<![\w`])-?\d[\w.]*(?:(?<=[eE])[+-]\d+)?",
    re.DOTALL,
)
_ROW: Final = r"\((?:\?|NULL)(?:, ?(?:\?|NULL))*\)"
_REPEATED: Final = re.compile(f"({_ROW})(?:, ?{_ROW})+")


def shape(sql: bytes) -> str:
    """The statement with every literal as `?`, cut to a readable length."""
    text = sql[:_SCANNED].decode("utf-8", "replace")
    text = _VALUES.sub(lambda match: match[0] if match[0].startswith("`") else "?", text)
    text = _REPEATED.sub(r"\1,...", text)
    return text if len(text) <= _LENGTH else text[: _LENGTH - 3] + "..."
