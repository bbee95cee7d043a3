"""What a terminal is shown of texts that others wrote."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from dm.text import visible, visible_json

_ANY = st.text(st.characters(exclude_categories=()))  # lone surrogates as well
_BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}  # embeddings, overrides, isolates


def _obeyed(character: str) -> bool:
    """Whether a terminal does something other than show it, or shows what follows elsewhere."""
    if character in "\t\n":
        return False
    category = unicodedata.category(character)
    marks = character in "\u200e\u200f\u061c"
    return category in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(character) in _BIDI or marks


def test_each_character_that_a_terminal_obeys_is_escaped_and_no_other_one() -> None:
    for code in range(0x110000):
        shown = visible(chr(code))
        assert (shown != chr(code)) is _obeyed(chr(code)), hex(code)
        assert not any(map(_obeyed, shown))
    assert visible("a\x1b[2J\x9b31m\u202eb\x7f\r\n\tc\ud800") == "a\\x1b[2J\\x9b31m\\u202eb\\x7f\\x0d\n\tc\\ud800"


@given(_ANY)
def test_json_keeps_its_meaning(text: str) -> None:
    document = {"a": [text], text: None}
    shown = visible_json(json.dumps(document, ensure_ascii=False, indent=4))
    assert json.loads(shown) == document
    assert not any(map(_obeyed, shown))
    shown.encode()
